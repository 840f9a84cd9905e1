import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { builtinTools, type Tool } from "gantry";
import { callTools } from "gantry/testing";
import { MemoryAcp, scriptedAgent, testTool } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

type Call = [name: string, input: Json];

/** The client's answer to a permission request: an option, an outcome, or an error. */
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
  const { agent } = scriptedAgent(t, steps, { tools: [...tools] });
  const peer = new MemoryAcp(t, agent, { requestPermission: true, profile: "official" }).connect();
  await peer.initialize();
  const session = await peer.newSession(cwd);
  const remainingReplies = [...replies];
  const requests: Json[] = [];
  peer.onRequest = (_method, params) => {
    requests.push(params);
    const reply = remainingReplies.shift() ?? "reject_once";
    if (typeof reply === "string") return { outcome: { outcome: "selected", optionId: reply } };
    if ("outcome" in reply) return reply;
    const { id } = peer.received.at(-1);
    peer.send({ jsonrpc: "2.0", id, error: reply.error });
    return undefined;
  };
  for (const _ of calls) await peer.prompt(session, "go");
  const messages = await agent.sessions.messages(session);
  const results = messages
    .filter(({ role }) => role === "tool")
    .map(({ parts, failed }) => ({ failed, text: parts.map((part) => ("text" in part ? part.text : "")).join("") }));
  peer.assertClean();
  return { requests, results, peer, session };
}

const risky = () => testTool("risky", () => ({ text: "ran" }), { needsPermission: true, kind: "execute" });

describe("session/request_permission", () => {
  it("is sent once per call, after its tool_call update; a rejected call fails and never starts", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { requests, results, peer } = await promptCalls(
      t,
      [risky()],
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
    const question = peer.received.findIndex((message) => message.method === "session/request_permission");
    const call = peer.received[question - 1].params.update;
    assert.equal(call.sessionUpdate, "tool_call", "the call is shown before the question");
    assert.equal(call.toolCallId, requests[0].toolCall.toolCallId);
    assert.deepEqual(
      requests[0].options.map((option: Json) => option.kind),
      ["allow_once", "allow_always", "reject_once"],
    );
    const startedUpdates = peer.updates().filter(({ status }) => status === "in_progress");
    assert.deepEqual(
      startedUpdates.map(({ toolCallId }) => toolCallId),
      [requests[1].toolCall.toolCallId],
      "what is refused does not begin",
    );
  });

  it("allow_always covers the same bash command, or further edits (not writes) of the same file", async (t) => {
    const { path: cwd } = await tempDir(t, { "a.txt": "1\n", "b.txt": "1\n" });
    const tools = builtinTools({ bash: { sandbox: "off" } });
    const bash = (command: string): Call => ["bash", { command }];
    const edit = (path: string, old_string: string, new_string: string): Call => [
      "edit",
      { path, old_string, new_string },
    ];
    const { requests } = await promptCalls(
      t,
      tools,
      [
        bash("echo one"),
        bash("echo one"),
        bash("echo one; touch stolen"),
        edit("a.txt", "1", "2"),
        edit("a.txt", "2", "3"),
        edit("b.txt", "1", "2"),
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

  it("carries the diff of a file change, its location and the whole bash command", async (t) => {
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
    const a = `${cwd}/a.txt`;
    assert.deepEqual(
      requests.map(({ toolCall }) => toolCall.content),
      [
        [{ type: "diff", path: `${cwd}/b.txt`, oldText: null, newText: "new\n" }],
        [{ type: "diff", path: a, oldText: "one", newText: "1" }],
        [
          { type: "diff", path: a, oldText: "one", newText: "1" },
          { type: "diff", path: a, oldText: "two", newText: "2" },
        ],
        undefined,
        undefined,
        [{ type: "diff", path: a, oldText: "one\ntwo\n", newText: "1\n" }],
      ],
    );
    assert.deepEqual(requests[1].toolCall.locations, [{ path: a }]);
    assert.equal(requests[3].toolCall.rawInput.command, command);
  });

  it("an error, a cancelled outcome or an invalid option denies the call as unanswered, not as refused", async (t) => {
    const { path: cwd } = await tempDir(t);
    const replies: Reply[] = [
      { error: { code: -32601, message: "method not found" } },
      { outcome: { outcome: "cancelled" } },
      "no_such_option",
      { outcome: { outcome: "selected" } },
      { outcome: "allow_once" },
    ];
    const calls = replies.map((_, i): Call => ["risky", { i }]);
    const { requests, results } = await promptCalls(t, [risky()], calls, replies, cwd);
    assert.equal(requests.length, replies.length);
    for (const { failed, text } of results) {
      assert.ok(failed);
      assert.match(text, /no client could answer, so it did not run\. It was not rejected/);
    }
  });
});

describe("titles of tool calls", () => {
  it("escape control and invisible characters in updates, permission requests and replays; locations stay raw", async (t) => {
    const evil = "safe\r\u001b[2Krm -rf ~\u202egnp\u2028\u0007\ud800 \u200b\u{e0041}";
    const shown = "safe\\r\\e[2Krm -rf ~\\u202egnp\\u2028\\u0007\\ud800 \\u200b\\u{e0041}";
    const { path: cwd } = await tempDir(t);
    await writeFile(`${cwd}/\u001b[31mred\nfile`, "x");
    const tool = testTool("risky", () => ({ text: "ran" }), {
      needsPermission: true,
      describe: () => ({ title: evil, locations: [{ path: "/tmp/\u001b[31mred" }] }),
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
    assert.equal(requests[0].toolCall.title, shown);
    const titles = () =>
      peer
        .updates()
        .filter((update) => update.sessionUpdate === "tool_call")
        .map(({ title }) => title);
    const live = titles();
    assert.deepEqual([live[0], live[2]], [shown, "ls\\e[8m; rm x"]);
    assert.match(live[1], /^Read \S*\\(e|u001b)\[31mred\\nfile/);
    await peer.request("session/load", { sessionId: session, cwd });
    assert.deepEqual(titles(), [...live, ...live], "in a replay too");
    for (const title of titles()) assert.doesNotMatch(title, /[\p{Cc}\p{Cs}\u202e]/u);
    assert.deepEqual(
      requests[0].toolCall.locations,
      [{ path: "/tmp/\u001b[31mred" }],
      "a path stays one that can be opened",
    );
  });

  it("keep emoji, joining scripts and quotes unchanged", async (t) => {
    const title = "Grüße 👩‍💻 نامه‌ای “x” \\n 🇩🇪";
    const { path: cwd } = await tempDir(t);
    const tool = testTool("plain", () => ({ text: "" }), { describe: () => ({ title, locations: [] }) });
    const { agent } = scriptedAgent(t, [callTools(["plain", {}]), "done"], { tools: [tool] });
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    await peer.prompt(await peer.newSession(cwd), "x");
    assert.equal(peer.updates().find((update) => update.sessionUpdate === "tool_call").title, title);
  });
});
