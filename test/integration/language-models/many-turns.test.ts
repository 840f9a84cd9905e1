// A task of many answers. Every fifth connection breaks, in reasoning, in text or in a call. TURNS and SEED extend and
// repeat it.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { AiSdkProvider, WIRES } from "gantry/adapters/language-models";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { say, startFakeModelServer, type FakeRequest, type FakeStep } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import { randomOf, seedOf } from "../../helpers/random.js";
import { makeTempDir } from "../../helpers/temp.js";

const TURNS = Number(process.env["TURNS"] ?? 20);
const EVERY = 5;
/**
 * Positions in reasoning, in text and in a call, as shares of an answer. Each position covers the following quarter.
 */
const PLACES = [0, 0.3, 0.6] as const;

const words = (n: number, what: string): string[] => Array.from({ length: 8 }, (_, i) => `${what}${n}.${i} `);
const contentOf = (n: number): string => `file ${n}\n`.repeat(20);

/** The answer number `n` of the task: reasoning, text, and a call that writes a file. */
function answer(n: number): FakeStep {
  if (n > TURNS - 1) return { say: [{ reasoning: words(n, "thought") }, { text: ["All ", "is ", "written."] }] };
  const write = { name: "write", arguments: { path: `f${n}.txt`, content: contentOf(n) }, pieces: 10 };
  return { say: [{ reasoning: words(n, "thought") }, { text: words(n, "word") }, { call: write }] };
}

describe("a run of many turns whose connection breaks at every fifth answer", { concurrency: WIRES.length }, () => {
  for (const wire of WIRES) {
    it(`retries each broken answer and writes all files correctly: ${wire}`, async (t) => {
      const seed = seedOf();
      t.diagnostic(`seed ${seed}`);
      const random = randomOf(seed);
      const folder = await makeTempDir();
      const store = await makeTempDir();
      let requestCount = 0;
      let turn = 1;
      let brokenCount = 0;
      const server = await startFakeModelServer({
        aside: say("A title"),
        // Like a real model, it continues with the first file that does not exist yet.
        fallback: (_: FakeRequest) => {
          requestCount += 1;
          const step = answer(turn);
          if (requestCount % EVERY === 0) {
            brokenCount += 1;
            return {
              ...step,
              breaks: { at: PLACES[brokenCount % 3]! + random() * 0.25, by: random() < 0.5 ? "reset" : "cut" },
            };
          }
          turn += 1;
          return step;
        },
      });
      const model = { ...WIRE_MODELS[wire], contextWindow: 1_000_000 };
      const provider = new AiSdkProvider({
        ...{ name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: "key", models: [model] },
      });
      const driver = new SqliteDriver({ path: store.at("sessions.db"), durability: "normal" });
      const tools = builtinTools();
      const options = { providers: [provider], driver, projectDir: folder.path, tools, maxIterations: TURNS + 1 };
      const agent = new Agent(options);
      t.after(async () => {
        await agent.close();
        await server.close();
        await folder.remove();
        await store.remove();
      });
      const retries: string[] = [];
      agent.on("model.retried", ({ error }) => retries.push(error.message));
      const run = await agent.run({ message: "Write them.", model: model.id, reasoningEffort: "low" });
      let streamed = "";
      for await (const event of run) if (event.type === "token") streamed += event.text ?? "";
      const { output, iterations } = await run.result;
      assert.ok(output.endsWith("All is written."), output);
      assert.ok(streamed.endsWith(output));
      assert.equal(iterations, TURNS);
      assert.equal(retries.length, brokenCount);
      assert.ok(brokenCount >= TURNS / EVERY);
      const names = await readdir(folder.path);
      assert.equal(names.length, TURNS - 1);
      for (let n = 1; n < TURNS; n++) assert.equal(await folder.read(`f${n}.txt`), contentOf(n));
      const stored = await agent.sessions.messages(run.sessionId);
      assert.equal(stored.filter(({ role }) => role === "tool").length, TURNS - 1);
      assert.ok(stored.filter(({ role }) => role === "tool").every(({ failed }) => !failed));
      assert.deepEqual(server.violations, []);
      t.diagnostic(
        `${wire}: ${requestCount} answers, ${brokenCount} broken, ${stored.filter((m) => !m.finished).length} stored in part`,
      );
    });
  }
});
