// Invalid tool calls of a model: names that no provider accepts in a history, and arguments nested too deep to
// serialize.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { AiSdkProvider, WIRES, type WireName } from "gantry/adapters/language-models";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { textStep, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const INVALID_NAMES = ["odd \u001b]0;title\u0007", "x".repeat(200), "読む", "3d", "-v", "read\u202e", "a.b"];
const NESTED_ARGUMENTS = `{"path":${"[".repeat(20_000)}${"]".repeat(20_000)}}`;

describe("a session with tool calls that no provider accepts in a history", { concurrency: WIRES.length }, () => {
  for (const [wireIndex, wire] of WIRES.entries()) {
    const nextWire = WIRES[(wireIndex + 1) % WIRES.length]!;
    it(`continues on ${wire}, on ${nextWire} and after a restart, and stores the calls unchanged`, async (t) => {
      const server = await startFakeModelServer({ toolFreeAnswer: textStep("A title") });
      const folder = await makeTempDir();
      const databaseFolder = await makeTempDir();
      const createAgent = (): Agent =>
        new Agent({
          providers: [wire, nextWire].map(
            (driver: WireName) =>
              new AiSdkProvider({
                ...{ name: driver, driver, baseUrl: baseUrlOf(driver, server), apiKey: "key" },
                models: [WIRE_MODELS[driver]],
              }),
          ),
          driver: new SqliteDriver({ path: databaseFolder.at("sessions.db"), durability: "normal" }),
          projectDir: folder.path,
          tools: builtinTools(),
        });
      let agent = createAgent();
      t.after(async () => {
        await agent.close();
        await server.close();
        await folder.remove();
        await databaseFolder.remove();
      });
      const runAgent = async (message: string, provider: WireName, sessionId?: string): Promise<[string, string]> => {
        const model = WIRE_MODELS[provider].id;
        const run = await agent.run({ message, provider, model, ...(sessionId === undefined ? {} : { sessionId }) });
        return [run.sessionId, (await run.result).output];
      };
      // Gemini sends arguments as a JSON object, so the fake server would have to build the nested value.
      const nestedCalls = wire === "google" ? [] : [{ call: { name: "read", arguments: NESTED_ARGUMENTS } }];
      server.enqueue({
        say: [{ text: "I try." }, ...INVALID_NAMES.map((name) => ({ call: { name, arguments: {} } })), ...nestedCalls],
      });
      const [sessionId, output] = await runAgent("Go.", wire);
      assert.equal(output, "OK.");
      const messages = await agent.sessions.messages(sessionId);
      const calls = messages.flatMap(({ parts }) => parts.flatMap((part) => (part.type === "tool_call" ? [part] : [])));
      assert.deepEqual(
        calls.map(({ name }) => name),
        [...INVALID_NAMES, ...nestedCalls.map(({ call }) => call.name)],
      );
      if (nestedCalls.length > 0) assert.equal(calls.at(-1)!.arguments, NESTED_ARGUMENTS);
      assert.equal((await runAgent("On.", wire, sessionId))[1], "OK.");
      assert.equal((await runAgent("By another.", nextWire, sessionId))[1], "OK.");
      await agent.close();
      agent = createAgent();
      assert.equal((await runAgent("Later.", wire, sessionId))[1], "OK.");
      assert.deepEqual(server.violations, []);
    });
  }
});
