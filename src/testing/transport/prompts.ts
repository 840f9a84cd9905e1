import assert from "node:assert/strict";
import { ProviderError } from "../../ports/errors.js";
import { createGate, pause } from "../check.js";
import { OBSERVATION_MS, createTextChunk, type TransportRules } from "./harness.js";

/** A prompt with special characters. */
const SPECIAL_PROMPT = 'Grüße 👩‍💻, "quotes" \\ and {braces}\n\n  second line\ttab \u2028 <b>&amp;</b> data: x\r\nend';

export const promptRules: TransportRules = {
  "prompt: reaches the agent unchanged, and the answer returns unchanged": async (harness) => {
    const reply = `${SPECIAL_PROMPT} and back`;
    harness.provider.push(reply);
    const client = await harness.connect(await harness.start());
    const answer = await harness.withTimeLimit(client.prompt(SPECIAL_PROMPT), "an answer");
    const parts = harness.provider.requests[0]?.messages.at(-1)?.parts ?? [];
    assert.deepEqual(parts, [{ type: "text", text: SPECIAL_PROMPT }]);
    assert.equal(answer.text, reply);
  },
  "answer: is streamed": async (harness) => {
    const { whenOpen, open } = createGate();
    harness.provider.push([createTextChunk("begun "), whenOpen, createTextChunk("done")]);
    const client = await harness.connect(await harness.start());
    const { answer } = await harness.beginPrompt(client);
    open();
    assert.equal((await harness.withTimeLimit(answer, "an answer")).text, "begun done");
  },
  "answer: contains every piece once, in order": async (harness) => {
    const pieces = Array.from({ length: 150 }, (_, n) => `${n} `);
    harness.provider.push(pieces.map(createTextChunk));
    const client = await harness.connect(await harness.start());
    let streamedText = "";
    const answer = await harness.withTimeLimit(
      client.prompt("count", { onText: (piece) => (streamedText += piece) }),
      "an answer",
    );
    assert.equal(answer.text, pieces.join(""));
    assert.equal(streamedText, pieces.join(""));
  },
  "session: a prompt with a session id continues that session, also from another client": async (harness) => {
    harness.provider.push("first", "second", "third");
    const listening = await harness.start();
    const client = await harness.connect(listening);
    const { sessionId } = await harness.withTimeLimit(client.prompt("one"), "an answer");
    const secondAnswer = await harness.withTimeLimit(client.prompt("two", { sessionId }), "an answer in the session");
    assert.equal(secondAnswer.sessionId, sessionId);
    await client.close();
    const secondClient = await harness.connect(listening);
    await harness.withTimeLimit(secondClient.prompt("three", { sessionId }), "an answer to another client");
    const sentMessages = harness.provider.requests.at(-1)?.messages.map(({ parts }) => JSON.stringify(parts)) ?? [];
    assert.equal(sentMessages.length, 5, "the request contains the whole conversation");
    const prompts = ["one", "two", "three"];
    for (const [i, prompt] of prompts.entries()) assert.ok(sentMessages[2 * i]?.includes(prompt), `prompt ${prompt}`);
  },
  "session: an unknown id is rejected without a model request": async (harness) => {
    const client = await harness.connect(await harness.start());
    await assert.rejects(
      harness.withTimeLimit(client.prompt("one", { sessionId: "no-such-session" }), "a rejection"),
      expectNoTimeout,
    );
    assert.equal(harness.provider.requests.length, 0);
  },
  "two clients: each gets its own answer, regardless of the order": async (harness) => {
    const gates = new Map(["a", "b"].map((name) => [name, createGate()]));
    const createStep = (name: string) => [
      createTextChunk(`begun ${name} `),
      gates.get(name)?.whenOpen ?? 0,
      createTextChunk(`done ${name}`),
    ];
    const answerByName = (request: { messages: readonly unknown[] }) =>
      createStep(JSON.stringify(request.messages.at(-1)).includes("from a") ? "a" : "b");
    harness.provider.push(answerByName, answerByName);
    const listening = await harness.start();
    const streamedTexts: Record<string, string> = { a: "", b: "" };
    const sendPrompt = async (name: string) => {
      const client = await harness.connect(listening);
      const answer = client.prompt(`from ${name}`, { onText: (piece) => (streamedTexts[name] += piece) });
      answer.catch(() => undefined);
      await harness.waitUntil(() => streamedTexts[name] !== "", `the first piece for ${name}`);
      return answer;
    };
    const answerToA = sendPrompt("a");
    await harness.waitUntil(() => streamedTexts["a"] !== "", "the first piece for a");
    const answerToB = sendPrompt("b");
    await harness.waitUntil(() => streamedTexts["b"] !== "", "the first piece for b");
    gates.get("b")?.open();
    const secondAnswer = await harness.withTimeLimit(answerToB, "the answer to b, while a waits");
    gates.get("a")?.open();
    const firstAnswer = await harness.withTimeLimit(answerToA, "the answer to a");
    assert.deepEqual([firstAnswer.text, secondAnswer.text], ["begun a done a", "begun b done b"]);
    assert.deepEqual(streamedTexts, { a: "begun a done a", b: "begun b done b" });
    assert.notEqual(firstAnswer.sessionId, secondAnswer.sessionId);
  },
  "a model failure: its client gets an error, and the next prompt is answered": async (harness) => {
    harness.provider.push(new ProviderError("scripted", "bad_request", "invalid request"), "fine");
    const client = await harness.connect(await harness.start());
    await assert.rejects(harness.withTimeLimit(client.prompt("one"), "a failure"), expectNoTimeout);
    assert.equal((await harness.withTimeLimit(client.prompt("two"), "an answer")).text, "fine");
  },
  "a disconnected client: its run is cancelled or continues, as the fixture states": async (harness) => {
    const { whenOpen, open } = createGate();
    harness.provider.push([createTextChunk("begun "), whenOpen, createTextChunk("done")]);
    const client = await harness.connect(await harness.start());
    await harness.beginPrompt(client);
    await harness.withTimeLimit(client.close(), "disconnect");
    if (harness.fixture.onDisconnect === "cancel") {
      await harness.waitUntil(() => harness.runOutcomes.length > 0, "the end of a run whose client disconnected");
      assert.deepEqual(harness.runOutcomes, ["failed"], "cancelled, not finished");
      assert.equal(harness.provider.active, 0);
    } else {
      await pause(OBSERVATION_MS);
      assert.deepEqual(harness.runOutcomes, [], "the run continues");
      open();
      await harness.waitUntil(() => harness.runOutcomes.length > 0, "the end of a run whose client disconnected");
      assert.deepEqual(harness.runOutcomes, ["finished"]);
    }
  },
  "a disconnected client: the other clients are not affected": async (harness) => {
    const { whenOpen, open } = createGate();
    harness.provider.push([createTextChunk("begun "), whenOpen, createTextChunk("done")], "other");
    const listening = await harness.start();
    const stayingClient = await harness.connect(listening);
    const { answer } = await harness.beginPrompt(stayingClient);
    const leavingClient = await harness.connect(listening);
    await harness.withTimeLimit(leavingClient.prompt("short"), "an answer");
    await harness.withTimeLimit(leavingClient.close(), "disconnect");
    // The server notices the disconnect with a delay.
    await pause(OBSERVATION_MS);
    open();
    assert.equal((await harness.withTimeLimit(answer, "the answer to the remaining client")).text, "begun done");
  },
};

/** Asserts that `error` is a rejection by the transport, not the check's timeout. */
function expectNoTimeout(error: unknown): true {
  assert.ok(error instanceof Error && !(error instanceof assert.AssertionError), String(error));
  return true;
}
