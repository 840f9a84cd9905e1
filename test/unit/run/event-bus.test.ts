import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, ProviderError, type AgentEvent, type AgentOptions, type BusEvents, type Run } from "gantry";
import type { LogFields } from "gantry/plugin";
import { callTools, finish, say, ScriptedProvider } from "gantry/testing";
import { noop } from "../../helpers/noop-tool.js";

const RUN_EVENTS = [
  "session.resume",
  "session.compacted",
  "run.started",
  "run.finished",
  "run.failed",
  "model.started",
  "model.called",
  "model.failed",
  "model.retried",
  "tool.started",
  "tool.finished",
] as const satisfies (keyof BusEvents)[];

type RunBusEvent = { [E in (typeof RUN_EVENTS)[number]]: { event: E } & BusEvents[E] }[(typeof RUN_EVENTS)[number]];

function make(t: TestContext, provider: ScriptedProvider, options: Partial<AgentOptions> = {}): Agent {
  const agent = new Agent({ providers: [provider], tools: [noop], ...options });
  t.after(() => agent.close());
  return agent;
}

/** All bus events of runs, in order. */
function listen(agent: Agent): RunBusEvent[] {
  const events: RunBusEvent[] = [];
  for (const event of RUN_EVENTS) agent.on(event, (payload) => void events.push({ event, ...payload } as RunBusEvent));
  return events;
}

const fault = (kind: "network" | "authentication") =>
  new ProviderError("scripted", kind, "it broke", { retryAfterMs: 1 });

async function eventsOf(run: Run): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

/** Each start event with the end event of the same ids. */
function pairs(events: readonly RunBusEvent[]): string[] {
  return events.flatMap((start) => {
    const [thing, what] = start.event.split(".") as [string, string];
    if (what !== "started") return [];
    const id = "callId" in start ? start.callId : start.runId;
    const ends = events.filter(
      (end) => end !== start && end.event.startsWith(`${thing}.`) && id === ("callId" in end ? end.callId : end.runId),
    );
    return [`${start.event} ${ends.map((end) => end.event).join(" ")}`];
  });
}

describe("the event bus", () => {
  it("reports start and end of each run, model call and tool call, with the run's id", async (t) => {
    const provider = new ScriptedProvider([callTools(["noop", {}]), say("done")]);
    const agent = make(t, provider);
    const events = listen(agent);
    const created = new Promise((resolve) => agent.on("session.created", ({ runId }) => resolve(runId)));
    const titled = new Promise((resolve) => agent.on("session.updated", resolve));
    const run = await agent.run({ message: "x" });
    await Promise.all([run.result, titled]);
    assert.equal(await created, run.id);
    assert.deepEqual(new Set(events.map(({ runId }) => runId)), new Set([run.id]));
    assert.deepEqual(pairs(events).sort(), [
      "model.started model.called",
      "model.started model.called",
      "model.started model.called",
      "run.started run.finished",
      "tool.started tool.finished",
    ]);
    const again = await agent.run({ message: "y", sessionId: run.sessionId });
    await again.result;
    assert.notEqual(again.id, run.id);
    assert.ok(events.some(({ event, runId }) => event === "session.resume" && runId === again.id));
  });

  it("reports the duration, the usage and the time to the first token of a model call", async (t) => {
    const agent = make(t, new ScriptedProvider([say("one"), { chunks: [finish("stop", {})] }]));
    const events = listen(agent);
    const run = await agent.run({ message: "x" });
    await run.result;
    const [started] = events.filter(({ event }) => event === "model.started");
    const [called] = events.filter((entry) => entry.event === "model.called");
    assert.ok(started && called);
    const { durationMs, firstTokenMs, usage, ...names } = called;
    assert.deepEqual({ ...names, event: "model.started" }, started);
    assert.equal(names.purpose, "answer");
    assert.ok(firstTokenMs !== undefined && firstTokenMs >= 0 && firstTokenMs <= durationMs);
    assert.equal(usage.totalTokens, 15);
  });

  it("reports the error of a failed model call, without a time to the first token", async (t) => {
    const agent = make(t, new ScriptedProvider([{ fault: fault("authentication") }]));
    const events = listen(agent);
    const run = await agent.run({ message: "x" });
    await assert.rejects(run.result, { code: "provider" });
    assert.deepEqual(pairs(events), ["run.started run.failed", "model.started model.failed"]);
    const failed = events.find((entry) => entry.event === "model.failed");
    assert.equal(failed?.firstTokenMs, undefined);
    assert.match(failed?.error.message ?? "", /it broke/);
  });

  it("reports a retried model call as one call", async (t) => {
    const provider = new ScriptedProvider([{ fault: fault("network") }, say("done")], { maxRetries: 1 });
    const agent = make(t, provider);
    const events = listen(agent);
    const run = await agent.run({ message: "x" });
    await run.result;
    assert.equal(events.filter((entry) => entry.event === "model.retried" && entry.runId === run.id).length, 1);
    const answers = events.filter((entry) => entry.event === "model.started" && entry.purpose === "answer");
    assert.equal(answers.length, 1);
  });

  it("reports the end of each tool call of a cancelled run", async (t) => {
    const cancel = new AbortController();
    const provider = new ScriptedProvider([callTools(["noop", {}], ["noop", {}])]);
    const agent = make(t, provider);
    const events = listen(agent);
    agent.on("tool.started", () => cancel.abort());
    const run = await agent.run({ message: "x", signal: cancel.signal });
    await assert.rejects(run.result, { code: "run_cancelled" });
    assert.deepEqual(pairs(events.filter(({ event }) => !event.startsWith("model."))).sort(), [
      "run.started run.failed",
      "tool.started tool.finished",
      "tool.started tool.finished",
    ]);
  });
});

describe("the log lines of a run", () => {
  it("contain the id of the run", async (t) => {
    const lines: { message: string; fields: LogFields | undefined }[] = [];
    const log = (message: string, fields?: LogFields) => void lines.push({ message, fields });
    const logger = { debug: log, info: log, warn: log, error: log };
    const steps = [{ fault: fault("network") }, callTools(["noop", {}])];
    const agent = make(t, new ScriptedProvider(steps, { maxRetries: 1 }), { logger, maxIterations: 1 });
    const run = await agent.run({ message: "x" });
    await run.result;
    const texts = lines.map(({ message }) => message);
    for (const expected of ["model call failed; retrying", "run ended at a limit"])
      assert.ok(texts.includes(expected), `${expected} in ${texts.join(", ")}`);
    for (const { message, fields } of lines) assert.equal(fields?.["run"], run.id, message);
  });
});

describe("the iterator of a run", () => {
  it("ends with the error event if the run failed", async (t) => {
    const agent = make(t, new ScriptedProvider([{ fault: fault("authentication") }]));
    const run = await agent.run({ message: "x" });
    const events = await eventsOf(run);
    const last = events.at(-1);
    assert.equal(last?.type, "error");
    await assert.rejects(run.result, (error) => last?.type === "error" && error === last.error);
    assert.deepEqual(
      events.filter(({ type }) => type === "error" || type === "done").map(({ type }) => type),
      ["error"],
    );
  });

  it("ends with the error event if the run was cancelled", async (t) => {
    const cancel = new AbortController();
    const agent = make(t, new ScriptedProvider([{ chunks: [{ type: "text", block: "0", text: "x" }], hang: true }]));
    const run = await agent.run({ message: "x", signal: cancel.signal });
    const types: string[] = [];
    for await (const event of run) {
      types.push(event.type === "error" ? `error ${(event.error as { code?: string }).code}` : event.type);
      cancel.abort();
    }
    assert.deepEqual(types, ["token", "error run_cancelled"]);
  });
});
