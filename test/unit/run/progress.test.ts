import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, defineTool, type AgentEvent, type AgentOptions, type ToolContext, type WatchEvent } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { createGate } from "../../helpers/gate.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

type Progress = Extract<AgentEvent | WatchEvent, { type: "tool_progress" }>;

/** Returns an agent with a tool `print` that runs `runTool`. */
async function createAgent(
  t: Hooks,
  runTool: (context: ToolContext) => Promise<string>,
  options: Partial<AgentOptions> = {},
) {
  const printTool = defineTool({
    name: "print",
    description: "Prints.",
    run: (_, context) => runTool(context),
  });
  const provider = new ScriptedProvider([callTools(["print", {}, "call"]), "done", callTools(["print", {}]), "done"]);
  const projectDir = (await tempDir(t)).path;
  const agent = new Agent({ providers: [provider], tools: [printTool], projectDir, ...options });
  t.after(() => agent.close());
  return agent;
}

/** Returns the progress events that a watcher receives until the run of the session has finished. */
async function watchProgress(agent: Agent, id: string, onProgress: (events: Progress[]) => void = () => undefined) {
  const progress: Progress[] = [];
  for await (const event of agent.sessions.watch(id)) {
    if (event.type === "tool_progress") onProgress((progress.push(event), progress));
    if (event.type === "state" && event.state.run?.state === "finished") break;
  }
  return progress;
}

const joinTexts = (events: readonly Progress[]): string => events.map(({ text }) => text).join("");

describe("the progress of a running tool", () => {
  it("reaches the reader of the run and a watcher of the session, and is not stored in the messages", async (t) => {
    const receiptGate = createGate();
    const agent = await createAgent(t, async ({ progress }) => {
      // `progress` also works as a detached function.
      progress("one 🙂 ");
      progress("two ");
      await receiptGate.wait();
      return "printed";
    });
    const run = await agent.run({ message: "go" });
    const recipientNames = new Set<string>();
    const recordRecipient = (recipientName: string) => (events: Progress[]) => {
      if (joinTexts(events) === "one 🙂 two ") recipientNames.add(recipientName);
      if (recipientNames.size === 2) receiptGate.open();
    };
    const watchPromise = watchProgress(agent, run.sessionId, recordRecipient("watcher"));
    const readerEvents: Progress[] = [];
    const eventTypes: string[] = [];
    for await (const event of run) {
      eventTypes.push(event.type);
      if (event.type !== "tool_progress") continue;
      readerEvents.push(event);
      recordRecipient("reader")(readerEvents);
    }
    await run.result;
    assert.equal(joinTexts(readerEvents), "one 🙂 two ");
    assert.equal(joinTexts(await watchPromise), "one 🙂 two ");
    assert.equal(readerEvents[0]?.callId, "call");
    assert.ok(eventTypes.indexOf("tool_call") < eventTypes.indexOf("tool_progress"));
    assert.ok(eventTypes.lastIndexOf("tool_progress") < eventTypes.indexOf("tool_result"));
    assert.doesNotMatch(JSON.stringify(await agent.sessions.messages(run.sessionId)), /two/);
  });

  it("is merged into fewer than 10 events and 128 KiB, and dropped for a reader that starts after the result", async (t) => {
    const receiptGate = createGate();
    const agent = await createAgent(t, async ({ progress }) => {
      for (let i = 0; i < 300_000; i += 1) progress(`line ${i}\n`);
      await receiptGate.wait();
      return "printed";
    });
    const run = await agent.run({ message: "go" });
    const watchPromise = watchProgress(agent, run.sessionId, (events) => {
      if (events.at(-1)?.text.endsWith("line 299999\n")) receiptGate.open();
    });
    // The reader starts after everything has ended.
    await run.result;
    const eventTypes = [];
    for await (const { type } of run) eventTypes.push(type);
    assert.deepEqual(eventTypes, ["tool_call", "tool_result", "token", "done"]);
    const progress = await watchPromise;
    assert.ok(progress.length < 10, `${progress.length} events`);
    assert.ok(joinTexts(progress).length <= 2 * 64 * 1024);
  });

  it("is sent to a late watcher from its last 64 KiB on", async (t) => {
    const [lineGate, receiptGate] = [createGate(), createGate()];
    const agent = await createAgent(t, async ({ progress }) => {
      progress("begin\n");
      progress(`${"x".repeat(100_000)}\nend\n`);
      await lineGate.wait();
      progress("after\n");
      await receiptGate.wait();
      return "printed";
    });
    const run = await agent.run({ message: "go" });
    const firstWatchPromise = watchProgress(agent, run.sessionId, (events) => {
      if (joinTexts(events).endsWith("end\n")) lateWatchPromise ??= watchProgress(agent, run.sessionId, openGates);
    });
    let lateWatchPromise: Promise<Progress[]> | undefined;
    const openGates = (events: Progress[]) => {
      if (events[0]?.text.endsWith("end\n")) lineGate.open();
      if (joinTexts(events).endsWith("after\n")) receiptGate.open();
    };
    await run.result;
    const [lateProgress] = [await firstWatchPromise, await lateWatchPromise!].slice(1);
    assert.equal(lateProgress![0]!.text.length, 64 * 1024);
    assert.equal(joinTexts(lateProgress!).slice(64 * 1024), "after\n");
  });

  it("is ignored if it is no text, arrives after the end of the call, or an afterToolCall hook exists", async (t) => {
    const contexts: ToolContext[] = [];
    const runTool = async (context: ToolContext) => {
      contexts.push(context);
      for (const invalidText of [undefined, null, 5, {}, "", Symbol("x")]) context.progress(invalidText as string);
      return "printed";
    };
    const agent = await createAgent(t, runTool);
    const run = await agent.run({ message: "go" });
    for await (const event of run) {
      assert.notEqual(event.type, "tool_progress");
      contexts[0]?.progress("late");
    }
    const hookedAgent = await createAgent(
      t,
      async (context) => {
        context.progress("secret");
        return runTool(context);
      },
      { hooks: { afterToolCall: () => ({ text: "[hidden]" }) } },
    );
    const hookedRun = await hookedAgent.run({ message: "go" });
    const watchPromise = watchProgress(hookedAgent, hookedRun.sessionId);
    for await (const event of hookedRun) assert.notEqual(event.type, "tool_progress");
    assert.deepEqual(await watchPromise, []);
  });

  it("is ignored if the tool still runs after a cancel", async (t) => {
    const [startGate, endGate] = [createGate(), createGate()];
    let context: ToolContext | undefined;
    const agent = await createAgent(t, async (toolContext) => {
      context = toolContext;
      void startGate.wait();
      // This tool ignores its signal.
      await endGate.wait();
      return "printed";
    });
    const cancelController = new AbortController();
    const run = await agent.run({ message: "go", signal: cancelController.signal });
    const eventTypes: string[] = [];
    const readerPromise = (async () => {
      for await (const { type } of run) eventTypes.push(type);
    })();
    await startGate.firstWait;
    cancelController.abort();
    await run.result.catch(() => undefined);
    context!.progress("late");
    const watchedTypes: string[] = [];
    for await (const { type } of agent.sessions.watch(run.sessionId, { follow: false })) watchedTypes.push(type);
    assert.ok(!watchedTypes.includes("tool_progress"));
    endGate.open();
    await readerPromise;
    assert.ok(!eventTypes.includes("tool_progress"));
  });

  for (const [name, makeStore] of STORES)
    it(`reaches watchers in the process of the run only (${name})`, async (t) => {
      const openDriver = await makeStore(t);
      const receiptGate = createGate();
      const agent = await createAgent(
        t,
        async ({ progress }) => {
          progress("here");
          await receiptGate.wait();
          return "printed";
        },
        { driver: openDriver() },
      );
      const remoteAgent = await createAgent(t, async () => "", { driver: openDriver() });
      const run = await agent.run({ message: "go" });
      const remoteWatchPromise = watchProgress(remoteAgent, run.sessionId);
      const progress = await watchProgress(agent, run.sessionId, () => receiptGate.open());
      assert.equal(joinTexts(progress), "here");
      assert.deepEqual(await remoteWatchPromise, []);
      await run.result;
    });
});
