import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, ProviderError, type AgentEvent, type AgentOptions, type BusEvents, type Run } from "gantry";
import type { LogFields } from "gantry/plugin";
import { callTools, finish, say, ScriptedProvider } from "gantry/testing";
import { noopTool } from "../../helpers/noop-tool.js";

const RUN_EVENT_NAMES = [
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

type RunBusEvent = {
  [E in (typeof RUN_EVENT_NAMES)[number]]: { event: E } & BusEvents[E];
}[(typeof RUN_EVENT_NAMES)[number]];

function createAgent(t: TestContext, provider: ScriptedProvider, options: Partial<AgentOptions> = {}): Agent {
  const agent = new Agent({ providers: [provider], tools: [noopTool], ...options });
  t.after(() => agent.close());
  return agent;
}

/** Returns an array to which each bus event of a run is appended. */
function recordEvents(agent: Agent): RunBusEvent[] {
  const events: RunBusEvent[] = [];
  for (const event of RUN_EVENT_NAMES)
    agent.on(event, (payload) => void events.push({ event, ...payload } as RunBusEvent));
  return events;
}

const createProviderError = (kind: "network" | "authentication") =>
  new ProviderError("scripted", kind, "it broke", { retryAfterMs: 1 });

async function readEvents(run: Run): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

/** Returns a text for each start event: its name and the names of the end events with the same call id or run id. */
function pairEvents(events: readonly RunBusEvent[]): string[] {
  return events.flatMap((startEvent) => {
    const [operation, phase] = startEvent.event.split(".") as [string, string];
    if (phase !== "started") return [];
    const id = "callId" in startEvent ? startEvent.callId : startEvent.runId;
    const endEvents = events.filter(
      (endEvent) =>
        endEvent !== startEvent &&
        endEvent.event.startsWith(`${operation}.`) &&
        id === ("callId" in endEvent ? endEvent.callId : endEvent.runId),
    );
    return [`${startEvent.event} ${endEvents.map((endEvent) => endEvent.event).join(" ")}`];
  });
}

describe("the event bus", () => {
  it("reports start and end of each run, model call and tool call, with the run's id", async (t) => {
    const provider = new ScriptedProvider([callTools(["noop", {}]), say("done")]);
    const agent = createAgent(t, provider);
    const events = recordEvents(agent);
    const createdRunId = new Promise((resolve) => agent.on("session.created", ({ runId }) => resolve(runId)));
    const titleUpdate = new Promise((resolve) => agent.on("session.updated", resolve));
    const run = await agent.run({ message: "x" });
    await Promise.all([run.result, titleUpdate]);
    assert.equal(await createdRunId, run.id);
    assert.deepEqual(new Set(events.map(({ runId }) => runId)), new Set([run.id]));
    assert.deepEqual(pairEvents(events).sort(), [
      "model.started model.called",
      "model.started model.called",
      "model.started model.called",
      "run.started run.finished",
      "tool.started tool.finished",
    ]);
    const secondRun = await agent.run({ message: "y", sessionId: run.sessionId });
    await secondRun.result;
    assert.notEqual(secondRun.id, run.id);
    assert.ok(events.some(({ event, runId }) => event === "session.resume" && runId === secondRun.id));
  });

  it("reports the duration, the usage and the time to the first token of a model call", async (t) => {
    const agent = createAgent(t, new ScriptedProvider([say("one"), { chunks: [finish("stop", {})] }]));
    const events = recordEvents(agent);
    const run = await agent.run({ message: "x" });
    await run.result;
    const [startEvent] = events.filter(({ event }) => event === "model.started");
    const [callEvent] = events.filter((busEvent) => busEvent.event === "model.called");
    assert.ok(startEvent && callEvent);
    const { durationMs, firstTokenMs, usage, finishReason, parts, ...commonFields } = callEvent;
    assert.deepEqual({ ...commonFields, event: "model.started" }, startEvent);
    assert.equal(commonFields.purpose, "answer");
    assert.ok(firstTokenMs !== undefined && firstTokenMs >= 0 && firstTokenMs <= durationMs);
    assert.equal(usage.totalTokens, 15);
    assert.equal(finishReason, "stop");
    assert.deepEqual(parts, [{ type: "text", text: "one" }]);
  });

  it("reports the error of a failed model call, without a time to the first token", async (t) => {
    const agent = createAgent(t, new ScriptedProvider([{ fault: createProviderError("authentication") }]));
    const events = recordEvents(agent);
    const run = await agent.run({ message: "x" });
    await assert.rejects(run.result, { code: "provider" });
    assert.deepEqual(pairEvents(events), ["run.started run.failed", "model.started model.failed"]);
    const failureEvent = events.find((busEvent) => busEvent.event === "model.failed");
    assert.equal(failureEvent?.firstTokenMs, undefined);
    assert.match(failureEvent?.error.message ?? "", /it broke/);
  });

  it("reports a retried model call as one call", async (t) => {
    const provider = new ScriptedProvider([{ fault: createProviderError("network") }, say("done")], { maxRetries: 1 });
    const agent = createAgent(t, provider);
    const events = recordEvents(agent);
    const run = await agent.run({ message: "x" });
    await run.result;
    assert.equal(
      events.filter((busEvent) => busEvent.event === "model.retried" && busEvent.runId === run.id).length,
      1,
    );
    const startEvents = events.filter(
      (busEvent) => busEvent.event === "model.started" && busEvent.purpose === "answer",
    );
    assert.equal(startEvents.length, 1);
  });

  it("reports the end of each tool call of a cancelled run", async (t) => {
    const cancelController = new AbortController();
    const provider = new ScriptedProvider([callTools(["noop", {}], ["noop", {}])]);
    const agent = createAgent(t, provider);
    const events = recordEvents(agent);
    agent.on("tool.started", () => cancelController.abort());
    const run = await agent.run({ message: "x", signal: cancelController.signal });
    await assert.rejects(run.result, { code: "run_cancelled" });
    assert.deepEqual(pairEvents(events.filter(({ event }) => !event.startsWith("model."))).sort(), [
      "run.started run.failed",
      "tool.started tool.finished",
      "tool.started tool.finished",
    ]);
  });
});

describe("the log lines of a run", () => {
  it("contain the id of the run", async (t) => {
    const lines: { message: string; fields: LogFields | undefined }[] = [];
    const recordLine = (message: string, fields?: LogFields) => void lines.push({ message, fields });
    const logger = { debug: recordLine, info: recordLine, warn: recordLine, error: recordLine };
    const steps = [{ fault: createProviderError("network") }, callTools(["noop", {}])];
    const agent = createAgent(t, new ScriptedProvider(steps, { maxRetries: 1 }), { logger, maxIterations: 1 });
    const run = await agent.run({ message: "x" });
    await run.result;
    const messages = lines.map(({ message }) => message);
    for (const expectedMessage of ["model call failed; retrying", "run ended at a limit"])
      assert.ok(messages.includes(expectedMessage), `${expectedMessage} in ${messages.join(", ")}`);
    for (const { message, fields } of lines) assert.equal(fields?.["run"], run.id, message);
  });
});

describe("the iterator of a run", () => {
  it("ends with the error event if the run failed", async (t) => {
    const agent = createAgent(t, new ScriptedProvider([{ fault: createProviderError("authentication") }]));
    const run = await agent.run({ message: "x" });
    const events = await readEvents(run);
    const lastEvent = events.at(-1);
    assert.equal(lastEvent?.type, "error");
    await assert.rejects(run.result, (error) => lastEvent?.type === "error" && error === lastEvent.error);
    assert.deepEqual(
      events.filter(({ type }) => type === "error" || type === "done").map(({ type }) => type),
      ["error"],
    );
  });

  it("ends with the error event if the run was cancelled", async (t) => {
    const cancelController = new AbortController();
    const agent = createAgent(
      t,
      new ScriptedProvider([{ chunks: [{ type: "text", block: "0", text: "x" }], hang: true }]),
    );
    const run = await agent.run({ message: "x", signal: cancelController.signal });
    const types: string[] = [];
    for await (const event of run) {
      types.push(event.type === "error" ? `error ${(event.error as { code?: string }).code}` : event.type);
      cancelController.abort();
    }
    assert.deepEqual(types, ["token", "error run_cancelled"]);
  });
});
