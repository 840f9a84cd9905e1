import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { describe, it } from "node:test";
import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
import { transportChecks } from "gantry/testing";
import { createHttpClient } from "../../helpers/transport-clients.js";

for (const onDisconnect of ["cancel", "continue"] as const) {
  describe(`KoaHttpTransport (transport contract, on_disconnect ${onDisconnect})`, () => {
    let blockingServer: Server | undefined;
    const checks = transportChecks({
      create: () => Promise.resolve(new KoaHttpTransport({ port: 0, onDisconnect })),
      createFailing: async () => {
        blockingServer = createServer();
        blockingServer.listen(0, "127.0.0.1");
        await once(blockingServer, "listening");
        return new KoaHttpTransport({ port: (blockingServer.address() as AddressInfo).port });
      },
      connect: createHttpClient,
      onDisconnect,
      clean: async () => {
        const server = blockingServer;
        blockingServer = undefined;
        if (server) await new Promise((resolve) => server.close(resolve));
      },
    });
    for (const check of checks) it(check.name, () => check.run());
  });
}
