import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, silentLogger } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import type { Profile } from "../../../adapters/acp-shared/index.js";
import { echo, MemoryAcp, scriptedAgent, testTool } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

const PROFILES: readonly Profile[] = ["spec", "official"];

/** An agent on the same store that acts like another process. */
function agentOn(t: Hooks, store: MemoryDocuments, steps: readonly ScriptedStep[] = []) {
  const provider = new ScriptedProvider(steps);
  const tool = testTool("look", () => ({ text: "seen" }), { kind: "read" });
  const agent = new Agent({
    providers: [provider],
    driver: new MemoryDriver(store),
    tools: [tool],
    logger: silentLogger,
  });
  t.after(() => agent.close());
  return { agent, provider };
}

for (const profile of PROFILES) {
  describe(`ACP sessions (profile ${profile})`, () => {
    it("session/load replays all messages before its answer, by either id, and sends the config options after it", async (t) => {
      const { path: cwd } = await tempDir(t);
      const store = new MemoryDocuments();
      const first = agentOn(t, store, [
        [
          { type: "reasoning", block: "r", text: "Hm." },
          { type: "text", block: "t", text: "Looking." },
          ...callTools(["look", { at: 1 }]),
        ],
        "Found.",
      ]);
      const writer = new MemoryAcp(t, first.agent, { profile }).connect();
      await writer.initialize();
      const acpId = await writer.newSession(cwd);
      await writer.prompt(acpId, "find it");
      const { id } = (await first.agent.sessions.get(acpId))!;
      assert.notEqual(id, acpId);
      await first.agent.close();

      for (const sessionId of [acpId, id]) {
        const second = agentOn(t, store, ["More."]);
        const peer = new MemoryAcp(t, second.agent, { profile }).connect();
        await peer.initialize();
        const answer = await peer.call("session/load", { sessionId, cwd, mcpServers: [] });
        if (profile === "spec") assert.equal(answer.result, null);
        else assert.deepEqual(Object.keys(answer.result), ["modes"]);
        const at = peer.received.indexOf(answer);
        const replayed = peer.received.slice(1, at).map((message) => message.params);
        assert.ok(replayed.every((params) => params.sessionId === sessionId));
        assert.deepEqual(
          replayed.slice(0, 6).map(({ update }) => [update.sessionUpdate, update.content?.text ?? update.status]),
          [
            ["user_message_chunk", "find it"],
            ["agent_thought_chunk", "Hm."],
            ["agent_message_chunk", "Looking."],
            ["tool_call", "pending"],
            ["tool_call_update", "completed"],
            ["agent_message_chunk", "Found."],
          ],
        );
        assert.equal(replayed[3].update.title, 'look {"at":1}');
        const options = await peer.seen((message) => message.params?.update?.sessionUpdate === "config_option_update");
        assert.ok(peer.received.indexOf(options) > at);
        await peer.prompt(sessionId, "and now?");
        assert.equal(second.provider.requests[0]?.messages[0]?.role, "user");
        assert.ok((second.provider.requests[0]?.messages.length ?? 0) >= 5, "the model knows what was said");
        peer.assertClean();
        await second.agent.close();
      }
    });

    it("session/resume sends no history, and the model receives it with the next prompt", async (t) => {
      const { path: cwd } = await tempDir(t);
      const store = new MemoryDocuments();
      const writer = new MemoryAcp(t, agentOn(t, store, ["one"]).agent, { profile }).connect();
      await writer.initialize();
      const sessionId = await writer.newSession(cwd);
      await writer.prompt(sessionId, "remember");
      const { agent, provider } = agentOn(t, store, ["two"]);
      const peer = new MemoryAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const { modes, ...otherFields } = await peer.request("session/resume", { sessionId, cwd });
      assert.deepEqual(otherFields, {});
      assert.equal(modes?.currentModeId, profile === "spec" ? undefined : "auto");
      assert.equal(await peer.prompt(sessionId, "what?").then(({ stopReason }) => stopReason), "end_turn");
      assert.ok(!peer.updates().some((update) => update.sessionUpdate === "user_message_chunk"));
      assert.equal(provider.requests[0]?.messages.length, 3);
      peer.assertClean();
    });

    it("session/resume with another cwd runs the tools there", async (t) => {
      const [a, b] = [await tempDir(t), await tempDir(t)];
      const seen: string[] = [];
      const where = testTool("where", (_args, { projectDir }) => (seen.push(projectDir), { text: projectDir }));
      const { agent } = scriptedAgent(t, [callTools(["where", {}]), "a", callTools(["where", {}]), "b"], {
        tools: [where],
      });
      const peer = new MemoryAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const session = await peer.newSession(a.path);
      await peer.prompt(session, "x");
      await peer.request("session/resume", { sessionId: session, cwd: b.path });
      await peer.prompt(session, "y");
      assert.deepEqual(seen, [a.path, b.path]);
    });

    it("session/list returns complete entries, filters by cwd, and pages 103 sessions without overlap", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { path: otherFolder } = await tempDir(t);
      const { agent } = scriptedAgent(t);
      const peer = new MemoryAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const createdIds: string[] = [];
      for (let i = 0; i < 103; i += 1) createdIds.push(await peer.newSession(cwd));
      const httpSession = await agent.sessions.create({ projectDir: otherFolder, title: "over http" });
      const first = await peer.request("session/list", {});
      assert.equal(first.sessions.length, 50);
      const httpEntry = first.sessions.find((entry: Json) => entry.id === httpSession.id);
      assert.deepEqual(httpEntry, {
        id: httpSession.id,
        sessionId: httpSession.id,
        cwd: otherFolder,
        title: "over http",
        createdAt: httpSession.createdAt,
        updatedAt: httpSession.updatedAt,
      });
      const acpEntry = first.sessions.find((entry: Json) => entry.title === "ACP Session");
      const stored = (await agent.sessions.get(acpEntry.id))!;
      assert.equal(acpEntry.sessionId, profile === "spec" ? stored.id : stored.alias);
      assert.deepEqual(
        await peer.request("session/list", { cwd: "/no/such" }),
        profile === "spec" ? { sessions: [], nextCursor: "" } : { sessions: [] },
      );

      const seen = new Set<string>();
      let cursor: string | undefined;
      let pages = 0;
      do {
        const page: Json = await peer.request("session/list", { cwd, ...(cursor === undefined ? {} : { cursor }) });
        for (const entry of page.sessions) {
          assert.ok(!seen.has(entry.id), "pages never overlap");
          seen.add(entry.id);
        }
        cursor = page.nextCursor;
        pages += 1;
        if (pages === 1 && profile === "spec") assert.equal(cursor, "");
      } while (cursor !== undefined && pages < 10);
      assert.equal(pages, 3);
      assert.equal(seen.size, 103);
      assert.equal(new Set(createdIds).size, 103);
      peer.assertClean();
    });

    it("session/delete removes a session; session/load loads a session that another transport created", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = scriptedAgent(t, ["hello"]);
      const peer = new MemoryAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const run = await agent.run({ message: "over http", projectDir: cwd });
      await run.result;
      await peer.request("session/load", { sessionId: run.sessionId, cwd });
      assert.equal(peer.text(run.sessionId, "user_message_chunk"), "over http");
      assert.deepEqual(
        await peer.request("session/delete", { sessionId: run.sessionId }),
        profile === "spec" ? null : {},
      );
      assert.equal(await agent.sessions.get(run.sessionId), undefined);
      assert.equal((await peer.call("session/delete", { sessionId: run.sessionId })).error?.code, -32602);
      peer.assertClean();
    });
  });
}

describe("config options, titles and authentication over ACP", () => {
  const models = [
    { id: "fast", name: "Fast", ownedBy: "x", contextWindow: 10_000 },
    { id: "deep", name: "Deep", ownedBy: "x", reasoning: true },
  ];

  it("session/set_config_option sets model and effort, and rejects unknown ids and values with -32602", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent, provider } = scriptedAgent(t, ["hi"], { provider: { models } });
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    const { sessionId, configOptions } = await peer.request("session/new", { cwd });
    assert.deepEqual(
      configOptions.map(({ id, category, currentValue }: Json) => [id, category, currentValue]),
      [["model", "model", "scripted/fast"]],
    );
    const set = (configId: string, value: Json) =>
      peer.call("session/set_config_option", { sessionId, configId, value });
    const chosen = await set("model", "scripted/deep");
    assert.deepEqual(
      chosen.result.configOptions.map(({ id, currentValue }: Json) => [id, currentValue]),
      [
        ["model", "scripted/deep"],
        ["thought_level", "default"],
      ],
    );
    assert.equal((await set("thought_level", "high")).result.configOptions[1].currentValue, "high");
    for (const [configId, value, field] of [
      ["model", "scripted/none", "value"],
      ["model", 5, "value"],
      ["thought_level", "much", "value"],
      ["mode", "x", "configId"],
    ]) {
      const { error } = await set(String(configId), value);
      assert.equal(error?.code, -32602);
      assert.deepEqual(error?.data, { field });
    }
    await peer.prompt(sessionId, "x");
    assert.equal(provider.requests[0]?.model.id, "deep");
    assert.equal(provider.requests[0]?.effort, "high");
    await set("model", "scripted/fast");
    const none = (await set("thought_level", "low")).error;
    assert.deepEqual([none?.code, none?.data], [-32602, { field: "configId" }], "a model that does not reason");
    assert.equal((await agent.sessions.get(sessionId))?.reasoningEffort, "high");
    const again = await set("model", "scripted/fast");
    assert.equal(again.result.configOptions[0].currentValue, "scripted/fast");
    peer.assertClean();
  });

  it("config options list the efforts of the model; a change of model selects the nearest effort", async (t) => {
    const { path: cwd } = await tempDir(t);
    const models = [
      { id: "plain", name: "Plain", ownedBy: "x", reasoning: true },
      { id: "graded", name: "Graded", ownedBy: "x", reasoning: true, efforts: ["low", "high", "max"] as const },
      { id: "free", name: "Free", ownedBy: "x", reasoning: true, efforts: [] },
    ];
    const { agent, provider } = scriptedAgent(t, ["hi"], { provider: { models: models } });
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    const { sessionId } = await peer.request("session/new", { cwd });
    const set = async (configId: string, value: string): Promise<Json> => {
      const { configOptions } = await peer.request("session/set_config_option", { sessionId, configId, value });
      const level = configOptions.find(({ id }: Json) => id === "thought_level");
      return level && [level.currentValue, level.options.map((choice: Json) => choice.value).join(" ")];
    };
    const rejectionData = async (value: string): Promise<Json> =>
      (await peer.call("session/set_config_option", { sessionId, configId: "thought_level", value })).error?.data;
    assert.deepEqual(await set("thought_level", "medium"), ["medium", "default minimal low medium high"]);
    assert.deepEqual(await rejectionData("max"), { field: "value" });
    assert.deepEqual(await set("model", "scripted/graded"), ["high", "default low high max"]);
    assert.deepEqual(await rejectionData("medium"), { field: "value" });
    assert.deepEqual(await set("thought_level", "max"), ["max", "default low high max"]);
    await peer.prompt(sessionId, "x");
    assert.equal(provider.requests[0]?.effort, "max");
    assert.equal(await set("model", "scripted/free"), undefined);
    assert.equal((await agent.sessions.get(sessionId))?.reasoningEffort, "max");
    peer.assertClean();
  });

  it("a session without an effort uses the configured one", async (t) => {
    const { path: cwd } = await tempDir(t);
    const preferred = { provider: "scripted", model: "deep", reasoningEffort: "low" } as const;
    const { agent, provider } = scriptedAgent(t, ["hi"], { provider: { models }, model: preferred });
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    await peer.prompt(await peer.newSession(cwd), "x");
    assert.equal(provider.requests[0]?.model.id, "deep");
    assert.equal(provider.requests[0]?.effort, "low");
  });

  it("a config option applies to a prompt that is sent right after it", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent, provider } = scriptedAgent(t, ["hi"], { provider: { models } });
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    const { sessionId } = await peer.request("session/new", { cwd });
    const set = peer.request("session/set_config_option", { sessionId, configId: "model", value: "scripted/deep" });
    await Promise.all([set, peer.prompt(sessionId, "x")]);
    assert.equal(provider.requests[0]?.model.id, "deep");
  });

  it("a generated title is sent as session_info_update under the client's session id, to that client only", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, ["hi"], { provider: { title: "A fine title" } });
    const acp = new MemoryAcp(t, agent);
    const [peer, otherPeer] = [acp.connect(), acp.connect()];
    await Promise.all([peer.initialize(), otherPeer.initialize()]);
    const session = await peer.newSession(cwd);
    await peer.prompt(session, "x");
    const { params } = await peer.seen((message) => message.params?.update?.sessionUpdate === "session_info_update");
    assert.equal(params.sessionId, session);
    assert.equal(params.update.title, "A fine title");
    assert.equal(otherPeer.updates().length, 0);
    peer.assertClean();
  });

  it("authenticate accepts a listed method, rejects an unknown one, and does not exist without methods", async (t) => {
    const { agent } = scriptedAgent(t);
    const authMethods = [{ id: "env", name: "API key in the environment" }];
    const peer = new MemoryAcp(t, agent, { authMethods }).connect();
    assert.deepEqual((await peer.initialize()).authMethods, authMethods);
    assert.deepEqual(await peer.request("authenticate", { methodId: "env" }), {});
    assert.equal((await peer.call("authenticate", { methodId: "no" })).error?.code, -32602);
    const plain = new MemoryAcp(t, agent).connect();
    await plain.initialize();
    assert.equal((await plain.call("authenticate", { methodId: "env" })).error?.code, -32601);
    peer.assertClean();
  });

  it("two connections with equal request ids and 50 sessions each receive only their own updates", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [], { provider: { fallback: echo } });
    const acp = new MemoryAcp(t, agent);
    const peers = [acp.connect(), acp.connect()];
    await Promise.all(peers.map((peer) => peer.initialize()));
    const sessions = await Promise.all(
      peers.map((peer) => Promise.all(Array.from({ length: 50 }, () => peer.newSession(cwd)))),
    );
    await Promise.all(
      peers.flatMap((peer, p) =>
        sessions[p]!.map(async (session, s) => {
          assert.deepEqual(await peer.prompt(session, `${p}-${s}`), { stopReason: "end_turn" });
        }),
      ),
    );
    for (const [p, peer] of peers.entries()) {
      const ownSessionIds = new Set(sessions[p]);
      for (const message of peer.received) {
        if (message.method === "session/update") assert.ok(ownSessionIds.has(message.params.sessionId));
      }
      for (const [s, session] of sessions[p]!.entries()) assert.equal(peer.text(session), `echo ${p}-${s}`);
      peer.assertClean();
    }
  });
});
