import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentEvent } from "gantry";
import { EventBuffer } from "../../../../src/run/context/event-buffer.js";
import { fakeTime, turns } from "../../../helpers/fake-time.js";

const token = (text: string, messageId = "m"): AgentEvent => ({
  type: "token",
  agentId: "a",
  agentName: "n",
  messageId,
  text,
});
const call = (callId: string): AgentEvent => ({
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

const printed = (callId: string, text: string): AgentEvent => ({ type: "tool_progress", callId, text });
const result = (callId: string): AgentEvent => ({
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

async function drain(buffer: EventBuffer): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of buffer) events.push(event);
  return events;
}

describe("the event buffer of a run", () => {
  it("loses nothing of a burst of 20,000 tokens, and merges adjacent waiting tokens", async () => {
    const buffer = new EventBuffer("drop");
    const texts = Array.from({ length: 20_000 }, (_, n) => `${n} `);
    for (const text of texts) buffer.push(token(text));
    buffer.end();
    const events = await drain(buffer);
    assert.equal(events.map((event) => (event.type === "token" ? event.text : "")).join(""), texts.join(""));
    assert.ok(events.length < 300, `${events.length} events`);
    assert.equal(buffer.dropped, 0);
  });

  it("does not merge tool calls, tokens of different messages, or text with reasoning", async () => {
    const buffer = new EventBuffer("drop");
    for (let i = 0; i < 256; i += 1) buffer.push(call(String(i)));
    buffer.push(token("a"));
    buffer.push(token("b", "other"));
    buffer.push({ type: "token", agentId: "a", agentName: "n", messageId: "other", reasoning: "r" });
    buffer.end();
    assert.equal((await drain(buffer)).length, 259);
  });

  it("drops the tokens of a reader that lags for 1 s, keeps all tool calls, and counts the dropped tokens", async (t) => {
    const { pass } = fakeTime(t);
    const buffer = new EventBuffer("drop");
    // Too long for two texts to be merged into one event.
    const long = "x".repeat(3000);
    for (let i = 0; i < 300; i += 1) buffer.push(token(`${i} ${long}`));
    for (let i = 0; i < 300; i += 1) buffer.push(call(String(i)));
    pass(999);
    await turns();
    assert.equal(buffer.dropped, 0, "not before it had its time");
    pass(1);
    await turns();
    assert.notEqual(buffer.dropped, 0);
    buffer.push(token("one too many"));
    buffer.end();
    const events = await drain(buffer);
    assert.equal(events.filter((event) => event.type === "tool_call").length, 300);
    assert.equal(events.filter((event) => event.type === "token").length, 0);
    assert.equal(buffer.dropped, 301);
  });

  it("keeps the newest tokens of a slow reader, and drops no more after the reader has caught up", async (t) => {
    const { pass } = fakeTime(t);
    const buffer = new EventBuffer("drop");
    const long = "x".repeat(3000);
    for (let i = 0; i < 1000; i += 1) buffer.push(token(`${i} ${long}`));
    pass(1_000);
    await turns();
    const texts: string[] = [];
    for (let i = 0; i < 256; i += 1) {
      const { value } = await buffer.next();
      if (value?.type === "token") texts.push(value.text?.split(" ")[0] ?? "");
    }
    assert.deepEqual([texts.length, texts[0], texts.at(-1)], [256, "744", "999"]);
    assert.equal(buffer.dropped, 744);
    for (let i = 0; i < 1000; i += 1) buffer.push(token(`${i} ${long}`));
    buffer.end();
    assert.equal((await drain(buffer)).length, 1000);
    assert.equal(buffer.dropped, 744);
  });

  it('merges adjacent tokens of one message and kind with overflow "merge", and loses nothing', async () => {
    const buffer = new EventBuffer("merge");
    for (let i = 0; i < 1000; i += 1) buffer.push(token("a"));
    buffer.push({ type: "token", agentId: "a", agentName: "n", messageId: "m", reasoning: "r" });
    buffer.push(token("b"));
    buffer.push(token("c", "other"));
    buffer.end();
    const events = await drain(buffer);
    assert.deepEqual(
      events.map((event) => (event.type === "token" ? (event.text?.length ?? "reasoning") : "")),
      [1000, "reasoning", 1, 1],
    );
  });

  for (const overflow of ["drop", "merge"] as const) {
    it(`delivers the first event after a pause at once, and later tokens of the same turn merged (${overflow})`, async () => {
      const buffer = new EventBuffer(overflow);
      const received: string[] = [];
      const reading = (async () => {
        for await (const event of buffer) received.push(event.type === "token" ? (event.text ?? "") : event.type);
      })();
      const turn = () => new Promise((resolve) => setImmediate(resolve));
      for (let silence = 0; silence < 2; silence += 1) {
        await turn();
        received.length = 0;
        for (const text of ["one ", "two ", "three"]) {
          buffer.push(token(text));
          // As many microtasks as a provider needs that already has all tokens.
          for (let i = 0; i < 20; i += 1) await Promise.resolve();
          assert.deepEqual(received, ["one "]);
        }
        buffer.push(call("c"));
        for (let i = 0; i < 20; i += 1) await Promise.resolve();
        // Events other than tokens are sent at once.
        assert.deepEqual(received, ["one ", "two three", "tool_call"]);
        buffer.push(token("four"));
        await turn();
        await turn();
        assert.deepEqual(received, ["one ", "two three", "tool_call", "four"]);
      }
      buffer.push(token("five "));
      await Promise.resolve();
      await Promise.resolve();
      buffer.push(token("six "));
      buffer.push(token("seven"));
      // The end is sent at once.
      buffer.end();
      await reading;
      assert.deepEqual(received.slice(4), ["five ", "six seven"]);
    });
  }

  it("does not merge a token into an event that the reader has received", async () => {
    const buffer = new EventBuffer("merge");
    buffer.push(token("a"));
    const { value } = await buffer.next();
    buffer.push(token("b"));
    buffer.end();
    assert.equal(value?.type === "token" && value.text, "a");
    assert.deepEqual(await drain(buffer), [token("b")]);
  });

  it("keeps no event after its reader has returned", async () => {
    const buffer = new EventBuffer("merge");
    buffer.push(token("a"));
    await buffer.return();
    buffer.push(token("b"));
    assert.deepEqual(await buffer.next(), { value: undefined, done: true });
  });

  it("wakes a waiting reader at the end", async () => {
    const buffer = new EventBuffer("drop");
    const waiting = buffer.next();
    buffer.end();
    assert.equal((await waiting).done, true);
  });

  for (const overflow of ["drop", "merge"] as const)
    it(`merges the progress of each tool call, and keeps only its end, at most 64 KiB (${overflow})`, async () => {
      const buffer = new EventBuffer(overflow);
      for (let i = 0; i < 10_000; i += 1) buffer.push(printed(i % 2 ? "a" : "b", `${i} is printed 🙂\n`));
      buffer.end();
      const events = await drain(buffer);
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
    buffer.push(call("a"));
    buffer.push(printed("a", "1"));
    buffer.push(printed("b", "2"));
    buffer.push(result("a"));
    assert.deepEqual((await buffer.next()).value?.type, "tool_call");
    assert.deepEqual((await buffer.next()).value, printed("b", "2"));
    buffer.push(printed("b", "3"));
    buffer.push(result("b"));
    buffer.push(printed("c", "4"));
    buffer.end();
    assert.deepEqual(
      (await drain(buffer)).map((event) => ("callId" in event ? [event.type, event.callId] : [])),
      [
        ["tool_result", "a"],
        ["tool_result", "b"],
        ["tool_progress", "c"],
      ],
    );
  });

  it("drops the progress of tools before any token", async (t) => {
    const { pass } = fakeTime(t);
    const buffer = new EventBuffer("drop");
    const long = "x".repeat(3000);
    buffer.push(printed("a", "1"));
    for (let i = 0; i < 256; i += 1) buffer.push(token(`${i} ${long}`));
    pass(1_000);
    await turns();
    buffer.push(printed("b", "2"));
    buffer.end();
    const events = await drain(buffer);
    assert.equal(buffer.dropped, 0);
    assert.equal(events.filter(({ type }) => type === "token").length, 256);
    assert.equal(events.filter(({ type }) => type === "tool_progress").length, 0);
  });
});
