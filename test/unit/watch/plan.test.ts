import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { Agent, builtinTools, type SessionState } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** The first todo is completed. The other todos are pending. */
const createTodos = (...contents: string[]) =>
  contents.map((content, n) => ({ content, status: n ? "pending" : "completed" }));

/** Reads the state without the messages. */
async function readState(agent: Agent, id: string): Promise<SessionState> {
  for await (const event of agent.sessions.watch(id, { follow: false, afterSeq: Number.MAX_SAFE_INTEGER }))
    if (event.type === "state") return event.state;
  throw new Error("no state");
}

describe("the plan of a watched session", () => {
  for (const [name, createStore] of STORES)
    it(`is the todo list of the visible messages, in every process (${name})`, async (t) => {
      const openDriver = await createStore(t);
      const projectDir = (await tempDir(t)).path;
      const cancelledTodo = { content: "given up", status: "cancelled" };
      const provider = new ScriptedProvider([
        "nothing yet",
        callTools(["todowrite", { todos: [...createTodos("a", "b"), cancelledTodo] }]),
        "one",
        callTools(["todowrite", { todos: "wrong" }], ["todoread", {}]),
        callTools(["todowrite", { todos: createTodos("c") }, "last"]),
        "two",
        callTools(["todowrite", { todos: [] }]),
        "three",
      ]);
      const createAgent = () =>
        new Agent({ providers: [provider], driver: openDriver(), tools: builtinTools(), projectDir });
      const [localAgent, remoteAgent] = [createAgent(), createAgent()];
      t.after(() => Promise.all([localAgent.close(), remoteAgent.close()]));
      const firstRun = await localAgent.run({ message: "1" });
      await firstRun.result;
      const id = firstRun.sessionId;
      const runPrompt = async (agent: Agent, message: string) => (await agent.run({ message, sessionId: id })).result;
      /** Waits for this plan in both agents. The second agent receives the plan later. */
      const waitForPlan = async (...expectedTodos: string[]) => {
        for (const agent of [localAgent, remoteAgent]) {
          await waitUntil(async () => {
            const { plan } = await readState(agent, id);
            return isDeepStrictEqual(
              plan.map(({ content, status }) => `${content} ${status}`),
              expectedTodos,
            );
          });
        }
      };

      // This watcher runs during the whole test.
      const receivedPlans: string[] = [];
      const watchController = new AbortController();
      const watchPromise = (async () => {
        for await (const event of remoteAgent.sessions.watch(id, { signal: watchController.signal }))
          if (event.type === "state") {
            const contents = event.state.plan.map(({ content }) => content).join();
            if (contents !== receivedPlans.at(-1)) receivedPlans.push(contents);
            if (event.state.session.title === "over") watchController.abort();
          }
      })();
      await waitForPlan();
      await runPrompt(localAgent, "2");
      await waitForPlan("a completed", "b pending");
      await runPrompt(remoteAgent, "3");
      await waitForPlan("c completed");
      const messages = await localAgent.sessions.messages(id);
      const snapshot = await localAgent.sessions.revert(
        id,
        messages.find(({ toolCallId }) => toolCallId === "call_1")!.id,
      );
      await waitForPlan("a completed", "b pending");
      await remoteAgent.sessions.restore(id, snapshot.id);
      await waitForPlan("c completed");
      const fork = await localAgent.sessions.fork(id, messages.at(-1)!.id);
      assert.deepEqual((await readState(localAgent, fork.id)).plan, [{ content: "c", status: "completed" }]);
      await runPrompt(localAgent, "4");
      await waitForPlan();
      await localAgent.sessions.update(id, { title: "over" });
      await watchPromise;
      assert.equal(receivedPlans[0], "");
      assert.equal(receivedPlans.at(-1), "");
    });

  it("is sent when the tool call has ended, while the run is active", async (t) => {
    const toolGate = createGate();
    const provider = new ScriptedProvider([
      callTools(["todowrite", { todos: createTodos("now") }]),
      callTools(["wait", {}]),
      "done",
    ]);
    const agent = new Agent({ providers: [provider], tools: [...builtinTools(), createWaitTool(toolGate)] });
    t.after(() => agent.close());
    const run = await agent.run({ message: "go" });
    for await (const event of agent.sessions.watch(run.sessionId))
      if (event.type === "state" && event.state.plan.length > 0) {
        assert.deepEqual(event.state.plan, [{ content: "now", status: "completed" }]);
        assert.equal(event.state.run?.state, "running");
        break;
      }
    toolGate.open();
    await run.result;
  });
});
