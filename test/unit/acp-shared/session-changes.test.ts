import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { InProcessAcp, createScriptedAgent, echoLastMessage } from "../../helpers/acp-agent.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const EDITOR = { clientInfo: { name: "zed", version: "1" } };

async function connectPeer(t: Hooks, options = {}) {
  const { path: cwd } = await tempDir(t);
  const agentParts = createScriptedAgent(t, [], { provider: { fallback: echoLastMessage }, ...options });
  const acp = new InProcessAcp(t, agentParts.agent);
  const connect = async (params: Json = EDITOR): Promise<AcpPeer> => {
    const peer = acp.connect();
    await peer.initialize(params);
    peer.profile = "official";
    return peer;
  };
  return { cwd, ...agentParts, connect, peer: await connect() };
}

describe("session/fork", () => {
  it("is unknown and not advertised if the agent does not offer it", async (t) => {
    const { cwd, agent, connect } = await connectPeer(t, { rewind: false });
    assert.equal(agent.canRewind, false);
    const peer = await connect();
    const { agentCapabilities } = await peer.initialize(EDITOR);
    assert.deepEqual(Object.keys(agentCapabilities.sessionCapabilities).includes("fork"), false);
    const sessionId = await peer.newSession(cwd);
    assert.equal((await peer.call("session/fork", { sessionId, cwd, mcpServers: [] })).error?.code, -32601);
  });

  it("copies the conversation into an open session with its own id, and leaves the original", async (t) => {
    const { path: otherFolder } = await tempDir(t);
    const { cwd, agent, provider, peer } = await connectPeer(t);
    const sessionId = await peer.newSession(cwd);
    await peer.prompt(sessionId, "one");
    const start = peer.receivedMessages.length;
    const fork = await peer.request("session/fork", { sessionId, cwd: otherFolder, mcpServers: [] });
    assert.notEqual(fork.sessionId, sessionId);
    assert.equal(fork.modes.currentModeId, "auto");
    assert.ok(fork.configOptions.length > 0);
    assert.ok(
      !peer.receivedMessages.slice(start).some(({ params }) => params?.update?.sessionUpdate?.endsWith("_chunk")),
      "no history is sent",
    );
    await peer.prompt(fork.sessionId, "two");
    assert.equal(peer.getText(fork.sessionId), "echo two");
    const texts = provider.requests.at(-1)!.messages.map(({ parts }) => (parts[0] as Json).text);
    assert.deepEqual(texts, ["one", "echo one", "two"]);
    assert.match(provider.requests.at(-1)!.system, new RegExp(`Project folder: ${otherFolder}`));
    assert.equal((await agent.sessions.messages(sessionId)).length, 2);
    const { sessions } = await peer.request("session/list", {});
    assert.equal(sessions.length, 2);
    peer.assertNoValidationErrors();
  });

  it("of a session without messages gives a new one; a busy session and an unknown one are rejected", async (t) => {
    const { cwd, peer } = await connectPeer(t, { provider: { fallback: () => ({ hang: true }) } });
    const sessionId = await peer.newSession(cwd);
    const fork = await peer.request("session/fork", { sessionId, cwd });
    assert.notEqual(fork.sessionId, sessionId);
    const result = peer.prompt(sessionId, "x");
    await peer.waitForMessage(({ params }) => params?.update?.sessionUpdate === "available_commands_update");
    const response = await peer.call("session/fork", { sessionId, cwd });
    assert.equal(response.error?.code ?? 0, response.error ? -32600 : 0);
    peer.notify("session/cancel", { sessionId });
    assert.deepEqual(await result, { stopReason: "cancelled" });
    assert.deepEqual((await peer.call("session/fork", { sessionId: "nope", cwd })).error, {
      ...{ code: -32002, message: "session not found", data: { sessionId: "nope" } },
    });
    assert.equal((await peer.call("session/fork", { sessionId })).error?.data.field, "cwd");
  });
});

describe("session/set_title", () => {
  it("stores one line of at most 50 characters, returns it, and tells every client with the session open", async (t) => {
    const { cwd, agent, peer, connect } = await connectPeer(t, { provider: { title: "Generated" } });
    const otherPeer = await connect();
    const sessionId = await peer.newSession(cwd);
    await otherPeer.request("session/resume", { sessionId, cwd });
    const { title } = await peer.request("session/set_title", { sessionId, title: "  My\n\u0007 title\ud800 " });
    assert.equal(title, "My title");
    for (const client of [peer, otherPeer])
      await client.waitForMessage(({ params }) => params?.update?.title === "My title");
    await peer.prompt(sessionId, "x");
    assert.equal((await agent.sessions.get(sessionId))?.title, "My title", "no generated title replaces it");
    const longTitle = `${"👩‍💻".repeat(9)}abcdefgh`;
    assert.equal(
      (await peer.request("session/set_title", { sessionId, title: longTitle })).title,
      "👩‍💻".repeat(9) + "abcde",
    );
    const { sessions } = await peer.request("session/list", {});
    assert.equal(sessions[0].title, "👩‍💻".repeat(9) + "abcde");
    for (const invalidTitle of [undefined, null, 5, "", " \n"])
      assert.equal(
        (await peer.call("session/set_title", { sessionId, title: invalidTitle })).error?.data.field,
        "title",
        JSON.stringify(invalidTitle),
      );
    assert.equal((await peer.call("session/set_title", { sessionId: "nope", title: "x" })).error?.code, -32002);
    for (const client of [peer, otherPeer]) client.assertNoValidationErrors();
  });
});

describe("session/archive and session/unarchive", () => {
  const listIds = async (peer: AcpPeer, params: Json = {}): Promise<string[]> =>
    (await peer.request("session/list", params)).sessions.map(({ sessionId }: Json) => sessionId);

  it("hide a session from lists and bring it back; `archived` filters each page", async (t) => {
    const { cwd, peer } = await connectPeer(t);
    const [first, second] = [await peer.newSession(cwd), await peer.newSession(cwd)] as [string, string];
    await peer.prompt(first, "one");
    for (let n = 0; n < 2; n += 1) assert.deepEqual(await peer.request("session/archive", { sessionId: first }), {});
    for (const params of [{}, { archived: "exclude" }, { archived: null }, { cwd }])
      assert.deepEqual(await listIds(peer, params), [second], JSON.stringify(params));
    assert.deepEqual(await listIds(peer, { archived: "only" }), [first]);
    assert.deepEqual(await listIds(peer, { archived: "only", cwd: "/none" }), []);
    const { sessions } = await peer.request("session/list", { archived: "include" });
    assert.deepEqual(
      sessions.map(({ sessionId, archived }: Json) => [sessionId, archived]),
      [
        [first, true],
        [second, false],
      ],
    );
    for (const archived of ["all", "", 5, true])
      assert.deepEqual((await peer.call("session/list", { archived })).error?.code, -32602, String(archived));
    for (let n = 0; n < 2; n += 1) assert.deepEqual(await peer.request("session/unarchive", { sessionId: first }), {});
    assert.deepEqual(await listIds(peer), [first, second]);
    for (const method of ["session/archive", "session/unarchive"])
      assert.deepEqual((await peer.call(method, { sessionId: "nope" })).error, {
        ...{ code: -32002, message: "session not found", data: { sessionId: "nope" } },
      });
    peer.assertNoValidationErrors();
  });

  it("an archive cancels the prompt of any client and closes the session; a load keeps it archived", async (t) => {
    const { cwd, agent, peer, connect } = await connectPeer(t, { provider: { fallback: () => ({ hang: true }) } });
    const otherPeer = await connect();
    const sessionId = await peer.newSession(cwd);
    await otherPeer.request("session/resume", { sessionId, cwd });
    const result = otherPeer.prompt(sessionId, "x");
    await peer.waitForMessage(({ params }) => params?.update?.sessionUpdate === "user_message_chunk");
    await peer.request("session/archive", { sessionId });
    assert.deepEqual(await result, { stopReason: "cancelled" });
    const [run] = await agent.runs.list({ sessionId });
    assert.equal(run?.state, "cancelled");
    await peer.request("session/load", { sessionId, cwd });
    assert.deepEqual(await listIds(peer), [], "a load does not bring it back");
    peer.assertNoValidationErrors();
  });

  it("a prompt brings the session back to the lists", async (t) => {
    const { cwd, agent, peer } = await connectPeer(t);
    const sessionId = await peer.newSession(cwd);
    await peer.prompt(sessionId, "one");
    await peer.request("session/archive", { sessionId });
    await peer.prompt(sessionId, "two");
    assert.deepEqual(await listIds(peer), [sessionId]);
    await peer.request("session/archive", { sessionId });
    const fork = await peer.request("session/fork", { sessionId, cwd });
    assert.deepEqual(await listIds(peer), [fork.sessionId], "a fork starts unarchived");
    assert.equal((await agent.sessions.messages(sessionId)).length, 4);
  });

  it("a client of the interface specification gets its entries only, without archived sessions", async (t) => {
    const { cwd, connect } = await connectPeer(t);
    const peer = await connect({});
    peer.profile = "spec";
    await peer.newSession(cwd);
    await peer.request("session/archive", { sessionId: await peer.newSession(cwd) });
    const { sessions, nextCursor } = await peer.request("session/list", {});
    assert.deepEqual(
      [sessions.length, Object.keys(sessions[0]).sort(), nextCursor],
      [1, ["createdAt", "cwd", "id", "sessionId", "title", "updatedAt"], ""],
    );
    peer.assertNoValidationErrors();
  });
});

describe("the system prompt of a client", () => {
  const BUILT_IN_TEXT = "You are";
  const text = (value: string) => ({ type: "text", text: value });
  const cases: [name: string, params: Json, isAppended: boolean][] = [
    ["append", { systemPrompt: { mode: "append", content: [text("Be"), text("brief.")] } }, true],
    ["override", { systemPrompt: { mode: "override", content: [text("Be\nbrief.")] } }, false],
    ["_meta with append", { _meta: { systemPrompt: { append: "Be\nbrief." } } }, true],
    ["_meta with a string", { _meta: { systemPrompt: "Be\nbrief." } }, false],
  ];
  for (const [name, params, isAppended] of cases)
    it(`reaches the model (${name}), beside the operator's, until the session is opened without it`, async (t) => {
      const { cwd, provider, peer } = await connectPeer(t, { systemPrompt: "Rule of the operator." });
      const prompt = async (sessionId: string) => {
        await peer.prompt(sessionId, "x");
        return provider.requests.at(-1)!.system;
      };
      const { sessionId } = await peer.request("session/new", { cwd, mcpServers: [], ...params });
      const systemPrompt = await prompt(sessionId);
      assert.match(systemPrompt, /Rule of the operator\.\n\nBe\nbrief\./);
      assert.equal(systemPrompt.startsWith("Rule of the operator."), !isAppended);
      assert.equal(await prompt(sessionId), systemPrompt);
      await peer.request("session/resume", { sessionId, cwd, ...params });
      assert.equal(await prompt(sessionId), systemPrompt);
      const fork = await peer.request("session/fork", { sessionId, cwd, ...params });
      assert.equal(await prompt(fork.sessionId), systemPrompt);
      await peer.request("session/load", { sessionId, cwd });
      assert.doesNotMatch(await prompt(sessionId), /brief/);
      assert.ok(!provider.requests.at(-1)!.system.startsWith("Rule"), BUILT_IN_TEXT);
    });

  it("is rejected with the field if invalid, and an empty one changes nothing", async (t) => {
    const { cwd, provider, peer } = await connectPeer(t);
    const invalidCases: [params: Json, field: string][] = [
      [{ systemPrompt: "x" }, "systemPrompt"],
      [{ systemPrompt: { mode: "prepend", content: [] } }, "systemPrompt.mode"],
      [{ systemPrompt: { mode: "append", content: "x" } }, "systemPrompt.content"],
      [{ systemPrompt: { mode: "append", content: [text("a"), { type: "image" }] } }, "systemPrompt.content[1]"],
      [{ _meta: { systemPrompt: 5 } }, "_meta.systemPrompt"],
      [{ _meta: { systemPrompt: { append: 5 } } }, "_meta.systemPrompt"],
    ];
    for (const [params, field] of invalidCases)
      assert.equal((await peer.call("session/new", { cwd, mcpServers: [], ...params })).error?.data.field, field);
    await peer.prompt(await peer.newSession(cwd), "x");
    const { system } = provider.requests.at(-1)!;
    for (const params of [
      { systemPrompt: null },
      { systemPrompt: { mode: "override", content: [] } },
      { _meta: { systemPrompt: { excludeDynamicSections: true } } },
    ]) {
      const { sessionId } = await peer.request("session/new", { cwd, mcpServers: [], ...params });
      await peer.prompt(sessionId, "x");
      assert.equal(provider.requests.at(-1)!.system, system, JSON.stringify(params));
    }
  });
});
