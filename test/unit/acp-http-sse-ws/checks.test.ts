import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { describe, it } from "node:test";
import { silentLogger } from "gantry";
import { AcpHttpTransport } from "gantry/adapters/acp-http-sse-ws";
import { transportChecks } from "gantry/testing";
import { webSocketClient } from "../../helpers/transport-clients.js";

describe("AcpHttpTransport keeps the contract", () => {
  let taken: Server | undefined;
  const checks = transportChecks({
    create: () => Promise.resolve(new AcpHttpTransport({ port: 0 }, silentLogger, undefined)),
    unable: async () => {
      taken = createServer();
      taken.listen(0, "127.0.0.1");
      await once(taken, "listening");
      return new AcpHttpTransport({ port: (taken.address() as AddressInfo).port }, silentLogger, undefined);
    },
    connect: webSocketClient,
    onLeave: "cancel",
    clean: async () => {
      const server = taken;
      taken = undefined;
      if (server) await new Promise((resolve) => server.close(resolve));
    },
  });
  for (const check of checks) it(check.name, () => check.run());
});
