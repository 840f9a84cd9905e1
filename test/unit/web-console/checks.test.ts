import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { describe, it } from "node:test";
import type { Agent } from "gantry";
import type { Listening, Transport } from "gantry/plugin";
import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
import { WebConsoleTransport } from "gantry/adapters/web-console";
import { openHttpHost } from "gantry/http";
import { transportChecks } from "gantry/testing";
import { createHttpClient } from "../../helpers/transport-clients.js";

/** Starts both transports on one port, as `gantry serve` does. The API accepts prompts, the console does not. */
class ApiWithConsole implements Transport {
  readonly name = "api-with-console";
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  async start(agent: Agent): Promise<Listening> {
    const host = openHttpHost({ port: this.#port });
    const console = await new WebConsoleTransport({}, host).start(agent);
    const api = await new KoaHttpTransport({}, host).start(agent);
    const stop = async (signal: AbortSignal) => {
      host.stopAccepting();
      await console.stop(signal);
      await api.stop(signal);
      await host.close(signal);
    };
    const ended = Promise.all([console.ended, api.ended]).then(() => undefined);
    return { address: api.address, ended, stop };
  }
}

describe("contract of the transport that serves web console and HTTP API on one port", () => {
  let blockingServer: Server | undefined;
  const checks = transportChecks({
    create: () => Promise.resolve(new ApiWithConsole(0)),
    createFailing: async () => {
      blockingServer = createServer();
      blockingServer.listen(0, "127.0.0.1");
      await once(blockingServer, "listening");
      return new ApiWithConsole((blockingServer.address() as AddressInfo).port);
    },
    connect: createHttpClient,
    onDisconnect: "cancel",
    clean: async () => {
      const server = blockingServer;
      blockingServer = undefined;
      if (server) await new Promise((resolve) => server.close(resolve));
    },
  });
  for (const check of checks) it(check.name, () => check.run());
});
