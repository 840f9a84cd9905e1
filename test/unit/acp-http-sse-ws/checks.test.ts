import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { describe, it } from "node:test";
import { silentLogger } from "gantry";
import { AcpHttpTransport } from "gantry/adapters/acp-http-sse-ws";
import { transportChecks } from "gantry/testing";
import { connectWebSocketClient } from "../../helpers/transport-clients.js";

describe("AcpHttpTransport (transport contract)", () => {
  let blockingServer: Server | undefined;
  const checks = transportChecks({
    create: () => Promise.resolve(new AcpHttpTransport({ port: 0 }, silentLogger, undefined)),
    createFailing: async () => {
      blockingServer = createServer();
      blockingServer.listen(0, "127.0.0.1");
      await once(blockingServer, "listening");
      return new AcpHttpTransport({ port: (blockingServer.address() as AddressInfo).port }, silentLogger, undefined);
    },
    connect: connectWebSocketClient,
    onDisconnect: "cancel",
    clean: async () => {
      const server = blockingServer;
      blockingServer = undefined;
      if (server) await new Promise((resolve) => server.close(resolve));
    },
  });
  for (const check of checks) it(check.name, () => check.run());
});
