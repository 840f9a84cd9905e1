import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { InProcessAcp, createScriptedAgent } from "../../helpers/acp-agent.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { tempDir } from "../../helpers/temp-dir.js";

const EDITOR = { clientInfo: { name: "zed", version: "1" } };

interface Call {
  method: string;
  /** Additional params; `cwd` and `sessionId` are always sent. */
  params?: Json;
}

/** Calls for each capability that gantry may advertise, by its path in `agentCapabilities`. Without calls: a field. */
const CALLS_BY_CAPABILITY: Readonly<Record<string, readonly Call[]>> = {
  loadSession: [{ method: "session/load", params: { mcpServers: [] } }],
  "promptCapabilities.image": [
    { method: "session/prompt", params: { prompt: [{ type: "image", data: "aGk=", mimeType: "image/png" }] } },
  ],
  "promptCapabilities.embeddedContext": [
    {
      method: "session/prompt",
      params: { prompt: [{ type: "resource", resource: { uri: "file:///x/a.md", text: "a note" } }] },
    },
  ],
  "mcpCapabilities.http": [],
  "mcpCapabilities.sse": [],
  "sessionCapabilities.list": [{ method: "session/list" }],
  "sessionCapabilities.resume": [{ method: "session/resume" }],
  "sessionCapabilities.additionalDirectories": [{ method: "session/resume", params: { additionalDirectories: ["/"] } }],
  "sessionCapabilities.fork": [{ method: "session/fork" }],
  "sessionCapabilities.title": [{ method: "session/set_title", params: { title: "x" } }],
  "sessionCapabilities.archive": [
    { method: "session/archive" },
    { method: "session/unarchive" },
    { method: "session/list", params: { archived: "only" } },
  ],
  "sessionCapabilities.systemPrompt": [
    { method: "session/resume", params: { systemPrompt: { mode: "append", content: [{ type: "text", text: "x" }] } } },
  ],
  "sessionCapabilities.systemPrompt.mode.override": [
    {
      method: "session/resume",
      params: { systemPrompt: { mode: "override", content: [{ type: "text", text: "x" }] } },
    },
  ],
  "sessionCapabilities.close": [{ method: "session/close" }],
  "sessionCapabilities.delete": [{ method: "session/delete" }],
  "auth.logout": [{ method: "logout" }],
};

/** Paths of the capabilities that are advertised: `true`, or an object. Objects that only group others are left out. */
function listCapabilities(value: Json, path = ""): string[] {
  if (value === true) return [path];
  if (typeof value !== "object" || value === null) return [];
  const keys = Object.keys(value);
  const isGroup = path === "" || /^(prompt|mcp|session)Capabilities$|^auth$|\.mode$/.test(path);
  return [
    ...(isGroup ? [] : [path]),
    ...keys.flatMap((key) => listCapabilities(value[key], path === "" ? key : `${path}.${key}`)),
  ];
}

for (const [name, params] of [
  ["an editor", EDITOR],
  ["a client of the interface specification", {}],
] as const)
  describe(`capabilities of ${name}`, () => {
    it("are all true: each advertised method is answered with a result", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = createScriptedAgent(t, [], { provider: { fallback: "ok" } });
      const peer: AcpPeer = new InProcessAcp(t, agent).connect();
      const { agentCapabilities, authMethods } = await peer.initialize(params);
      peer.profile = params === EDITOR ? "official" : "spec";
      const paths = listCapabilities(agentCapabilities);
      for (const path of paths) {
        const calls = CALLS_BY_CAPABILITY[path];
        assert.ok(calls, `an unknown capability: ${path}`);
        for (const call of calls) {
          // Profile `spec` reads only the first text of a prompt.
          if (call.method === "session/prompt" && params !== EDITOR) continue;
          const sessionId = await peer.newSession(cwd);
          const response = await peer.call(call.method, { sessionId, cwd, ...call.params });
          assert.equal(response.error, undefined, `${path}: ${JSON.stringify(response.error)}`);
          if (call.method === "logout") await peer.request("authenticate", { methodId: authMethods[0].id });
        }
      }
      assert.equal(paths.includes("sessionCapabilities.fork"), params === EDITOR);
      assert.equal(authMethods.length > 0, paths.includes("auth.logout"));
      peer.assertNoValidationErrors();
    });

    it("are complete: a method without a capability is answered with -32601", async (t) => {
      const { agent } = createScriptedAgent(t);
      const peer = new InProcessAcp(t, agent).connect();
      const { agentCapabilities } = await peer.initialize(params);
      const paths = listCapabilities(agentCapabilities);
      for (const [capability, method] of [
        ["sessionCapabilities.status", "session/status"],
        ["providers", "providers/list"],
        ["auth.status", "auth/status"],
        ["auth.logout", "logout"],
        ["auth.logout", "authenticate"],
      ] as const)
        if (!paths.includes(capability)) assert.equal((await peer.call(method, {})).error?.code, -32601, method);
    });
  });

describe("authenticate and logout", () => {
  it("after a logout, sessions are opened and prompted only after authenticate; other clients are not affected", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [], { provider: { fallback: "ok" } });
    const acp = new InProcessAcp(t, agent);
    const [peer, otherPeer] = [acp.connect(), acp.connect()];
    const [{ authMethods }] = await Promise.all([peer.initialize(EDITOR), otherPeer.initialize(EDITOR)]);
    assert.deepEqual(
      authMethods.map(({ id }: Json) => id),
      ["provider-key"],
    );
    const sessionId = await peer.newSession(cwd);
    const promptParams = { sessionId, cwd, mcpServers: [], prompt: [{ type: "text", text: "x" }] };
    assert.deepEqual(await peer.request("logout", {}), {});
    for (const method of ["session/new", "session/load", "session/resume", "session/fork", "session/prompt"])
      assert.equal((await peer.call(method, promptParams)).error?.code, -32000, method);
    assert.ok((await peer.request("session/list", {})).sessions.length > 0);
    await otherPeer.newSession(cwd);
    assert.equal((await peer.call("authenticate", { methodId: "no" })).error?.code, -32602);
    assert.equal((await peer.call("session/prompt", promptParams)).error?.code, -32000);
    assert.deepEqual(await peer.request("authenticate", { methodId: "provider-key" }), {});
    assert.deepEqual(await peer.request("session/prompt", promptParams), { stopReason: "end_turn" });
    peer.profile = "official";
  });

  it("authenticate fails with -32000 and names the remedy while no model provider is set up", async (t) => {
    const { agent } = createScriptedAgent(t, [], { provider: { name: "offline" } });
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize(EDITOR);
    const { error } = await peer.call("authenticate", { methodId: "provider-key" });
    assert.equal(error?.code, -32000);
    assert.match(error.message, /ANTHROPIC_API_KEY .*or providers in config\.json/);
  });
});
