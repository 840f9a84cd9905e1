import assert from "node:assert/strict";
import { it } from "node:test";
import { Agent, builtinTools, type AgentOptions, type AskReply, type AskRequest, type RunInput } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import type { Hooks } from "../../../helpers/temp-dir.js";

/** Runs an agent whose model calls ask_user. Returns whether the tool was offered, and the result of the call. */
async function runAskUser(
  t: Hooks,
  options: Partial<AgentOptions>,
  input: Partial<RunInput>,
  args: object = { question: "Which\n way?", choices: ["left", "right", "left"] },
) {
  const provider = new ScriptedProvider([callTools(["ask_user", args, "c"]), "end"]);
  const agent = new Agent({ providers: [provider], tools: builtinTools(), ...options });
  t.after(() => agent.close());
  const run = await agent.run({ message: "x", ...input });
  await run.result;
  const isOffered = provider.requests[0]!.tools.some(({ name }) => name === "ask_user");
  const toolMessage = (await agent.sessions.messages(run.sessionId)).find(({ role }) => role === "tool")!;
  const [part] = toolMessage.parts;
  return { isOffered, text: part?.type === "text" ? part.text : "", failed: toolMessage.failed, agent, run };
}

const NO_ANSWER = "The user did not answer. Decide yourself, and report your assumptions.";

it("ask_user is offered to the model only if a user can answer", async (t) => {
  for (const unattended of ["reject", "allow"] as const) {
    const { isOffered, text } = await runAskUser(t, { unattended }, {});
    assert.equal(isOffered, false);
    assert.match(text, /^Tool "ask_user" does not exist/);
  }
  const waitingRun = await runAskUser(t, { unattended: "wait", askTimeoutSeconds: 0.05 }, {});
  assert.deepEqual([waitingRun.isOffered, waitingRun.text, waitingRun.failed], [true, NO_ANSWER, false]);
  const [ask] = await waitingRun.agent.asks.list();
  assert.deepEqual([ask?.state, ask?.kind], ["withdrawn", "question"]);
});

it("ask_user returns the choice or text of the user, or reports that there was no answer, including in plan mode", async (t) => {
  const cases: readonly [reply: AskReply | "reject", args: object | undefined, expectedText: string][] = [
    [{ choice: "2", text: "" }, undefined, "The user answered: right"],
    [{ choice: "", text: "neither" }, undefined, NO_ANSWER],
    [{ choice: "", text: "neither" }, { question: "x", choices: ["a"], free_text: true }, "The user answered: neither"],
    [{ choice: "", text: "a name" }, { question: "x" }, "The user answered: a name"],
    ["reject", undefined, NO_ANSWER],
  ];
  for (const [reply, args, expectedText] of cases) {
    const requests: AskRequest[] = [];
    const ask = (request: AskRequest) => (requests.push(request), Promise.resolve(reply));
    const { isOffered, text } = await runAskUser(t, {}, { ask, mode: "plan" }, args);
    assert.deepEqual([isOffered, text], [true, expectedText]);
    if (args !== undefined) continue;
    assert.equal(requests[0]?.title, "Which way?");
    assert.deepEqual(requests[0]?.question, {
      choices: [
        { id: "1", label: "left" },
        { id: "2", label: "right" },
      ],
      freeText: false,
    });
  }
});

it("ask_user accepts the answer of a client that watches the session", async (t) => {
  const provider = new ScriptedProvider([callTools(["ask_user", { question: "x", choices: ["a"] }, "c"]), "end"]);
  const agent = new Agent({ providers: [provider], tools: builtinTools() });
  t.after(() => agent.close());
  const { id } = await agent.sessions.create();
  let run: Promise<unknown> | undefined;
  for await (const event of agent.sessions.watch(id, { canAnswer: true })) {
    run ??= agent.run({ message: "x", sessionId: id }).then(({ result }) => result);
    if (event.type !== "state") continue;
    for (const ask of event.state.asks) await agent.asks.answer(ask.id, { choice: "1" }, "page").catch(() => undefined);
    if (event.state.run?.state === "finished") break;
  }
  await run;
  const toolMessage = (await agent.sessions.messages(id)).find(({ role }) => role === "tool");
  assert.deepEqual(toolMessage?.parts, [{ type: "text", text: "The user answered: a" }]);
});
