import assert from "node:assert/strict";
import { ProviderError } from "../../ports/errors.js";
import { gate, pause } from "../check.js";
import { text, type TransportRules } from "./harness.js";

/** A prompt with special characters. */
const PROMPT = 'Grüße 👩‍💻, "quotes" \\ and {braces}\n\n  second line\ttab \u2028 <b>&amp;</b> data: x\r\nend';

export const promptRules: TransportRules = {
  "prompt: reaches the agent unchanged, and the answer returns unchanged": async (stage) => {
    const reply = `${PROMPT} and back`;
    stage.provider.push(reply);
    const client = await stage.connect(await stage.start());
    const answer = await stage.soon(client.prompt(PROMPT), "an answer");
    const parts = stage.provider.requests[0]?.messages.at(-1)?.parts ?? [];
    assert.deepEqual(parts, [{ type: "text", text: PROMPT }]);
    assert.equal(answer.text, reply);
  },
  "answer: is streamed": async (stage) => {
    const { opened, open } = gate();
    stage.provider.push([text("begun "), opened, text("done")]);
    const client = await stage.connect(await stage.start());
    const { answer } = await stage.beginPrompt(client);
    open();
    assert.equal((await stage.soon(answer, "an answer")).text, "begun done");
  },
  "answer: contains every piece once, in order": async (stage) => {
    const pieces = Array.from({ length: 150 }, (_, n) => `${n} `);
    stage.provider.push(pieces.map(text));
    const client = await stage.connect(await stage.start());
    let streamed = "";
    const answer = await stage.soon(client.prompt("count", { onText: (piece) => (streamed += piece) }), "an answer");
    assert.equal(answer.text, pieces.join(""));
    assert.equal(streamed, pieces.join(""));
  },
  "session: a prompt with a session id continues that session, also from another client": async (stage) => {
    stage.provider.push("first", "second", "third");
    const listening = await stage.start();
    const client = await stage.connect(listening);
    const { sessionId } = await stage.soon(client.prompt("one"), "an answer");
    const again = await stage.soon(client.prompt("two", { sessionId }), "an answer in the session");
    assert.equal(again.sessionId, sessionId);
    await client.close();
    const secondClient = await stage.connect(listening);
    await stage.soon(secondClient.prompt("three", { sessionId }), "an answer to another client");
    const seen = stage.provider.requests.at(-1)?.messages.map(({ parts }) => JSON.stringify(parts)) ?? [];
    assert.equal(seen.length, 5, "the whole conversation continues");
    const prompts = ["one", "two", "three"];
    for (const [i, prompt] of prompts.entries()) assert.ok(seen[2 * i]?.includes(prompt), `prompt ${prompt}`);
  },
  "session: an unknown id is rejected without a model request": async (stage) => {
    const client = await stage.connect(await stage.start());
    await assert.rejects(stage.soon(client.prompt("one", { sessionId: "no-such-session" }), "a refusal"), notLate);
    assert.equal(stage.provider.requests.length, 0);
  },
  "two clients: each gets its own answer, regardless of the order": async (stage) => {
    const doors = new Map(["a", "b"].map((name) => [name, gate()]));
    const step = (name: string) => [text(`begun ${name} `), doors.get(name)?.opened ?? 0, text(`done ${name}`)];
    const echo = (request: { messages: readonly unknown[] }) =>
      step(JSON.stringify(request.messages.at(-1)).includes("from a") ? "a" : "b");
    stage.provider.push(echo, echo);
    const listening = await stage.start();
    const heard: Record<string, string> = { a: "", b: "" };
    const ask = async (name: string) => {
      const client = await stage.connect(listening);
      const answer = client.prompt(`from ${name}`, { onText: (piece) => (heard[name] += piece) });
      answer.catch(() => undefined);
      await stage.until(() => heard[name] !== "", `the first piece for ${name}`);
      return answer;
    };
    const a = ask("a");
    await stage.until(() => heard["a"] !== "", "the first piece for a");
    const b = ask("b");
    await stage.until(() => heard["b"] !== "", "the first piece for b");
    doors.get("b")?.open();
    const second = await stage.soon(b, "the answer to b, while a waits");
    doors.get("a")?.open();
    const first = await stage.soon(a, "the answer to a");
    assert.deepEqual([first.text, second.text], ["begun a done a", "begun b done b"]);
    assert.deepEqual(heard, { a: "begun a done a", b: "begun b done b" });
    assert.notEqual(first.sessionId, second.sessionId);
  },
  "a model failure: its client gets an error, and the next prompt is answered": async (stage) => {
    stage.provider.push(new ProviderError("scripted", "bad_request", "no such thing"), "fine");
    const client = await stage.connect(await stage.start());
    await assert.rejects(stage.soon(client.prompt("one"), "a failure"), notLate);
    assert.equal((await stage.soon(client.prompt("two"), "an answer")).text, "fine");
  },
  "a disconnected client: its run is cancelled or continues, as the fixture states": async (stage) => {
    const { opened, open } = gate();
    stage.provider.push([text("begun "), opened, text("done")]);
    const client = await stage.connect(await stage.start());
    await stage.beginPrompt(client);
    await stage.soon(client.close(), "leaving");
    if (stage.fixture.onDisconnect === "cancel") {
      await stage.until(() => stage.ended.length > 0, "the end of a run whose client left");
      assert.deepEqual(stage.ended, ["failed"], "cancelled, not finished");
      assert.equal(stage.provider.active, 0);
    } else {
      await pause(50);
      assert.deepEqual(stage.ended, [], "the run continues");
      open();
      await stage.until(() => stage.ended.length > 0, "the end of a run whose client left");
      assert.deepEqual(stage.ended, ["finished"]);
    }
  },
  "a disconnected client: the other clients are not affected": async (stage) => {
    const { opened, open } = gate();
    stage.provider.push([text("begun "), opened, text("done")], "other");
    const listening = await stage.start();
    const stays = await stage.connect(listening);
    const { answer } = await stage.beginPrompt(stays);
    const leaves = await stage.connect(listening);
    await stage.soon(leaves.prompt("short"), "an answer");
    await stage.soon(leaves.close(), "leaving");
    // The server notices the disconnect with a delay.
    await pause(50);
    open();
    assert.equal((await stage.soon(answer, "the answer to the one that stays")).text, "begun done");
  },
};

/** Accepts a rejection, but not the check's own timeout. */
function notLate(error: unknown): true {
  assert.ok(error instanceof Error && !(error instanceof assert.AssertionError), String(error));
  return true;
}
