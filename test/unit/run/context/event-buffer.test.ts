import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentEvent } from "gantry";
import { EventBuffer } from "../../../../src/run/context/event-buffer.js";
import { mockTime, waitTurns } from "../../../helpers/fake-time.js";

const createToken = (text: string, messageId = "m"): AgentEvent => ({
  type: "token",
  agentId: "a",
  agentName: "n",
  messageId,
  text,
});
const createCall = (callId: string): AgentEvent => ({
  type: "tool_call",
  messageId: "m",
  callId,
  name: "t",
  arguments: "{}",
  input: {},
  title: "t",
  kind: "other",
  locations: [],
});

const createProgress = (callId: string, text: string): AgentEvent => ({ type: "tool_progress", callId, text });
const createResult = (callId: string): AgentEvent => ({
  type: "tool_result",
  messageId: "m",
  callId,
  name: "t",
  output: "all",
  failed: false,
  parts: [],
  diff: [],
  locations: [],
});

async function readAll(buffer: EventBuffer): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of buffer) events.push(event);
  return events;
}

describe("the event buffer of a run", () => {
  it("loses nothing of a burst of 20,000 tokens, and merges adjacent waiting tokens", async () => {
    const buffer = new EventBuffer("drop");
    const texts = Array.from({ length: 20_000 }, (_, n) => `${n} `);
    for (const text of texts) buffer.push(createToken(text));
    buffer.end();
    const events = await readAll(buffer);
    assert.equal(events.map((event) => (event.type === "token" ? event.text : "")).join(""), texts.join(""));
    assert.ok(events.length < 300, `${events.length} events`);
    assert.equal(buffer.droppedTokenEvents, 0);
  });

  it("does not merge tool calls, tokens of different messages, or text with reasoning", async () => {
    const buffer = new EventBuffer("drop");
    for (let i = 0; i < 256; i += 1) buffer.push(createCall(String(i)));
    buffer.push(createToken("a"));
    buffer.push(createToken("b", "other"));
    buffer.push({ type: "token", agentId: "a", agentName: "n", messageId: "other", reasoning: "r" });
    buffer.end();
    assert.equal((await readAll(buffer)).length, 259);
  });

  it("drops the tokens of a reader that lags for 1 s, keeps all tool calls, and counts the dropped tokens", async (t) => {
    const { advance } = mockTime(t);
    const buffer = new EventBuffer("drop");
    // Too long for two texts to be merged into one event.
    const longText = "x".repeat(3000);
    for (let i = 0; i < 300; i += 1) buffer.push(createToken(`${i} ${longText}`));
    for (let i = 0; i < 300; i += 1) buffer.push(createCall(String(i)));
    advance(999);
    await waitTurns();
    assert.equal(buffer.droppedTokenEvents, 0, "no token is dropped before 1 s");
    advance(1);
    await waitTurns();
    assert.notEqual(buffer.droppedTokenEvents, 0);
    buffer.push(createToken("one too many"));
    buffer.end();
    const events = await readAll(buffer);
    assert.equal(events.filter((event) => event.type === "tool_call").length, 300);
    assert.equal(events.filter((event) => event.type === "token").length, 0);
    assert.equal(buffer.droppedTokenEvents, 301);
  });

  it("keeps the newest tokens of a slow reader, and drops no more after the reader has caught up", async (t) => {
    const { advance } = mockTime(t);
    const buffer = new EventBuffer("drop");
    const longText = "x".repeat(3000);
    for (let i = 0; i < 1000; i += 1) buffer.push(createToken(`${i} ${longText}`));
    advance(1_000);
    await waitTurns();
    const texts: string[] = [];
    for (let i = 0; i < 256; i += 1) {
      const { value } = await buffer.next();
      if (value?.type === "token") texts.push(value.text?.split(" ")[0] ?? "");
    }
    assert.deepEqual([texts.length, texts[0], texts.at(-1)], [256, "744", "999"]);
    assert.equal(buffer.droppedTokenEvents, 744);
    for (let i = 0; i < 1000; i += 1) buffer.push(createToken(`${i} ${longText}`));
    buffer.end();
    assert.equal((await readAll(buffer)).length, 1000);
    assert.equal(buffer.droppedTokenEvents, 744);
  });

  it('merges adjacent tokens of one message and kind with overflow "merge", and loses nothing', async () => {
    const buffer = new EventBuffer("merge");
    for (let i = 0; i < 1000; i += 1) buffer.push(createToken("a"));
    buffer.push({ type: "token", agentId: "a", agentName: "n", messageId: "m", reasoning: "r" });
    buffer.push(createToken("b"));
    buffer.push(createToken("c", "other"));
    buffer.end();
    const events = await readAll(buffer);
    assert.deepEqual(
      events.map((event) => (event.type === "token" ? (event.text?.length ?? "reasoning") : "")),
      [1000, "reasoning", 1, 1],
    );
  });

  for (const overflow of ["drop", "merge"] as const) {
    it(`delivers the first event after a pause at once, and later tokens of the same turn merged (${overflow})`, async () => {
      const buffer = new EventBuffer(overflow);
      const receivedTexts: string[] = [];
      const readPromise = (async () => {
        for await (const event of buffer) receivedTexts.push(event.type === "token" ? (event.text ?? "") : event.type);
      })();
      const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
      for (let i = 0; i < 2; i += 1) {
        await nextTurn();
        receivedTexts.length = 0;
        for (const text of ["one ", "two ", "three"]) {
          buffer.push(createToken(text));
          // As many microtasks as a provider needs that already has all tokens.
          for (let i = 0; i < 20; i += 1) await Promise.resolve();
          assert.deepEqual(receivedTexts, ["one "]);
        }
        buffer.push(createCall("c"));
        for (let i = 0; i < 20; i += 1) await Promise.resolve();
        // Events other than tokens are sent at once.
        assert.deepEqual(receivedTexts, ["one ", "two three", "tool_call"]);
        buffer.push(createToken("four"));
        await nextTurn();
        await nextTurn();
        assert.deepEqual(receivedTexts, ["one ", "two three", "tool_call", "four"]);
      }
      buffer.push(createToken("five "));
      await Promise.resolve();
      await Promise.resolve();
      buffer.push(createToken("six "));
      buffer.push(createToken("seven"));
      // The end is sent at once.
      buffer.end();
      await readPromise;
      assert.deepEqual(receivedTexts.slice(4), ["five ", "six seven"]);
    });
  }

  it("does not merge a token into an event that the reader has received", async () => {
    const buffer = new EventBuffer("merge");
    buffer.push(createToken("a"));
    const { value } = await buffer.next();
    buffer.push(createToken("b"));
    buffer.end();
    assert.equal(value?.type === "token" && value.text, "a");
    assert.deepEqual(await readAll(buffer), [createToken("b")]);
  });

  it("keeps no event after its reader has returned", async () => {
    const buffer = new EventBuffer("merge");
    buffer.push(createToken("a"));
    await buffer.return();
    buffer.push(createToken("b"));
    assert.deepEqual(await buffer.next(), { value: undefined, done: true });
  });

  it("wakes a waiting reader at the end", async () => {
    const buffer = new EventBuffer("drop");
    const pendingRead = buffer.next();
    buffer.end();
    assert.equal((await pendingRead).done, true);
  });

  for (const overflow of ["drop", "merge"] as const)
    it(`merges the progress of each tool call, and keeps only its end, at most 64 KiB (${overflow})`, async () => {
      const buffer = new EventBuffer(overflow);
      for (let i = 0; i < 10_000; i += 1) buffer.push(createProgress(i % 2 ? "a" : "b", `${i} is printed 🙂\n`));
      buffer.end();
      const events = await readAll(buffer);
      assert.deepEqual(
        events.map((event) => event.type === "tool_progress" && event.callId),
        ["b", "a"],
      );
      for (const [n, event] of events.entries()) {
        assert.ok(event.type === "tool_progress" && event.text.length <= 64 * 1024 && event.text.isWellFormed());
        assert.ok(event.text.endsWith(`${9_998 + n} is printed 🙂\n`));
      }
    });

  it("drops the unread progress of a call when its result arrives, and keeps that of other calls", async () => {
    const buffer = new EventBuffer("merge");
    buffer.push(createCall("a"));
    buffer.push(createProgress("a", "1"));
    buffer.push(createProgress("b", "2"));
    buffer.push(createResult("a"));
    assert.deepEqual((await buffer.next()).value?.type, "tool_call");
    assert.deepEqual((await buffer.next()).value, createProgress("b", "2"));
    buffer.push(createProgress("b", "3"));
    buffer.push(createResult("b"));
    buffer.push(createProgress("c", "4"));
    buffer.end();
    assert.deepEqual(
      (await readAll(buffer)).map((event) => ("callId" in event ? [event.type, event.callId] : [])),
      [
        ["tool_result", "a"],
        ["tool_result", "b"],
        ["tool_progress", "c"],
      ],
    );
  });

  it("drops the progress of tools before any token", async (t) => {
    const { advance } = mockTime(t);
    const buffer = new EventBuffer("drop");
    const longText = "x".repeat(3000);
    buffer.push(createProgress("a", "1"));
    for (let i = 0; i < 256; i += 1) buffer.push(createToken(`${i} ${longText}`));
    advance(1_000);
    await waitTurns();
    buffer.push(createProgress("b", "2"));
    buffer.end();
    const events = await readAll(buffer);
    assert.equal(buffer.droppedTokenEvents, 0);
    assert.equal(events.filter(({ type }) => type === "token").length, 256);
    assert.equal(events.filter(({ type }) => type === "tool_progress").length, 0);
  });
});
