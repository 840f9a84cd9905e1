import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { callTools } from "gantry/testing";
import { InProcessAcp, createScriptedAgent } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const FORMS = { elicitation: { form: {} } };

/** Asks one `ask_user` question. `reply` answers the client's request. Returns the request and the tool's result. */
async function askQuestion(
  t: Hooks,
  {
    question,
    clientCapabilities = FORMS,
    clientInfo,
  }: { question: Json; clientCapabilities?: Json; clientInfo?: Json },
  reply: (method: string, params: Json) => Json,
) {
  const { path: cwd } = await tempDir(t);
  const steps = [callTools(["ask_user", question]), "done"];
  const { agent, provider } = createScriptedAgent(t, steps, { tools: builtinTools() });
  const peer = new InProcessAcp(t, agent).connect();
  await peer.initialize({ clientCapabilities, clientInfo });
  const requests: Json[] = [];
  peer.onRequest = (method, params) => {
    requests.push({ method, params });
    return reply(method, params);
  };
  const session = await peer.newSession(cwd);
  await peer.prompt(session, "go");
  peer.assertNoValidationErrors();
  const [toolMessage] = (await agent.sessions.messages(session)).filter(({ role }) => role === "tool");
  const result = toolMessage?.parts.map((part) => ("text" in part ? part.text : "")).join("");
  const isOffered = provider.requests[0]!.tools.some(({ name }) => name === "ask_user");
  return { requests, result, isOffered, session, peer, cwd };
}

const accept = (content: Json) => () => ({ action: "accept", content });

describe("elicitation/create", () => {
  it("asks a free-text question, also in mode auto and for a client that is no editor", async (t) => {
    const question = { question: "Which name?" };
    const { requests, result, isOffered, session, peer } = await askQuestion(t, { question }, accept({ text: "Ada" }));
    assert.ok(isOffered);
    assert.equal(result, "The user answered: Ada");
    const call = peer.getUpdates(session).find(({ sessionUpdate }) => sessionUpdate === "tool_call");
    assert.deepEqual(requests, [
      {
        method: "elicitation/create",
        params: {
          sessionId: session,
          mode: "form",
          message: "Which name?",
          requestedSchema: {
            type: "object",
            properties: { text: { type: "string", title: "Answer" } },
            required: ["text"],
          },
          toolCallId: call.toolCallId,
        },
      },
    ]);
  });

  it("shows choices as a selection, alone or with a field for another answer", async (t) => {
    const choices = ["red", "blue"];
    const first = await askQuestion(t, { question: { question: "Colour?", choices } }, accept({ choice: "2" }));
    assert.equal(first.result, "The user answered: blue");
    const choice = {
      type: "string",
      title: "Answer",
      oneOf: [
        { const: "1", title: "red" },
        { const: "2", title: "blue" },
      ],
    };
    assert.deepEqual(first.requests[0].params.requestedSchema, {
      type: "object",
      properties: { choice },
      required: ["choice"],
    });
    const question = { question: "Colour?", choices, free_text: true };
    const second = await askQuestion(t, { question }, accept({ choice: "1", text: "teal" }));
    assert.equal(second.result, "The user answered: teal", "a text has priority over a choice");
    assert.deepEqual(second.requests[0].params.requestedSchema, {
      type: "object",
      properties: { choice, text: { type: "string", title: "Another answer" } },
    });
    assert.equal(
      (await askQuestion(t, { question }, accept({ choice: "1", text: " " }))).result,
      "The user answered: red",
    );
  });

  it("leaves the question unanswered after a decline, a cancel, or values that do not fit", async (t) => {
    const question = { question: "Colour?", choices: ["red"] };
    for (const reply of [
      { action: "decline" },
      { action: "cancel" },
      { action: "accept" },
      { action: "accept", content: { choice: "9" } },
      { action: "accept", content: { text: "not offered" } },
      { outcome: "selected" },
    ])
      assert.match(
        (await askQuestion(t, { question }, () => reply)).result ?? "",
        /^The user did not answer\./,
        JSON.stringify(reply),
      );
  });

  it("is not used for a client without forms, and never for permissions", async (t) => {
    const question = { question: "Colour?", choices: ["red"] };
    for (const clientCapabilities of [{ elicitation: {} }, { elicitation: { url: {} } }, { elicitation: null }]) {
      const { requests, result } = await askQuestion(
        t,
        { question, clientCapabilities, clientInfo: { name: "zed", version: "1" } },
        () => ({ outcome: { outcome: "selected", optionId: "1" } }),
      );
      assert.deepEqual(
        requests.map(({ method }) => method),
        ["session/request_permission"],
      );
      assert.equal(result, "The user answered: red");
    }
  });

  it("is withdrawn when another client answers a question of a run that this client did not prompt", async (t) => {
    const { path: cwd } = await tempDir(t);
    const steps = [callTools(["ask_user", { question: "Name?" }]), "done"];
    const { agent } = createScriptedAgent(t, steps, { tools: builtinTools(), unattended: "wait" });
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize({ clientCapabilities: FORMS });
    peer.onRequest = () => undefined;
    const { id } = await agent.sessions.create({ projectDir: cwd });
    await peer.request("session/load", { sessionId: id, cwd });
    const run = await agent.run({ message: "x", sessionId: id });
    const request = await peer.waitForMessage(({ method }) => method === "elicitation/create");
    const [ask] = await agent.asks.list({ sessionId: id, open: true });
    await agent.asks.answer(ask!.id, { choice: "", text: "Ada" }, "other");
    const { params } = await peer.waitForMessage(({ method }) => method === "$/cancel_request");
    assert.deepEqual(params, { requestId: request.id });
    await run.result;
    peer.assertNoValidationErrors();
  });
});
