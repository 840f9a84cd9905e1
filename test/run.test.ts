import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentEvent } from "gantry";
import { EventBuffer } from "../src/run.js";

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

async function drain(buffer: EventBuffer): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of buffer) events.push(event);
  return events;
}

describe("the buffer of a run's events", () => {
  it("drops the oldest tokens beyond 256, and nothing else", async () => {
    const buffer = new EventBuffer("drop");
    for (let i = 0; i < 300; i += 1) buffer.push(token(String(i)));
    for (let i = 0; i < 300; i += 1) buffer.push(call(String(i)));
    buffer.push(token("one too many"));
    buffer.end();
    const events = await drain(buffer);
    assert.equal(events.filter((event) => event.type === "tool_call").length, 300);
    assert.equal(events.filter((event) => event.type === "token").length, 0);
  });

  it("keeps the newest tokens", async () => {
    const buffer = new EventBuffer("drop");
    for (let i = 0; i < 1000; i += 1) buffer.push(token(String(i)));
    buffer.end();
    const texts = (await drain(buffer)).map((event) => (event.type === "token" ? event.text : ""));
    assert.equal(texts.length, 256);
    assert.equal(texts.at(-1), "999");
    assert.equal(texts[0], "744");
  });

  it("joins adjacent tokens of one message and kind, and loses nothing", async () => {
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

  it("lets a reader leave: what comes after is kept nowhere", async () => {
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
});
