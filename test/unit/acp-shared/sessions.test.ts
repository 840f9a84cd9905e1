import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, silentLogger } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import type { Profile } from "../../../adapters/acp-shared/index.js";
import { echoLastMessage, InProcessAcp, createScriptedAgent, createTestTool } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const PROFILES: readonly Profile[] = ["spec", "official"];

/** Creates an agent that acts like a separate process on the store. */
function createAgent(t: Hooks, store: MemoryDocuments, steps: readonly ScriptedStep[] = []) {
  const provider = new ScriptedProvider(steps);
  const tool = createTestTool("look", () => ({ text: "seen" }), { kind: "read" });
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
    it("session/load with the ACP id or the stored id replays all messages before its response, and sends config options after it", async (t) => {
      const { path: cwd } = await tempDir(t);
      const store = new MemoryDocuments();
      const firstProcess = createAgent(t, store, [
        [
          { type: "reasoning", block: "r", text: "Hm." },
          { type: "text", block: "t", text: "Looking." },
          ...callTools(["look", { at: 1 }]),
        ],
        "Found.",
      ]);
      const writer = new InProcessAcp(t, firstProcess.agent, { profile }).connect();
      await writer.initialize();
      const acpId = await writer.newSession(cwd);
      await writer.prompt(acpId, "find it");
      const { id } = (await firstProcess.agent.sessions.get(acpId))!;
      assert.notEqual(id, acpId);
      await firstProcess.agent.close();

      for (const sessionId of [acpId, id]) {
        const secondProcess = createAgent(t, store, ["More."]);
        const peer = new InProcessAcp(t, secondProcess.agent, { profile }).connect();
        await peer.initialize();
        const response = await peer.call("session/load", { sessionId, cwd, mcpServers: [] });
        if (profile === "spec") assert.equal(response.result, null);
        else assert.deepEqual(Object.keys(response.result), ["modes"]);
        const responseIndex = peer.receivedMessages.indexOf(response);
        const replayedParams = peer.receivedMessages.slice(1, responseIndex).map((message) => message.params);
        assert.ok(replayedParams.every((params) => params.sessionId === sessionId));
        assert.deepEqual(
          replayedParams.slice(0, 6).map(({ update }) => [update.sessionUpdate, update.content?.text ?? update.status]),
          [
            ["user_message_chunk", "find it"],
            ["agent_thought_chunk", "Hm."],
            ["agent_message_chunk", "Looking."],
            ["tool_call", "pending"],
            ["tool_call_update", "completed"],
            ["agent_message_chunk", "Found."],
          ],
        );
        assert.equal(replayedParams[3].update.title, 'look {"at":1}');
        const optionsMessage = await peer.waitForMessage(
          (message) => message.params?.update?.sessionUpdate === "config_option_update",
        );
        assert.ok(peer.receivedMessages.indexOf(optionsMessage) > responseIndex);
        await peer.prompt(sessionId, "and now?");
        assert.equal(secondProcess.provider.requests[0]?.messages[0]?.role, "user");
        assert.ok(
          (secondProcess.provider.requests[0]?.messages.length ?? 0) >= 5,
          "the model receives the earlier messages",
        );
        peer.assertNoValidationErrors();
        await secondProcess.agent.close();
      }
    });

    it("session/resume sends no history, and the model receives the history with the next prompt", async (t) => {
      const { path: cwd } = await tempDir(t);
      const store = new MemoryDocuments();
      const writer = new InProcessAcp(t, createAgent(t, store, ["one"]).agent, { profile }).connect();
      await writer.initialize();
      const sessionId = await writer.newSession(cwd);
      await writer.prompt(sessionId, "remember");
      const { agent, provider } = createAgent(t, store, ["two"]);
      const peer = new InProcessAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const { modes, ...otherFields } = await peer.request("session/resume", { sessionId, cwd });
      assert.deepEqual(otherFields, {});
      assert.equal(modes?.currentModeId, profile === "spec" ? undefined : "auto");
      assert.equal(await peer.prompt(sessionId, "what?").then(({ stopReason }) => stopReason), "end_turn");
      assert.ok(!peer.getUpdates().some((update) => update.sessionUpdate === "user_message_chunk"));
      assert.equal(provider.requests[0]?.messages.length, 3);
      peer.assertNoValidationErrors();
    });

    it("session/resume with another cwd runs the tools in that folder", async (t) => {
      const [sessionFolder, clientFolder] = [await tempDir(t), await tempDir(t)];
      const usedFolders: string[] = [];
      const projectDirTool = createTestTool(
        "where",
        (_args, { projectDir }) => (usedFolders.push(projectDir), { text: projectDir }),
      );
      const { agent } = createScriptedAgent(t, [callTools(["where", {}]), "a", callTools(["where", {}]), "b"], {
        tools: [projectDirTool],
      });
      const peer = new InProcessAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const session = await peer.newSession(sessionFolder.path);
      await peer.prompt(session, "x");
      await peer.request("session/resume", { sessionId: session, cwd: clientFolder.path });
      await peer.prompt(session, "y");
      assert.deepEqual(usedFolders, [sessionFolder.path, clientFolder.path]);
    });

    it("session/list returns complete entries, filters by cwd, and pages 103 sessions without overlap", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { path: otherFolder } = await tempDir(t);
      const { agent } = createScriptedAgent(t);
      const peer = new InProcessAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const createdIds: string[] = [];
      for (let i = 0; i < 103; i += 1) createdIds.push(await peer.newSession(cwd));
      const httpSession = await agent.sessions.create({ projectDir: otherFolder, title: "over http" });
      const firstPage = await peer.request("session/list", {});
      assert.equal(firstPage.sessions.length, 50);
      const httpEntry = firstPage.sessions.find((entry: Json) => entry.id === httpSession.id);
      assert.deepEqual(httpEntry, {
        id: httpSession.id,
        sessionId: httpSession.id,
        cwd: otherFolder,
        title: "over http",
        createdAt: httpSession.createdAt,
        updatedAt: httpSession.updatedAt,
        ...(profile === "official" && { archived: false }),
      });
      const acpEntry = firstPage.sessions.find((entry: Json) => entry.title === "ACP Session");
      const storedSession = (await agent.sessions.get(acpEntry.id))!;
      assert.equal(acpEntry.sessionId, profile === "spec" ? storedSession.id : storedSession.alias);
      assert.deepEqual(
        await peer.request("session/list", { cwd: "/no/such" }),
        profile === "spec" ? { sessions: [], nextCursor: "" } : { sessions: [] },
      );

      const listedIds = new Set<string>();
      let cursor: string | undefined;
      let pageCount = 0;
      do {
        const page: Json = await peer.request("session/list", { cwd, ...(cursor === undefined ? {} : { cursor }) });
        for (const entry of page.sessions) {
          assert.ok(!listedIds.has(entry.id), "pages never overlap");
          listedIds.add(entry.id);
        }
        cursor = page.nextCursor;
        pageCount += 1;
        if (pageCount === 1 && profile === "spec") assert.equal(cursor, "");
      } while (cursor !== undefined && pageCount < 10);
      assert.equal(pageCount, 3);
      assert.equal(listedIds.size, 103);
      assert.equal(new Set(createdIds).size, 103);
      peer.assertNoValidationErrors();
    });

    it("session/delete removes a session; session/load loads a session that another transport created", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = createScriptedAgent(t, ["hello"]);
      const peer = new InProcessAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const run = await agent.run({ message: "over http", projectDir: cwd });
      await run.result;
      await peer.request("session/load", { sessionId: run.sessionId, cwd });
      assert.equal(peer.getText(run.sessionId, "user_message_chunk"), "over http");
      assert.deepEqual(
        await peer.request("session/delete", { sessionId: run.sessionId }),
        profile === "spec" ? null : {},
      );
      assert.equal(await agent.sessions.get(run.sessionId), undefined);
      assert.equal((await peer.call("session/delete", { sessionId: run.sessionId })).error?.code, -32602);
      peer.assertNoValidationErrors();
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
    const { agent, provider } = createScriptedAgent(t, ["hi"], { provider: { models } });
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    const { sessionId, configOptions } = await peer.request("session/new", { cwd });
    assert.deepEqual(
      configOptions.map(({ id, category, currentValue }: Json) => [id, category, currentValue]),
      [["model", "model", "scripted/fast"]],
    );
    const setOption = (configId: string, value: Json) =>
      peer.call("session/set_config_option", { sessionId, configId, value });
    const modelResponse = await setOption("model", "scripted/deep");
    assert.deepEqual(
      modelResponse.result.configOptions.map(({ id, currentValue }: Json) => [id, currentValue]),
      [
        ["model", "scripted/deep"],
        ["thought_level", "default"],
      ],
    );
    assert.equal((await setOption("thought_level", "high")).result.configOptions[1].currentValue, "high");
    for (const [configId, value, field] of [
      ["model", "scripted/none", "value"],
      ["model", 5, "value"],
      ["thought_level", "much", "value"],
      ["mode", "x", "configId"],
    ]) {
      const { error } = await setOption(String(configId), value);
      assert.equal(error?.code, -32602);
      assert.deepEqual(error?.data, { field });
    }
    await peer.prompt(sessionId, "x");
    assert.equal(provider.requests[0]?.model.id, "deep");
    assert.equal(provider.requests[0]?.effort, "high");
    await setOption("model", "scripted/fast");
    const rejection = (await setOption("thought_level", "low")).error;
    assert.deepEqual(
      [rejection?.code, rejection?.data],
      [-32602, { field: "configId" }],
      "a model that does not reason",
    );
    assert.equal((await agent.sessions.get(sessionId))?.reasoningEffort, "high");
    const repeatResponse = await setOption("model", "scripted/fast");
    assert.equal(repeatResponse.result.configOptions[0].currentValue, "scripted/fast");
    peer.assertNoValidationErrors();
  });

  it("config options list the efforts of the model; a change of model selects the nearest effort", async (t) => {
    const { path: cwd } = await tempDir(t);
    const modelsWithEfforts = [
      { id: "plain", name: "Plain", ownedBy: "x", reasoning: true },
      { id: "graded", name: "Graded", ownedBy: "x", reasoning: true, efforts: ["low", "high", "max"] as const },
      { id: "free", name: "Free", ownedBy: "x", reasoning: true, efforts: [] },
    ];
    const { agent, provider } = createScriptedAgent(t, ["hi"], { provider: { models: modelsWithEfforts } });
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    const { sessionId } = await peer.request("session/new", { cwd });
    const setOption = async (configId: string, value: string): Promise<Json> => {
      const { configOptions } = await peer.request("session/set_config_option", { sessionId, configId, value });
      const effortOption = configOptions.find(({ id }: Json) => id === "thought_level");
      return (
        effortOption && [effortOption.currentValue, effortOption.options.map((choice: Json) => choice.value).join(" ")]
      );
    };
    const getRejectionData = async (value: string): Promise<Json> =>
      (await peer.call("session/set_config_option", { sessionId, configId: "thought_level", value })).error?.data;
    assert.deepEqual(await setOption("thought_level", "medium"), ["medium", "default minimal low medium high"]);
    assert.deepEqual(await getRejectionData("max"), { field: "value" });
    assert.deepEqual(await setOption("model", "scripted/graded"), ["high", "default low high max"]);
    assert.deepEqual(await getRejectionData("medium"), { field: "value" });
    assert.deepEqual(await setOption("thought_level", "max"), ["max", "default low high max"]);
    await peer.prompt(sessionId, "x");
    assert.equal(provider.requests[0]?.effort, "max");
    assert.equal(await setOption("model", "scripted/free"), undefined);
    assert.equal((await agent.sessions.get(sessionId))?.reasoningEffort, "max");
    peer.assertNoValidationErrors();
  });

  it("a session without an effort uses the configured effort", async (t) => {
    const { path: cwd } = await tempDir(t);
    const preferredModel = { provider: "scripted", model: "deep", reasoningEffort: "low" } as const;
    const { agent, provider } = createScriptedAgent(t, ["hi"], { provider: { models }, model: preferredModel });
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    await peer.prompt(await peer.newSession(cwd), "x");
    assert.equal(provider.requests[0]?.model.id, "deep");
    assert.equal(provider.requests[0]?.effort, "low");
  });

  it("a config option applies to a prompt that is sent directly after the option", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent, provider } = createScriptedAgent(t, ["hi"], { provider: { models } });
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    const { sessionId } = await peer.request("session/new", { cwd });
    const optionRequest = peer.request("session/set_config_option", {
      sessionId,
      configId: "model",
      value: "scripted/deep",
    });
    await Promise.all([optionRequest, peer.prompt(sessionId, "x")]);
    assert.equal(provider.requests[0]?.model.id, "deep");
  });

  it("a generated title is sent as session_info_update under the client's session id, to that client only", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, ["hi"], { provider: { title: "A fine title" } });
    const acp = new InProcessAcp(t, agent);
    const [peer, otherPeer] = [acp.connect(), acp.connect()];
    await Promise.all([peer.initialize(), otherPeer.initialize()]);
    const session = await peer.newSession(cwd);
    await peer.prompt(session, "x");
    const { params } = await peer.waitForMessage(
      (message) => message.params?.update?.sessionUpdate === "session_info_update",
    );
    assert.equal(params.sessionId, session);
    assert.equal(params.update.title, "A fine title");
    assert.equal(otherPeer.getUpdates().length, 0);
    peer.assertNoValidationErrors();
  });

  it("authenticate accepts a listed method, rejects an unknown method, and does not exist without methods", async (t) => {
    const { agent } = createScriptedAgent(t);
    const authMethods = [{ id: "env", name: "API key in the environment" }];
    const peer = new InProcessAcp(t, agent, { authMethods }).connect();
    assert.deepEqual((await peer.initialize()).authMethods, authMethods);
    assert.deepEqual(await peer.request("authenticate", { methodId: "env" }), {});
    assert.equal((await peer.call("authenticate", { methodId: "no" })).error?.code, -32602);
    const plainPeer = new InProcessAcp(t, agent).connect();
    await plainPeer.initialize();
    assert.equal((await plainPeer.call("authenticate", { methodId: "env" })).error?.code, -32601);
    peer.assertNoValidationErrors();
  });

  it("two connections with equal request ids and 50 sessions each receive only their own updates", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [], { provider: { fallback: echoLastMessage } });
    const acp = new InProcessAcp(t, agent);
    const peers = [acp.connect(), acp.connect()];
    await Promise.all(peers.map((peer) => peer.initialize()));
    const sessions = await Promise.all(
      peers.map((peer) => Promise.all(Array.from({ length: 50 }, () => peer.newSession(cwd)))),
    );
    await Promise.all(
      peers.flatMap((peer, peerIndex) =>
        sessions[peerIndex]!.map(async (session, sessionIndex) => {
          assert.deepEqual(await peer.prompt(session, `${peerIndex}-${sessionIndex}`), { stopReason: "end_turn" });
        }),
      ),
    );
    for (const [peerIndex, peer] of peers.entries()) {
      const ownSessionIds = new Set(sessions[peerIndex]);
      for (const message of peer.receivedMessages) {
        if (message.method === "session/update") assert.ok(ownSessionIds.has(message.params.sessionId));
      }
      for (const [sessionIndex, session] of sessions[peerIndex]!.entries())
        assert.equal(peer.getText(session), `echo ${peerIndex}-${sessionIndex}`);
      peer.assertNoValidationErrors();
    }
  });
});
