/**
 * Runs every situation on every wire protocol and prints the table of docs/models.md. Run it with `node --import tsx
 * --conditions=@gantry/source test/bench/model-matrix.ts`.
 */
import { AiSdkProvider, WIRES } from "gantry/adapters/language-models";
import { startFakeModelServer } from "../helpers/fake-model-server.js";
import { baseUrlOf, SITUATIONS, WIRE_MODELS } from "../helpers/model-situations.js";

const apiKey = "sk-matrix-0123456789abcdef";
const lines = [`| situation | ${WIRES.join(" | ")} |`, `| --- |${" --- |".repeat(WIRES.length)}`];
let hasFailure = false;
for (const { name, exceptions, run } of SITUATIONS) {
  const cells: string[] = [];
  for (const wire of WIRES) {
    const reason = exceptions?.[wire];
    if (reason !== undefined) {
      cells.push(`none: ${reason}`);
      continue;
    }
    const server = await startFakeModelServer({ apiKey: apiKey });
    const provider = new AiSdkProvider({ name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: apiKey });
    try {
      await run({ wire, model: WIRE_MODELS[wire], server, provider, key: apiKey });
      cells.push("yes");
    } catch (error) {
      hasFailure = true;
      cells.push("**no**");
      process.stderr.write(`${wire}: ${name}: ${String(error)}\n`);
    }
    await provider.close();
    await server.close();
  }
  lines.push(`| ${name} | ${cells.join(" | ")} |`);
}
process.stdout.write(`${lines.join("\n")}\n`);
process.exitCode = hasFailure ? 1 : 0;
