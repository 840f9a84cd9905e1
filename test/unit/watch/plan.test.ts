import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { Agent, builtinTools, type SessionState } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { gate, waitTool } from "../../helpers/gate.js";
import { until } from "../../helpers/lab.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp.js";

const todos = (...contents: string[]) =>
  contents.map((content, n) => ({ content, status: n ? "pending" : "completed" }));

async function stateOf(agent: Agent, id: string): Promise<SessionState> {
  for await (const event of agent.sessions.watch(id, { follow: false, afterSeq: Number.MAX_SAFE_INTEGER }))
    if (event.type === "state") return event.state;
  throw new Error("no state");
}

describe("the plan of a watched session", () => {
  for (const [name, make] of STORES)
    it(`is the todo list of the visible messages, in every process (${name})`, async (t) => {
      const driver = await make(t);
      const projectDir = (await tempDir(t)).path;
      const cancelledTodo = { content: "given up", status: "cancelled" };
      const provider = new ScriptedProvider([
        "nothing yet",
        callTools(["todowrite", { todos: [...todos("a", "b"), cancelledTodo] }]),
        "one",
        callTools(["todowrite", { todos: "wrong" }], ["todoread", {}]),
        callTools(["todowrite", { todos: todos("c") }, "last"]),
        "two",
        callTools(["todowrite", { todos: [] }]),
        "three",
      ]);
      const open = () => new Agent({ providers: [provider], driver: driver(), tools: builtinTools(), projectDir });
      const [localAgent, remoteAgent] = [open(), open()];
      t.after(() => Promise.all([localAgent.close(), remoteAgent.close()]));
      const first = await localAgent.run({ message: "1" });
      await first.result;
      const id = first.sessionId;
      const say = async (agent: Agent, message: string) => (await agent.run({ message, sessionId: id })).result;
      /** Waits for this plan in both processes. The other process receives it a little later. */
      const plan = async (...expectedTodos: string[]) => {
        for (const agent of [localAgent, remoteAgent]) {
          await until(async () => {
            const { plan: now } = await stateOf(agent, id);
            return isDeepStrictEqual(
              now.map(({ content, status }) => `${content} ${status}`),
              expectedTodos,
            );
          });
        }
      };

      // A watcher during the whole test.
      const seen: string[] = [];
      const over = new AbortController();
      const watching = (async () => {
        for await (const event of remoteAgent.sessions.watch(id, { signal: over.signal }))
          if (event.type === "state") {
            const now = event.state.plan.map(({ content }) => content).join();
            if (now !== seen.at(-1)) seen.push(now);
            if (event.state.session.title === "over") over.abort();
          }
      })();
      await plan();
      await say(localAgent, "2");
      await plan("a completed", "b pending");
      await say(remoteAgent, "3");
      await plan("c completed");
      const messages = await localAgent.sessions.messages(id);
      const snapshot = await localAgent.sessions.revert(
        id,
        messages.find(({ toolCallId }) => toolCallId === "call_1")!.id,
      );
      await plan("a completed", "b pending");
      await remoteAgent.sessions.restore(id, snapshot.id);
      await plan("c completed");
      const fork = await localAgent.sessions.fork(id, messages.at(-1)!.id);
      assert.deepEqual((await stateOf(localAgent, fork.id)).plan, [{ content: "c", status: "completed" }]);
      await say(localAgent, "4");
      await plan();
      await localAgent.sessions.update(id, { title: "over" });
      await watching;
      assert.equal(seen[0], "");
      assert.equal(seen.at(-1), "");
    });

  it("is sent as soon as the tool call has ended, while the run is active", async (t) => {
    const open = gate();
    const provider = new ScriptedProvider([
      callTools(["todowrite", { todos: todos("now") }]),
      callTools(["wait", {}]),
      "done",
    ]);
    const agent = new Agent({ providers: [provider], tools: [...builtinTools(), waitTool(open)] });
    t.after(() => agent.close());
    const run = await agent.run({ message: "go" });
    for await (const event of agent.sessions.watch(run.sessionId))
      if (event.type === "state" && event.state.plan.length > 0) {
        assert.deepEqual(event.state.plan, [{ content: "now", status: "completed" }]);
        assert.equal(event.state.run?.state, "running");
        break;
      }
    open.open();
    await run.result;
  });
});
