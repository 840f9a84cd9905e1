import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, type AgentEvent, type AgentOptions, type Run } from "gantry";
import type { ModelMessage } from "gantry/plugin";
import { STORES } from "../../helpers/stores.js";
import { WindowProvider, type WindowProviderOptions } from "../../helpers/context-window-provider.js";

const toText = (message: ModelMessage | undefined): string =>
  (message?.parts ?? []).map((part) => ("text" in part ? part.text : "")).join("");

/** Whether the text is the system prompt of a summary request. */
const isSummaryPrompt = (system: string): boolean => system.startsWith("You write notes");

const answerRequest: WindowProviderOptions["answer"] = ({ system, messages }) =>
  isSummaryPrompt(system)
    ? `NOTES ${system.split("\n").at(-1)}`
    : `answer to ${toText(messages.at(-1)).slice(0, 8)} ${"blah ".repeat(60)}`;

async function readEvents(run: Run): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  await run.result;
  return events;
}

async function createConversation(
  t: TestContext,
  driver: AgentOptions["driver"],
  {
    options = {},
    answer = answerRequest,
    turnCount = 30,
  }: { options?: Partial<AgentOptions>; answer?: typeof answerRequest; turnCount?: number } = {},
) {
  const provider = new WindowProvider({ window: 100_000, answer });
  const agent = new Agent({ providers: [provider], ...(driver && { driver }), ...options });
  t.after(() => agent.close());
  let sessionId: string | undefined;
  for (let turn = 1; turn <= turnCount; turn += 1) {
    const run = await agent.run({ message: `turn ${turn}. ${"words ".repeat(20)}`, ...(sessionId && { sessionId }) });
    await run.result;
    sessionId = run.sessionId;
  }
  return { agent, provider, sessionId: sessionId ?? "" };
}

describe("a requested compaction", () => {
  for (const [name, makeStore] of STORES)
    it(`summarizes the conversation and adds no message to it (${name})`, async (t) => {
      const driver = (await makeStore(t))();
      const { agent, provider, sessionId } = await createConversation(t, driver);
      const previousMessages = await agent.sessions.messages(sessionId);
      const run = await agent.run({ message: "the colour of the bridge", sessionId, compact: true });
      const events = await readEvents(run);
      const [compaction] = events.filter(({ type }) => type === "compaction");
      assert.equal(compaction?.type === "compaction" && compaction.strategy, "summary");
      const result = await run.result;
      assert.deepEqual(
        [result.output, result.iterations, result.endedBy, result.finishReason],
        ["", 0, "model", "stop"],
      );
      assert.ok(result.usage.totalTokens > 0, "the usage includes the summary request");
      assert.ok(result.context.used < 3_000, `${result.context.used} tokens after the compaction`);

      assert.deepEqual(await agent.sessions.messages(sessionId), previousMessages, "the stored messages are unchanged");
      const view = await agent.sessions.messages(sessionId, { view: "model" });
      assert.ok(view.some((message) => /NOTES .*the colour of the bridge$/.test(toText(message))));
      assert.equal(toText(view.at(-1)), toText(previousMessages.at(-1)));

      const [record] = await agent.runs.list({ sessionId });
      assert.deepEqual([record?.id, record?.state, record?.after], [run.id, "finished", previousMessages.at(-1)?.seq]);
      assert.equal((await agent.sessions.get(sessionId))?.id, sessionId);

      const nextRun = await agent.run({ message: "go on", sessionId });
      await nextRun.result;
      assert.equal(provider.lastRequest?.messages.length, view.length + 1);
      assert.deepEqual(provider.violations, []);
      assert.equal((await agent.sessions.messages(sessionId)).length, previousMessages.length + 2);
    });

  it("is rejected without an existing session, or with attachments or an output schema", async (t) => {
    const { agent, sessionId } = await createConversation(t, undefined, { turnCount: 1 });
    const assertRejects = (input: object, field: string) =>
      assert.rejects(agent.run({ message: "", compact: true, ...input }), { name: "InputError", field });
    await assertRejects({}, "sessionId");
    await assertRejects({ sessionId, outputSchema: {} }, "outputSchema");
    await assertRejects(
      { sessionId, attachments: [{ type: "file", filename: "a", mediaType: "b", data: "" }] },
      "attachments",
    );
    await assertRejects({ sessionId, compact: "yes" }, "compact");
    await assert.rejects(agent.run({ message: "", compact: true, sessionId: "none" }), {
      name: "SessionNotFoundError",
    });
  });

  it("calls no model for a session with too little to compact or without a message", async (t) => {
    const { agent, provider, sessionId } = await createConversation(t, undefined, { turnCount: 1 });
    const { id: emptySessionId } = await agent.sessions.create();
    for (const targetId of [sessionId, emptySessionId]) {
      const { callCount } = provider;
      const events = await readEvents(await agent.run({ message: "", sessionId: targetId, compact: true }));
      assert.deepEqual(
        events.map(({ type }) => type),
        ["done"],
      );
      assert.equal(provider.callCount, callCount);
    }
  });

  it("fails and leaves the view unchanged when the model call fails", async (t) => {
    let failsSummaries = false;
    const { agent, sessionId } = await createConversation(t, undefined, {
      answer: (request, call) => {
        if (failsSummaries && isSummaryPrompt(request.system)) throw new Error("out of order");
        return answerRequest(request, call);
      },
    });
    failsSummaries = true;
    const previousView = await agent.sessions.messages(sessionId, { view: "model" });
    const run = await agent.run({ message: "", sessionId, compact: true });
    await assert.rejects(run.result, /out of order/);
    assert.deepEqual(await agent.sessions.messages(sessionId, { view: "model" }), previousView);
    assert.equal((await agent.runs.get(run.id))?.state, "failed");
  });

  it("does not shorten a long first prompt before a summary request has contained the complete prompt", async (t) => {
    const requests: string[] = [];
    const { agent, provider, sessionId } = await createConversation(t, undefined, {
      turnCount: 0,
      answer: (request, call) => {
        if (isSummaryPrompt(request.system)) requests.push(toText(request.messages[0]));
        return answerRequest(request, call);
      },
    });
    const longPrompt = Array.from({ length: 900 }, (_, n) => `requirement ${n}`).join(", ");
    const firstRun = await agent.run({ message: longPrompt });
    await firstRun.result;
    const { callCount } = provider;
    const runCompaction = async () =>
      readEvents(await agent.run({ message: "", sessionId: firstRun.sessionId, compact: true }));
    assert.deepEqual(
      (await runCompaction()).map(({ type }) => type),
      ["done"],
      "the current prompt is not compacted",
    );
    assert.equal(provider.callCount, callCount);
    for (const message of ["on", "and on"]) await (await agent.run({ message, sessionId: firstRun.sessionId })).result;
    assert.deepEqual(
      (await runCompaction()).map(({ type }) => type),
      ["compaction", "done"],
    );
    assert.ok(requests[0]?.includes(longPrompt), "the summary request contains the complete first prompt");
    assert.equal(sessionId, "");
  });

  it("ends at its budget, and fails when the model returns an empty summary", async (t) => {
    const { agent, sessionId } = await createConversation(t, undefined, {
      answer: (request, call) => (isSummaryPrompt(request.system) ? " " : answerRequest(request, call)),
    });
    const previousView = await agent.sessions.messages(sessionId, { view: "model" });
    const startCompaction = (input: object) => agent.run({ message: "", sessionId, compact: true, ...input });
    const budgetResult = await (await startCompaction({ budget: { tokens: 1 } })).result;
    assert.deepEqual([budgetResult.endedBy, budgetResult.finishReason, budgetResult.output], ["budget", "length", ""]);
    await assert.rejects((await startCompaction({})).result, { name: "ProviderError", kind: "protocol" });
    assert.deepEqual(await agent.sessions.messages(sessionId, { view: "model" }), previousView);
  });

  it("passes the message as instructions to a custom strategy, also if automatic compaction is off", async (t) => {
    const receivedInstructions: unknown[] = [];
    const strategy = {
      name: "last-two",
      compact: ({
        messages,
        instructions,
      }: {
        messages: readonly ModelMessage[];
        instructions?: string | undefined;
      }) => {
        receivedInstructions.push(instructions);
        return Promise.resolve(messages.slice(-2));
      },
    };
    const { agent, sessionId } = await createConversation(t, undefined, {
      options: { compaction: { enabled: false, strategy } },
    });
    await (
      await agent.run({ message: "names", sessionId, compact: true })
    ).result;
    assert.deepEqual(receivedInstructions, ["names"]);
    assert.equal((await agent.sessions.messages(sessionId, { view: "model" })).length, 2);
  });

  it("starts a new run with a message that was sent by steer during the compaction", async (t) => {
    let steerRun = async (): Promise<unknown> => undefined;
    const compact = async ({ messages }: { messages: readonly ModelMessage[] }) => {
      await steerRun();
      return messages.slice(-4);
    };
    const strategy = { name: "last-four", compact };
    const { agent, sessionId } = await createConversation(t, undefined, { options: { compaction: { strategy } } });
    steerRun = async () => {
      const [run] = await agent.runs.list({ sessionId, states: ["running"] });
      assert.equal(await agent.runs.steer(run?.id ?? "", "and now?"), true);
    };
    const { length: previousCount } = await agent.sessions.messages(sessionId);
    await (
      await agent.run({ message: "", sessionId, compact: true })
    ).result;
    for await (const event of agent.sessions.watch(sessionId, { afterSeq: previousCount, signal: t.signal }))
      if (event.type === "message" && event.message.role === "assistant") break;
    const messages = await agent.sessions.messages(sessionId);
    assert.equal(toText(messages[previousCount]), "and now?");
    assert.equal(messages.length, previousCount + 2);
  });
});
