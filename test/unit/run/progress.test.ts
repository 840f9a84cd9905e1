import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, defineTool, type AgentEvent, type AgentOptions, type ToolContext, type WatchEvent } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { gate } from "../../helpers/gate.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

type Progress = Extract<AgentEvent | WatchEvent, { type: "tool_progress" }>;

/** Returns an agent with a tool `print` that runs `work`. */
async function agentWith(
  t: Hooks,
  work: (context: ToolContext) => Promise<string>,
  options: Partial<AgentOptions> = {},
) {
  const print = defineTool({
    name: "print",
    description: "Prints.",
    run: (_, context) => work(context),
  });
  const provider = new ScriptedProvider([callTools(["print", {}, "call"]), "done", callTools(["print", {}]), "done"]);
  const projectDir = (await tempDir(t)).path;
  const agent = new Agent({ providers: [provider], tools: [print], projectDir, ...options });
  t.after(() => agent.close());
  return agent;
}

/** The progress events that a watcher receives until the run of the session has ended. */
async function watchProgress(agent: Agent, id: string, each: (all: Progress[]) => void = () => undefined) {
  const progress: Progress[] = [];
  for await (const event of agent.sessions.watch(id)) {
    if (event.type === "tool_progress") each((progress.push(event), progress));
    if (event.type === "state" && event.state.run?.state === "finished") break;
  }
  return progress;
}

const textOf = (events: readonly Progress[]): string => events.map(({ text }) => text).join("");

describe("the progress of a running tool", () => {
  it("reaches the reader of the run and a watcher of the session, and is not stored in the messages", async (t) => {
    const seen = gate();
    const agent = await agentWith(t, async ({ progress }) => {
      // `progress` also works as a detached function.
      progress("one 🙂 ");
      progress("two ");
      await seen.wait();
      return "printed";
    });
    const run = await agent.run({ message: "go" });
    const recipients = new Set<string>();
    const receivedBy = (who: string) => (all: Progress[]) => {
      if (textOf(all) === "one 🙂 two ") recipients.add(who);
      if (recipients.size === 2) seen.open();
    };
    const watching = watchProgress(agent, run.sessionId, receivedBy("watcher"));
    const read: Progress[] = [];
    const types: string[] = [];
    for await (const event of run) {
      types.push(event.type);
      if (event.type !== "tool_progress") continue;
      read.push(event);
      receivedBy("reader")(read);
    }
    await run.result;
    assert.equal(textOf(read), "one 🙂 two ");
    assert.equal(textOf(await watching), "one 🙂 two ");
    assert.equal(read[0]?.callId, "call");
    assert.ok(types.indexOf("tool_call") < types.indexOf("tool_progress"));
    assert.ok(types.lastIndexOf("tool_progress") < types.indexOf("tool_result"));
    assert.doesNotMatch(JSON.stringify(await agent.sessions.messages(run.sessionId)), /two/);
  });

  it("is merged into fewer than 10 events and 128 KiB, and dropped for a reader that starts after the result", async (t) => {
    const seen = gate();
    const agent = await agentWith(t, async ({ progress }) => {
      for (let i = 0; i < 300_000; i += 1) progress(`line ${i}\n`);
      await seen.wait();
      return "printed";
    });
    const run = await agent.run({ message: "go" });
    const watching = watchProgress(agent, run.sessionId, (all) => {
      if (all.at(-1)?.text.endsWith("line 299999\n")) seen.open();
    });
    // The reader starts after everything has ended.
    await run.result;
    const types = [];
    for await (const { type } of run) types.push(type);
    assert.deepEqual(types, ["tool_call", "tool_result", "token", "done"]);
    const progress = await watching;
    assert.ok(progress.length < 10, `${progress.length} events`);
    assert.ok(textOf(progress).length <= 2 * 64 * 1024);
  });

  it("is sent to a late watcher from its last 64 KiB on", async (t) => {
    const [half, seen] = [gate(), gate()];
    const agent = await agentWith(t, async ({ progress }) => {
      progress("begin\n");
      progress(`${"x".repeat(100_000)}\nend\n`);
      await half.wait();
      progress("after\n");
      await seen.wait();
      return "printed";
    });
    const run = await agent.run({ message: "go" });
    const first = watchProgress(agent, run.sessionId, (all) => {
      if (textOf(all).endsWith("end\n")) late ??= watchProgress(agent, run.sessionId, openGates);
    });
    let late: Promise<Progress[]> | undefined;
    const openGates = (all: Progress[]) => {
      if (all[0]?.text.endsWith("end\n")) half.open();
      if (textOf(all).endsWith("after\n")) seen.open();
    };
    await run.result;
    const [lateProgress] = [await first, await late!].slice(1);
    assert.equal(lateProgress![0]!.text.length, 64 * 1024);
    assert.equal(textOf(lateProgress!).slice(64 * 1024), "after\n");
  });

  it("is ignored if it is no text, arrives after the end of the call, or an afterToolCall hook exists", async (t) => {
    const contexts: ToolContext[] = [];
    const work = async (context: ToolContext) => {
      contexts.push(context);
      for (const wrong of [undefined, null, 5, {}, "", Symbol("x")]) context.progress(wrong as string);
      return "printed";
    };
    const agent = await agentWith(t, work);
    const run = await agent.run({ message: "go" });
    for await (const event of run) {
      assert.notEqual(event.type, "tool_progress");
      contexts[0]?.progress("late");
    }
    const hooked = await agentWith(
      t,
      async (context) => {
        context.progress("secret");
        return work(context);
      },
      { hooks: { afterToolCall: () => ({ text: "[hidden]" }) } },
    );
    const hookedRun = await hooked.run({ message: "go" });
    const watching = watchProgress(hooked, hookedRun.sessionId);
    for await (const event of hookedRun) assert.notEqual(event.type, "tool_progress");
    assert.deepEqual(await watching, []);
  });

  it("is ignored if the tool still runs after a cancel", async (t) => {
    const [begun, over] = [gate(), gate()];
    let context: ToolContext | undefined;
    const agent = await agentWith(t, async (toolContext) => {
      context = toolContext;
      void begun.wait();
      // This tool ignores its signal.
      await over.wait();
      return "printed";
    });
    const cancel = new AbortController();
    const run = await agent.run({ message: "go", signal: cancel.signal });
    const types: string[] = [];
    const reading = (async () => {
      for await (const { type } of run) types.push(type);
    })();
    await begun.reached;
    cancel.abort();
    await run.result.catch(() => undefined);
    context!.progress("late");
    const events: string[] = [];
    for await (const { type } of agent.sessions.watch(run.sessionId, { follow: false })) events.push(type);
    assert.ok(!events.includes("tool_progress"));
    over.open();
    await reading;
    assert.ok(!types.includes("tool_progress"));
  });

  for (const [name, make] of STORES)
    it(`reaches watchers in the process of the run only (${name})`, async (t) => {
      const driver = await make(t);
      const seen = gate();
      const agent = await agentWith(
        t,
        async ({ progress }) => {
          progress("here");
          await seen.wait();
          return "printed";
        },
        { driver: driver() },
      );
      const remoteAgent = await agentWith(t, async () => "", { driver: driver() });
      const run = await agent.run({ message: "go" });
      const remoteProgress = watchProgress(remoteAgent, run.sessionId);
      const progress = await watchProgress(agent, run.sessionId, () => seen.open());
      assert.equal(textOf(progress), "here");
      assert.deepEqual(await remoteProgress, []);
      await run.result;
    });
});
