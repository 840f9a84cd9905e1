import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { it } from "node:test";
import { ClientLookup } from "../../../src/http/client-lookup.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const LINUX_ONLY = { skip: process.platform === "linux" ? false : "only Linux has /proc" };
const logger = { debug() {}, info() {}, warn() {}, error() {} };

it(
  "ClientLookup identifies a running client process as `outside`, and a closed client as `gone`",
  LINUX_ONLY,
  async (t) => {
    const { port, server } = await startServer(t);
    const clientLookup = new ClientLookup(logger);
    const { client, socket: serverSocket } = await connectClient(server, port);
    assert.equal(await clientLookup.identify(serverSocket), "outside");
    client.destroy();
    await once(client, "close");
    // The server's end of the connection stays open, as while the buffer of the connection contains a request.
    assert.notEqual(serverSocket.remoteAddress, undefined);
    assert.equal(await clientLookup.identify(serverSocket), "gone");
    serverSocket.destroy();
  },
);

async function startServer(t: Hooks): Promise<{ port: number; server: Server }> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }).listen(0, "127.0.0.1");
  t.after(() => void server.close());
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, server };
}

async function connectClient(server: Server, port: number): Promise<{ client: Socket; socket: Socket }> {
  const connectionEvent = once(server, "connection") as Promise<[Socket]>;
  const client = connect(port, "127.0.0.1");
  const [socket] = await connectionEvent;
  return { client, socket };
}
