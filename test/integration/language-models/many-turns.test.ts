// A task of many answers. Every fifth connection breaks, in reasoning, in text or in a call. TURNS and SEED extend and
// repeat the test.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { AiSdkProvider, WIRES } from "gantry/adapters/language-models";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { textStep, startFakeModelServer, type FakeRequest, type FakeStep } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const TURN_COUNT = Number(process.env["TURNS"] ?? 20);
const BREAK_INTERVAL = 5;
/**
 * Positions in reasoning, in text and in a call, as shares of an answer. Each position covers the following quarter.
 */
const BREAK_POSITIONS = [0, 0.3, 0.6] as const;

const createWords = (n: number, prefix: string): string[] => Array.from({ length: 8 }, (_, i) => `${prefix}${n}.${i} `);
const createContent = (n: number): string => `file ${n}\n`.repeat(20);

/** The answer number `n` of the task: reasoning, text, and a call that writes a file. */
function createAnswer(n: number): FakeStep {
  if (n > TURN_COUNT - 1)
    return { say: [{ reasoning: createWords(n, "thought") }, { text: ["All ", "is ", "written."] }] };
  const writeCall = { name: "write", arguments: { path: `f${n}.txt`, content: createContent(n) }, pieces: 10 };
  return { say: [{ reasoning: createWords(n, "thought") }, { text: createWords(n, "word") }, { call: writeCall }] };
}

describe("a run of many turns whose connection breaks at every fifth answer", { concurrency: WIRES.length }, () => {
  for (const wire of WIRES) {
    it(`retries each broken answer and writes all files correctly: ${wire}`, async (t) => {
      const seed = readSeed();
      t.diagnostic(`seed ${seed}`);
      const random = createRandom(seed);
      const folder = await makeTempDir();
      const store = await makeTempDir();
      let requestCount = 0;
      let turn = 1;
      let brokenCount = 0;
      const server = await startFakeModelServer({
        toolFreeAnswer: textStep("A title"),
        // Like a real model, it continues with the first file that does not exist yet.
        fallback: (_: FakeRequest) => {
          requestCount += 1;
          const step = createAnswer(turn);
          if (requestCount % BREAK_INTERVAL === 0) {
            brokenCount += 1;
            return {
              ...step,
              breaks: { at: BREAK_POSITIONS[brokenCount % 3]! + random() * 0.25, by: random() < 0.5 ? "reset" : "cut" },
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
      const options = { providers: [provider], driver, projectDir: folder.path, tools, maxIterations: TURN_COUNT + 1 };
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
      let streamedText = "";
      for await (const event of run) if (event.type === "token") streamedText += event.text ?? "";
      const { output, iterations } = await run.result;
      assert.ok(output.endsWith("All is written."), output);
      assert.ok(streamedText.endsWith(output));
      assert.equal(iterations, TURN_COUNT);
      assert.equal(retries.length, brokenCount);
      assert.ok(brokenCount >= TURN_COUNT / BREAK_INTERVAL);
      const fileNames = await readdir(folder.path);
      assert.equal(fileNames.length, TURN_COUNT - 1);
      for (let n = 1; n < TURN_COUNT; n++) assert.equal(await folder.read(`f${n}.txt`), createContent(n));
      const storedMessages = await agent.sessions.messages(run.sessionId);
      assert.equal(storedMessages.filter(({ role }) => role === "tool").length, TURN_COUNT - 1);
      assert.ok(storedMessages.filter(({ role }) => role === "tool").every(({ failed }) => !failed));
      assert.deepEqual(server.violations, []);
      t.diagnostic(
        `${wire}: ${requestCount} answers, ${brokenCount} broken, ${storedMessages.filter((m) => !m.finished).length} stored in part`,
      );
    });
  }
});
