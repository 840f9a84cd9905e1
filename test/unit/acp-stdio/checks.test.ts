import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { silentLogger } from "gantry";
import type { Listening } from "gantry/plugin";
import acpStdio, { AcpStdioTransport } from "gantry/adapters/acp-stdio";
import { transportChecks, type TransportClient } from "gantry/testing";
import { createStreamClients } from "../../helpers/transport-clients.js";

describe("AcpStdioTransport (transport contract)", () => {
  const options = acpStdio.parse({}, { location: "", configDir: "/", home: "/", projectDir: "/" });
  let connect: (listening: Listening) => Promise<TransportClient>;
  const checks = transportChecks({
    create: () => {
      const [input, output] = [new PassThrough(), new PassThrough()];
      connect = createStreamClients(input, output);
      return Promise.resolve(new AcpStdioTransport(options, silentLogger, { input, output }));
    },
    // Stdio streams exist as long as the process, so a start cannot fail.
    createFailing: undefined,
    connect: (listening) => connect(listening),
    onDisconnect: "cancel",
    clean: () => Promise.resolve(),
  });
  for (const check of checks) it(check.name, () => check.run());
});
