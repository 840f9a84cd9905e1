// A run of many answers. Every fifth connection breaks, in reasoning, in text or in a call. TURNS and SEED extend and
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
 * Positions in reasoning, in text and in a call, as shares of an answer. A connection breaks at a random position in
 * the quarter that follows.
 */
const BREAK_POSITIONS = [0, 0.3, 0.6] as const;

const createWords = (answerNumber: number, prefix: string): string[] =>
  Array.from({ length: 8 }, (_, i) => `${prefix}${answerNumber}.${i} `);
const createContent = (answerNumber: number): string => `file ${answerNumber}\n`.repeat(20);

/** Creates an answer of the run: reasoning, text, and a call that writes a file. The last answer has no call. */
function createAnswer(answerNumber: number): FakeStep {
  if (answerNumber > TURN_COUNT - 1)
    return { say: [{ reasoning: createWords(answerNumber, "thought") }, { text: ["All ", "is ", "written."] }] };
  const writeCall = {
    name: "write",
    arguments: { path: `f${answerNumber}.txt`, content: createContent(answerNumber) },
    pieces: 10,
  };
  return {
    say: [
      { reasoning: createWords(answerNumber, "thought") },
      { text: createWords(answerNumber, "word") },
      { call: writeCall },
    ],
  };
}

describe("a run of many turns whose connection breaks at every fifth answer", { concurrency: WIRES.length }, () => {
  for (const wire of WIRES) {
    it(`retries each broken answer and writes all files correctly: ${wire}`, async (t) => {
      const seed = readSeed();
      t.diagnostic(`seed ${seed}`);
      const random = createRandom(seed);
      const folder = await makeTempDir();
      const storeFolder = await makeTempDir();
      let requestCount = 0;
      let turn = 1;
      let brokenAnswerCount = 0;
      const server = await startFakeModelServer({
        toolFreeAnswer: textStep("A title"),
        // Like a real model, the server continues with the first file that does not exist yet.
        fallback: (_: FakeRequest) => {
          requestCount += 1;
          const step = createAnswer(turn);
          if (requestCount % BREAK_INTERVAL === 0) {
            brokenAnswerCount += 1;
            return {
              ...step,
              breaks: {
                at: BREAK_POSITIONS[brokenAnswerCount % BREAK_POSITIONS.length]! + random() * 0.25,
                by: random() < 0.5 ? "reset" : "cut",
              },
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
      const driver = new SqliteDriver({ path: storeFolder.at("sessions.db"), durability: "normal" });
      const tools = builtinTools();
      const options = { providers: [provider], driver, projectDir: folder.path, tools, maxIterations: TURN_COUNT + 1 };
      const agent = new Agent(options);
      t.after(async () => {
        await agent.close();
        await server.close();
        await folder.remove();
        await storeFolder.remove();
      });
      const retryErrors: string[] = [];
      agent.on("model.retried", ({ error }) => retryErrors.push(error.message));
      const run = await agent.run({ message: "Write them.", model: model.id, reasoningEffort: "low" });
      let streamedText = "";
      for await (const event of run) if (event.type === "token") streamedText += event.text ?? "";
      const { output, iterations } = await run.result;
      assert.ok(output.endsWith("All is written."), output);
      assert.ok(streamedText.endsWith(output));
      assert.equal(iterations, TURN_COUNT);
      assert.equal(retryErrors.length, brokenAnswerCount);
      assert.ok(brokenAnswerCount >= TURN_COUNT / BREAK_INTERVAL);
      const fileNames = await readdir(folder.path);
      assert.equal(fileNames.length, TURN_COUNT - 1);
      for (let n = 1; n < TURN_COUNT; n++) assert.equal(await folder.read(`f${n}.txt`), createContent(n));
      const storedMessages = await agent.sessions.messages(run.sessionId);
      assert.equal(storedMessages.filter(({ role }) => role === "tool").length, TURN_COUNT - 1);
      assert.ok(storedMessages.filter(({ role }) => role === "tool").every(({ failed }) => !failed));
      assert.deepEqual(server.violations, []);
      t.diagnostic(
        `${wire}: ${requestCount} answers, ${brokenAnswerCount} broken, ${storedMessages.filter((m) => !m.finished).length} stored in part`,
      );
    });
  }
});
