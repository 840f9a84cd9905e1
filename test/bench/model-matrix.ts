/**
 * Runs every situation on every wire protocol and prints the table of docs/models.md. Run it with `node --import tsx
 * --conditions=@gantry/source test/bench/model-matrix.ts`.
 */
import { AiSdkProvider, WIRES } from "gantry/adapters/language-models";
import { startFakeModelServer } from "../helpers/fake-model-server.js";
import { baseUrlOf, SITUATIONS, WIRE_MODELS } from "../helpers/model-situations.js";

const key = "sk-matrix-0123456789abcdef";
const lines = [`| situation | ${WIRES.join(" | ")} |`, `| --- |${" --- |".repeat(WIRES.length)}`];
let failed = false;
for (const { name, exceptions, run } of SITUATIONS) {
  const cells: string[] = [];
  for (const wire of WIRES) {
    const reason = exceptions?.[wire];
    if (reason !== undefined) {
      cells.push(`none: ${reason}`);
      continue;
    }
    const server = await startFakeModelServer({ apiKey: key });
    const provider = new AiSdkProvider({ name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: key });
    try {
      await run({ wire, model: WIRE_MODELS[wire], server, provider, key });
      cells.push("yes");
    } catch (error) {
      failed = true;
      cells.push("**no**");
      process.stderr.write(`${wire}: ${name}: ${String(error)}\n`);
    }
    await provider.close();
    await server.close();
  }
  lines.push(`| ${name} | ${cells.join(" | ")} |`);
}
process.stdout.write(`${lines.join("\n")}\n`);
process.exitCode = failed ? 1 : 0;
