/**
 * Measures tool calls whose arguments stream in many pieces. Run it with `node --import tsx --conditions=@gantry/source
 * test/bench/tool-arguments.ts`. Ten times the bytes in ten times the pieces must take about ten times as long, not a
 * hundred times.
 */
import { performance } from "node:perf_hooks";
import { AiSdkProvider, WIRES } from "gantry/adapters/language-models";
import { startFakeModelServer } from "../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../helpers/model-situations.js";
import { createRequest, readAnswer, writeTool } from "../helpers/model-requests.js";

const SIZES = [
  { kB: 30, pieces: 2_000 },
  { kB: 300, pieces: 20_000 },
];
const ROUND_COUNT = 5;

const server = await startFakeModelServer();
const rows: string[] = [];
for (const wire of WIRES) {
  const provider = new AiSdkProvider({ name: "bench", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: "k" });
  const mediansMs: number[] = [];
  for (const { kB, pieces } of SIZES) {
    const content = "x".repeat(kB * 1000);
    const durationsMs: number[] = [];
    for (let round = 0; round <= ROUND_COUNT; round++) {
      server.enqueue({ say: [{ call: { name: "write", arguments: { path: "a", content }, pieces } }] });
      const startMs = performance.now();
      const { calls } = await readAnswer(provider, createRequest({ model: WIRE_MODELS[wire], tools: [writeTool] }));
      if (calls[0]!.arguments.length < content.length) throw new Error("arguments were lost");
      // The first round loads the package and is not counted.
      if (round > 0) durationsMs.push(performance.now() - startMs);
    }
    mediansMs.push(durationsMs.sort((a, b) => a - b)[Math.floor(durationsMs.length / 2)]!);
  }
  const [smallMs, largeMs] = mediansMs as [number, number];
  // Gemini sends a call in one piece.
  const note = wire === "google" ? " (one piece)" : "";
  rows.push(
    `${(wire + note).padEnd(22)}${smallMs.toFixed(0).padStart(8)} ms${largeMs.toFixed(0).padStart(10)} ms${(largeMs / smallMs).toFixed(1).padStart(8)} x`,
  );
  await provider.close();
}
await server.close();
process.stdout.write(
  `${"wire".padEnd(22)}${"30 kB".padStart(11)}${"300 kB".padStart(13)}${"ratio".padStart(10)}\n${rows.join("\n")}\n`,
);
