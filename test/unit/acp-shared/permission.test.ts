import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { builtinTools, type Tool } from "gantry";
import { callTools } from "gantry/testing";
import { InProcessAcp, createScriptedAgent, createTestTool } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

type Call = [name: string, input: Json];

/** The client's response to a permission request: an option id, an outcome, or an error. */
type Reply = string | { outcome: Json } | { error: Json };

/** Sends one prompt per call. Returns the requests to the client and the tool results that the model read. */
async function promptCalls(
  t: Hooks,
  tools: readonly Tool[],
  calls: readonly Call[],
  replies: readonly Reply[],
  cwd: string,
) {
  const steps = calls.flatMap((call) => [callTools(call), "done"]);
  const { agent } = createScriptedAgent(t, steps, { tools: [...tools] });
  const peer = new InProcessAcp(t, agent, { requestPermission: true, profile: "official" }).connect();
  await peer.initialize();
  const session = await peer.newSession(cwd);
  const remainingReplies = [...replies];
  const requests: Json[] = [];
  peer.onRequest = (_method, params) => {
    requests.push(params);
    const reply = remainingReplies.shift() ?? "reject_once";
    if (typeof reply === "string") return { outcome: { outcome: "selected", optionId: reply } };
    if ("outcome" in reply) return reply;
    const { id } = peer.receivedMessages.at(-1);
    peer.send({ jsonrpc: "2.0", id, error: reply.error });
    return undefined;
  };
  for (const _ of calls) await peer.prompt(session, "go");
  const messages = await agent.sessions.messages(session);
  const results = messages
    .filter(({ role }) => role === "tool")
    .map(({ parts, failed }) => ({ failed, text: parts.map((part) => ("text" in part ? part.text : "")).join("") }));
  peer.assertNoValidationErrors();
  return { requests, results, peer, session };
}

const createRiskyTool = () =>
  createTestTool("risky", () => ({ text: "ran" }), { needsPermission: true, kind: "execute" });

describe("session/request_permission", () => {
  it("is sent once per call, after its tool_call update; a rejected call fails and never starts", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { requests, results, peer } = await promptCalls(
      t,
      [createRiskyTool()],
      [
        ["risky", { a: 1 }],
        ["risky", { a: 1 }],
      ],
      ["reject_once", "allow_once"],
      cwd,
    );
    assert.deepEqual(results[0], { failed: true, text: "The user rejected this call. Ask what to do instead." });
    assert.deepEqual(results[1], { failed: false, text: "ran" });
    assert.equal(requests.length, 2);
    const requestIndex = peer.receivedMessages.findIndex((message) => message.method === "session/request_permission");
    const callUpdate = peer.receivedMessages[requestIndex - 1].params.update;
    assert.equal(callUpdate.sessionUpdate, "tool_call", "the call is sent before the permission request");
    assert.equal(callUpdate.toolCallId, requests[0].toolCall.toolCallId);
    assert.deepEqual(
      requests[0].options.map((option: Json) => option.kind),
      ["allow_once", "allow_always", "reject_once"],
    );
    const startedUpdates = peer.getUpdates().filter(({ status }) => status === "in_progress");
    assert.deepEqual(
      startedUpdates.map(({ toolCallId }) => toolCallId),
      [requests[1].toolCall.toolCallId],
      "a rejected call does not start",
    );
  });

  it("applies allow_always to the same bash command, or to later edits (not writes) of the same file", async (t) => {
    const { path: cwd } = await tempDir(t, { "a.txt": "1\n", "b.txt": "1\n" });
    const tools = builtinTools({ bash: { sandbox: "off" } });
    const createBashCall = (command: string): Call => ["bash", { command }];
    const createEditCall = (path: string, old_string: string, new_string: string): Call => [
      "edit",
      { path, old_string, new_string },
    ];
    const { requests } = await promptCalls(
      t,
      tools,
      [
        createBashCall("echo one"),
        createBashCall("echo one"),
        createBashCall("echo one; touch stolen"),
        createEditCall("a.txt", "1", "2"),
        createEditCall("a.txt", "2", "3"),
        createEditCall("b.txt", "1", "2"),
        ["write", { path: "a.txt", content: "new" }],
      ],
      ["allow_always", "reject_once", "allow_always", "reject_once", "reject_once"],
      cwd,
    );
    assert.deepEqual(
      requests.map(({ toolCall }) => toolCall.rawInput.command ?? `${toolCall.title}`),
      ["echo one", "echo one; touch stolen", "Edit a.txt", "Edit b.txt", "Write a.txt"],
    );
    assert.deepEqual(
      requests.map(({ options }) => options[1].name),
      [
        "Always allow this command",
        "Always allow this command",
        "Always allow for this file",
        "Always allow for this file",
        "Always allow for this file",
      ],
    );
  });

  it("contains the diff of a file change, its location and the complete bash command", async (t) => {
    const { path: cwd } = await tempDir(t, { "a.txt": "one\ntwo\n" });
    const command = `echo ${"x".repeat(5_000)}\nrm -rf something`;
    const edits = [
      { old_string: "one", new_string: "1" },
      { old_string: "two", new_string: "2" },
    ];
    const tools = builtinTools();
    const { requests } = await promptCalls(
      t,
      tools,
      [
        ["write", { path: "b.txt", content: "new\n" }],
        ["edit", { path: "a.txt", old_string: "one", new_string: "1" }],
        ["multiedit", { path: "a.txt", edits }],
        ["bash", { command }],
        ["delete", { path: "a.txt" }],
        ["write", { path: "a.txt", content: "1\n" }],
      ],
      [],
      cwd,
    );
    const filePath = `${cwd}/a.txt`;
    assert.deepEqual(
      requests.map(({ toolCall }) => toolCall.content),
      [
        [{ type: "diff", path: `${cwd}/b.txt`, oldText: null, newText: "new\n" }],
        [{ type: "diff", path: filePath, oldText: "one", newText: "1" }],
        [
          { type: "diff", path: filePath, oldText: "one", newText: "1" },
          { type: "diff", path: filePath, oldText: "two", newText: "2" },
        ],
        undefined,
        undefined,
        [{ type: "diff", path: filePath, oldText: "one\ntwo\n", newText: "1\n" }],
      ],
    );
    assert.deepEqual(requests[1].toolCall.locations, [{ path: filePath }]);
    assert.equal(requests[3].toolCall.rawInput.command, command);
  });

  it("denies the call as unanswered, not as rejected, on an error, a cancelled outcome or an invalid option", async (t) => {
    const { path: cwd } = await tempDir(t);
    const replies: Reply[] = [
      { error: { code: -32601, message: "method not found" } },
      { outcome: { outcome: "cancelled" } },
      "no_such_option",
      { outcome: { outcome: "selected" } },
      { outcome: "allow_once" },
    ];
    const calls = replies.map((_, i): Call => ["risky", { i }]);
    const { requests, results } = await promptCalls(t, [createRiskyTool()], calls, replies, cwd);
    assert.equal(requests.length, replies.length);
    for (const { failed, text } of results) {
      assert.ok(failed);
      assert.match(text, /no client could answer, so it did not run\. It was not rejected/);
    }
  });
});

describe("titles of tool calls", () => {
  it("escape control and invisible characters in updates, permission requests and replays; locations stay raw", async (t) => {
    const rawTitle = "safe\r\u001b[2Krm -rf ~\u202egnp\u2028\u0007\ud800 \u200b\u{e0041}";
    const escapedTitle = "safe\\r\\e[2Krm -rf ~\\u202egnp\\u2028\\u0007\\ud800 \\u200b\\u{e0041}";
    const { path: cwd } = await tempDir(t);
    await writeFile(`${cwd}/\u001b[31mred\nfile`, "x");
    const tool = createTestTool("risky", () => ({ text: "ran" }), {
      needsPermission: true,
      describe: () => ({ title: rawTitle, locations: [{ path: "/tmp/\u001b[31mred" }] }),
    });
    const tools = [tool, ...builtinTools()];
    const { requests, peer, session } = await promptCalls(
      t,
      tools,
      [
        ["risky", {}],
        ["read", { path: "\u001b[31mred\nfile" }],
        ["bash", { command: "ls\u001b[8m; rm x" }],
      ],
      ["allow_once"],
      cwd,
    );
    assert.equal(requests[0].toolCall.title, escapedTitle);
    const getTitles = () =>
      peer
        .getUpdates()
        .filter((update) => update.sessionUpdate === "tool_call")
        .map(({ title }) => title);
    const liveTitles = getTitles();
    assert.deepEqual([liveTitles[0], liveTitles[2]], [escapedTitle, "ls\\e[8m; rm x"]);
    assert.match(liveTitles[1], /^Read \S*\\(e|u001b)\[31mred\\nfile/);
    await peer.request("session/load", { sessionId: session, cwd });
    assert.deepEqual(getTitles(), [...liveTitles, ...liveTitles], "a replay sends the same titles");
    for (const title of getTitles()) assert.doesNotMatch(title, /[\p{Cc}\p{Cs}\u202e]/u);
    assert.deepEqual(
      requests[0].toolCall.locations,
      [{ path: "/tmp/\u001b[31mred" }],
      "a location keeps the real path",
    );
  });

  it("keep emoji, joining scripts and quotes unchanged", async (t) => {
    const title = "Grüße 👩‍💻 نامه‌ای “x” \\n 🇩🇪";
    const { path: cwd } = await tempDir(t);
    const tool = createTestTool("plain", () => ({ text: "" }), { describe: () => ({ title, locations: [] }) });
    const { agent } = createScriptedAgent(t, [callTools(["plain", {}]), "done"], { tools: [tool] });
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    await peer.prompt(await peer.newSession(cwd), "x");
    assert.equal(peer.getUpdates().find((update) => update.sessionUpdate === "tool_call").title, title);
  });
});
