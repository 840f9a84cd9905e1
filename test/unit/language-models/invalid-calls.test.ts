// Invalid tool calls of a model: names that no provider accepts in a history, and arguments nested too deep to
// serialize.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { AiSdkProvider, WIRES, type WireName } from "gantry/adapters/language-models";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { say, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import { makeTempDir } from "../../helpers/temp.js";

const NAMES = ["odd \u001b]0;title\u0007", "x".repeat(200), "読む", "3d", "-v", "read\u202e", "a.b"];
const DEEP = `{"path":${"[".repeat(20_000)}${"]".repeat(20_000)}}`;

describe("a session with tool calls that no provider accepts in a history", { concurrency: WIRES.length }, () => {
  for (const [at, wire] of WIRES.entries()) {
    const next = WIRES[(at + 1) % WIRES.length]!;
    it(`continues on ${wire}, on ${next} and after a restart, and stores the calls unchanged`, async (t) => {
      const server = await startFakeModelServer({ aside: say("A title") });
      const folder = await makeTempDir();
      const store = await makeTempDir();
      const agentOf = (): Agent =>
        new Agent({
          providers: [wire, next].map(
            (driver: WireName) =>
              new AiSdkProvider({
                ...{ name: driver, driver, baseUrl: baseUrlOf(driver, server), apiKey: "key" },
                models: [WIRE_MODELS[driver]],
              }),
          ),
          driver: new SqliteDriver({ path: store.at("sessions.db"), durability: "normal" }),
          projectDir: folder.path,
          tools: builtinTools(),
        });
      let agent = agentOf();
      t.after(async () => {
        await agent.close();
        await server.close();
        await folder.remove();
        await store.remove();
      });
      const ask = async (message: string, provider: WireName, sessionId?: string): Promise<[string, string]> => {
        const model = WIRE_MODELS[provider].id;
        const run = await agent.run({ message, provider, model, ...(sessionId === undefined ? {} : { sessionId }) });
        return [run.sessionId, (await run.result).output];
      };
      // Gemini sends arguments as an object, which its server would have to nest.
      const deep = wire === "google" ? [] : [{ call: { name: "read", arguments: DEEP } }];
      server.enqueue({
        say: [{ text: "I try." }, ...NAMES.map((name) => ({ call: { name, arguments: {} } })), ...deep],
      });
      const [sessionId, output] = await ask("Go.", wire);
      assert.equal(output, "OK.");
      const messages = await agent.sessions.messages(sessionId);
      const calls = messages.flatMap(({ parts }) => parts.flatMap((part) => (part.type === "tool_call" ? [part] : [])));
      assert.deepEqual(
        calls.map(({ name }) => name),
        [...NAMES, ...deep.map(({ call }) => call.name)],
      );
      if (deep.length > 0) assert.equal(calls.at(-1)!.arguments, DEEP);
      assert.equal((await ask("On.", wire, sessionId))[1], "OK.");
      assert.equal((await ask("By another.", next, sessionId))[1], "OK.");
      await agent.close();
      agent = agentOf();
      assert.equal((await ask("Later.", wire, sessionId))[1], "OK.");
      assert.deepEqual(server.violations, []);
    });
  }
});
