import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { describe, it } from "node:test";
import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
import { transportChecks } from "gantry/testing";
import { httpClient } from "../../helpers/transport-clients.js";

for (const onLeave of ["cancel", "continue"] as const) {
  describe(`KoaHttpTransport keeps the contract (on_disconnect ${onLeave})`, () => {
    let taken: Server | undefined;
    const checks = transportChecks({
      create: () => Promise.resolve(new KoaHttpTransport({ port: 0, onDisconnect: onLeave })),
      unable: async () => {
        taken = createServer();
        taken.listen(0, "127.0.0.1");
        await once(taken, "listening");
        return new KoaHttpTransport({ port: (taken.address() as AddressInfo).port });
      },
      connect: httpClient,
      onLeave,
      clean: async () => {
        const server = taken;
        taken = undefined;
        if (server) await new Promise((resolve) => server.close(resolve));
      },
    });
    for (const check of checks) it(check.name, () => check.run());
  });
}
