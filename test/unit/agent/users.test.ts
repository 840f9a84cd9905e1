// Agents for users on a store that two agents share, as two replicas do.
import assert from "node:assert/strict";
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { describe, it, type TestContext } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Agent, MemoryDriver, type User, type WatchEvent } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { ScriptedProvider } from "gantry/testing";
import { waitUntil } from "../../helpers/server-runs.js";
import { tempDir } from "../../helpers/temp-dir.js";

const ADA: User = { name: "ada", scopes: ["read", "run", "approve"] };
const BOB: User = { name: "bob", scopes: ["read", "run", "approve"] };

async function createReplicas(t: TestContext): Promise<{ agents: [Agent, Agent]; adas: [Agent, Agent] }> {
  const { path: projectDir } = await tempDir(t);
  const documents = new MemoryDocuments();
  const createAgent = () => {
    const agent = new Agent({
      driver: new MemoryDriver(documents),
      providers: [new ScriptedProvider(Array.from({ length: 1000 }, () => "done"))],
      projectDir,
    });
    t.after(() => agent.close());
    return agent;
  };
  const agents: [Agent, Agent] = [createAgent(), createAgent()];
  return { agents, adas: [await agents[0].forUser(ADA), await agents[1].forUser(ADA)] };
}

async function runPrompt(agent: Agent, sessionId?: string): Promise<string> {
  const run = await agent.run({ message: "hi", ...(sessionId !== undefined && { sessionId }) });
  await run.result;
  return run.sessionId;
}

describe("the agents of users", () => {
  for (const [place, watcherIndex] of [
    ["this process", 0],
    ["another process", 1],
  ] as const)
    it(`end a watch when the owner stops sharing the session in ${place}, without a further event`, async (t) => {
      const { agents, adas } = await createReplicas(t);
      const sessionId = await runPrompt(adas[0]);
      await adas[0].sessions.update(sessionId, { shared: true });
      const bob = await agents[watcherIndex].forUser(BOB);
      const events: WatchEvent[] = [];
      const watch = (async () => {
        for await (const event of bob.sessions.watch(sessionId)) events.push(event);
      })();
      await waitUntil(() => events.some(({ type }) => type === "message_end" || type === "message"));
      // A check follows the last one at once: no interval may hide the change.
      await adas[0].sessions.update(sessionId, { title: "Still shared" });
      await waitUntil(() =>
        events.some((event) => event.type === "state" && event.state.session.title === "Still shared"),
      );
      const unsharedAtMs = performance.now();
      await adas[0].sessions.update(sessionId, { shared: false });
      await watch;
      t.diagnostic(`ended after ${Math.round(performance.now() - unsharedAtMs)} ms`);
      assert.ok(events.every((event) => event.type !== "state" || event.state.session.shared));
    });

  it("see events of a session while another process shares it, and only then", async (t) => {
    const { agents, adas } = await createReplicas(t);
    const sessionId = await runPrompt(adas[1]);
    const bob = await agents[1].forUser(BOB);
    let eventCount = 0;
    bob.on("run.finished", () => (eventCount += 1));
    // The complete agent runs the prompts: the agent of a user reads the session first.
    await runPrompt(agents[1], sessionId);
    await yieldToEventLoop();
    assert.equal(eventCount, 0);
    const runAndCount = async (): Promise<number> => {
      eventCount = 0;
      await runPrompt(agents[1], sessionId);
      await yieldToEventLoop();
      return eventCount;
    };
    await adas[0].sessions.update(sessionId, { shared: true });
    await waitUntil(async () => (await runAndCount()) === 1);
    await adas[0].sessions.update(sessionId, { shared: false });
    await waitUntil(async () => (await runAndCount()) === 0);
  });

  it("are released with their users", async (t) => {
    setFlagsFromString("--expose-gc");
    const collectGarbage = runInNewContext("gc") as () => void;
    const { agents } = await createReplicas(t);
    const references: WeakRef<object>[] = [];
    for (let n = 0; n < 100; n += 1) {
      const userAgent = await agents[0].forUser({ name: `user-${n}`, scopes: ["read"] });
      userAgent.on("run.finished", () => undefined)();
      references.push(new WeakRef(userAgent.sessions));
    }
    await waitUntil(() => {
      collectGarbage();
      // The last one may still be in use.
      return references.filter((reference) => reference.deref() !== undefined).length <= 1;
    });
  });
});
