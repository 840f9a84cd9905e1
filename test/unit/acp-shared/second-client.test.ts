import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, MemoryDriver, ProviderError, silentLogger } from "gantry";
import { MemoryDocuments, type SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { InProcessAcp, createTestTool } from "../../helpers/acp-agent.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { STORES } from "../../helpers/stores.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const EDITOR = { clientInfo: { name: "zed", version: "1" } };

/** Creates a step that sends its answer in two parts, the second after `condition` resolves. */
function createTwoPartAnswer(condition: Promise<void>): ScriptedStep {
  return async () => {
    const firstPart = { type: "text" as const, block: "t", text: "first half, " };
    return [firstPart, condition.then(() => 1) as never, { type: "text", block: "t", text: "second half" }];
  };
}

/** Creates an agent that acts like a separate process on the store. */
function createAgent(t: Hooks, driver: SessionDriver, steps: readonly ScriptedStep[] = []) {
  const toolGate = createGate();
  const riskyTool = createTestTool("risky", () => ({ text: "ran" }), { needsPermission: true, kind: "execute" });
  const agent = new Agent({
    providers: [new ScriptedProvider(steps)],
    driver,
    tools: [createWaitTool(toolGate), riskyTool],
    logger: silentLogger,
  });
  t.after(async () => {
    toolGate.open();
    await agent.close();
  });
  return { agent, toolGate };
}

async function connectPeer(t: Hooks, agent: Agent, params: Json = EDITOR, options = {}): Promise<AcpPeer> {
  const peer = new InProcessAcp(t, agent, options).connect();
  await peer.initialize(params);
  if (params === EDITOR) peer.profile = "official";
  return peer;
}

const describeUpdate = (update: Json): string[] => {
  const { sessionUpdate: kind, content, status, toolCallId } = update;
  if (["session_info_update", "config_option_update", "available_commands_update"].includes(kind)) return [];
  const callStatus = toolCallId === undefined ? [] : [status];
  return [[kind, ...(typeof content?.text === "string" ? [content.text] : []), ...callStatus].join(" ")];
};

/** Describes the updates that a client received since message `start`. Chunks of one message are joined. */
function describeUpdates(peer: AcpPeer, start = 0): string[] {
  const lines: string[] = [];
  let id: unknown;
  for (const { params } of peer.receivedMessages.slice(start).filter(({ method }) => method === "session/update")) {
    const { update } = params;
    const newLines = describeUpdate(update);
    if (newLines.length === 0) continue;
    if (update.messageId !== undefined && update.messageId === id) lines[lines.length - 1] += update.content.text;
    else lines.push(...newLines);
    id = update.messageId;
  }
  return lines;
}

const isUsageUpdate = ({ params }: Json) => params?.update?.sessionUpdate === "usage_update";

for (const [name, createStore] of STORES)
  describe(`a second ACP client (${name})`, { concurrency: 4 }, () => {
    for (const location of ["this process", "another process"] as const)
      it(`loads a session that runs in ${location} and receives each update once`, async (t) => {
        const { path: cwd } = await tempDir(t);
        const openDriver = await createStore(t);
        let releaseSecondPart = (): void => undefined;
        const secondPartReleased = new Promise<void>((resolve) => (releaseSecondPart = resolve));
        const firstProcess = createAgent(t, openDriver(), [
          callTools(["wait", {}]),
          createTwoPartAnswer(secondPartReleased),
          "again",
        ]);
        const run = await firstProcess.agent.run({ message: "over HTTP", projectDir: cwd });
        await firstProcess.toolGate.firstWait;
        const { agent } = location === "this process" ? firstProcess : createAgent(t, openDriver());
        const peer = await connectPeer(t, agent);
        const specPeer = await connectPeer(t, agent, {});
        for (const client of [peer, specPeer]) await client.request("session/load", { sessionId: run.sessionId, cwd });
        const loadedLines = ["user_message_chunk over HTTP", "tool_call pending"];
        assert.deepEqual(describeUpdates(peer), [...loadedLines, "tool_call_update in_progress"]);
        assert.deepEqual(describeUpdates(specPeer), loadedLines);
        firstProcess.toolGate.open();
        await peer.waitForMessage(({ params }) => params?.update?.content?.text?.startsWith("first half"));
        // This client loads the session in the middle of an answer.
        const laterClient = await connectPeer(t, agent);
        await laterClient.request("session/load", { sessionId: run.sessionId, cwd });
        releaseSecondPart();
        for (const client of [peer, specPeer, laterClient]) await client.waitForMessage(isUsageUpdate);
        await run.result;
        const laterLines = [
          "tool_call_update completed",
          "agent_message_chunk first half, second half",
          "usage_update",
        ];
        assert.deepEqual(describeUpdates(peer), [...loadedLines, "tool_call_update in_progress", ...laterLines]);
        assert.deepEqual(describeUpdates(specPeer), [...loadedLines, ...laterLines]);
        assert.deepEqual(describeUpdates(laterClient), [...loadedLines, ...laterLines]);
        // The clients receive the next run from its start.
        const messageCounts = [peer, specPeer, laterClient].map(({ receivedMessages }) => receivedMessages.length);
        const nextRun = await firstProcess.agent.run({ message: "more", sessionId: run.sessionId });
        await nextRun.result;
        for (const [clientIndex, client] of [peer, specPeer, laterClient].entries()) {
          await client.waitForMessage(
            (message) =>
              client.receivedMessages.indexOf(message) >= messageCounts[clientIndex]! && isUsageUpdate(message),
          );
          assert.deepEqual(describeUpdates(client, messageCounts[clientIndex]), [
            "user_message_chunk more",
            "agent_message_chunk again",
            "usage_update",
          ]);
          client.assertNoValidationErrors();
        }
      });

    it("receives each answer once and the prompts of other clients, but no echo of its own prompts", async (t) => {
      const { path: cwd } = await tempDir(t);
      const openDriver = await createStore(t);
      const { agent } = createAgent(t, openDriver(), ["one", "two", "three", "four"]);
      const peer = await connectPeer(t, agent);
      const session = await peer.newSession(cwd);
      await peer.prompt(session, "mine");
      const runPrompt = async (message: string, targetAgent: Agent) => {
        const messageCount = peer.receivedMessages.length;
        await (
          await targetAgent.run({ message, sessionId: session })
        ).result;
        await peer.waitForMessage(
          (message) => peer.receivedMessages.indexOf(message) >= messageCount && isUsageUpdate(message),
        );
      };
      await runPrompt("theirs", agent);
      await peer.prompt(session, "mine too");
      await runPrompt("from elsewhere", createAgent(t, openDriver(), ["five"]).agent);
      await peer.prompt(session, "and mine");
      assert.deepEqual(
        describeUpdates(peer).filter((line) => !line.startsWith("usage")),
        [
          "agent_message_chunk one",
          "user_message_chunk theirs",
          "agent_message_chunk two",
          "agent_message_chunk three",
          "user_message_chunk from elsewhere",
          "agent_message_chunk five",
          "agent_message_chunk four",
        ],
      );
      peer.assertNoValidationErrors();
    });

    it("receives runs of a session that it created and never prompted, or that it resumed, without history", async (t) => {
      const { path: cwd } = await tempDir(t);
      const openDriver = await createStore(t);
      const { agent, toolGate } = createAgent(t, openDriver(), ["one", callTools(["wait", {}]), "two"]);
      const peer = await connectPeer(t, agent);
      const session = await peer.newSession(cwd);
      await (
        await agent.run({ message: "theirs", sessionId: session })
      ).result;
      await peer.waitForMessage(isUsageUpdate);
      assert.deepEqual(describeUpdates(peer), ["user_message_chunk theirs", "agent_message_chunk one", "usage_update"]);
      const run = await agent.run({ message: "more", sessionId: session });
      await toolGate.firstWait;
      const resumedPeer = await connectPeer(t, createAgent(t, openDriver()).agent);
      await resumedPeer.request("session/resume", { sessionId: session, cwd });
      assert.deepEqual(describeUpdates(resumedPeer), [], "a resume sends no history");
      toolGate.open();
      await run.result;
      await resumedPeer.waitForMessage(isUsageUpdate);
      assert.deepEqual(describeUpdates(resumedPeer), [
        "tool_call pending",
        "tool_call_update completed",
        "agent_message_chunk two",
        "usage_update",
      ]);
      for (const client of [peer, resumedPeer]) client.assertNoValidationErrors();
    });

    it("receives no update twice when another client reverts messages and restores them", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = createAgent(t, (await createStore(t))(), ["one", "two", "three", "four"]);
      const peer = await connectPeer(t, agent);
      const sessionId = await peer.newSession(cwd);
      await peer.request("session/load", { sessionId, cwd });
      // Waits for the last text of each answer, because reverted text that was not yet sent is never sent.
      const runPrompts = async (...turns: (readonly [prompt: string, answer: string])[]) => {
        for (const [message, answer] of turns) {
          await (
            await agent.run({ message, sessionId })
          ).result;
          await peer.waitForMessage(({ params }) => params?.update?.content?.text === answer);
        }
      };
      await runPrompts(["a", "one"], ["b", "two"]);
      const [, answerMessage] = await agent.sessions.messages(sessionId);
      const snapshot = await agent.sessions.revert(sessionId, answerMessage!.id);
      await runPrompts(["c", "three"]);
      await agent.sessions.restore(sessionId, snapshot.id);
      await runPrompts(["d", "four"]);
      assert.deepEqual(
        describeUpdates(peer).filter((line) => line !== "usage_update"),
        ["a", "one", "b", "two", "c", "three", "d", "four"].map(
          (text, i) => `${i % 2 ? "agent" : "user"}_message_chunk ${text}`,
        ),
      );
      await peer.request("session/load", { sessionId, cwd });
      // The load replays the restored messages and the last run, without the replaced run "c".
      assert.deepEqual(
        describeUpdates(peer).slice(-6),
        describeUpdates(peer)
          .filter((line) => / (a|one|b|two|d|four)$/.test(line))
          .slice(-6),
      );
      peer.assertNoValidationErrors();
    });

    it("cancels another client's run only after loading the session, and receives the call's end and usage", async (t) => {
      const { path: cwd } = await tempDir(t);
      const openDriver = await createStore(t);
      const firstProcess = createAgent(t, openDriver(), [callTools(["wait", {}])]);
      const run = await firstProcess.agent.run({ message: "x", projectDir: cwd });
      await firstProcess.toolGate.firstWait;
      const { agent } = createAgent(t, openDriver());
      const unloadedPeer = await connectPeer(t, agent);
      unloadedPeer.notify("session/cancel", { sessionId: run.sessionId });
      const peer = await connectPeer(t, agent);
      await peer.request("session/load", { sessionId: run.sessionId, cwd });
      assert.equal(
        (await agent.runs.get(run.id))?.state,
        "running",
        "a client that has not loaded the session cannot cancel",
      );
      peer.notify("session/cancel", { sessionId: run.sessionId });
      await assert.rejects(run.result, { code: "run_cancelled" });
      await peer.waitForMessage(isUsageUpdate);
      assert.equal(peer.getUpdates().filter(({ status }) => status === "failed" || status === "completed").length, 1);
      assert.equal(describeUpdates(peer).at(-1), "usage_update", "the usage of a cancelled run is reported");
      peer.assertNoValidationErrors();
    });

    it("steers the active run or starts a run with _meta.steer; without _meta.steer the session is busy", async (t) => {
      const { path: cwd } = await tempDir(t);
      const openDriver = await createStore(t);
      const firstProcess = createAgent(t, openDriver(), [callTools(["wait", {}]), "done", "later"]);
      const run = await firstProcess.agent.run({ message: "x", projectDir: cwd });
      await firstProcess.toolGate.firstWait;
      const peer = await connectPeer(t, createAgent(t, openDriver(), ["prompted"]).agent);
      const { sessionId } = run;
      await peer.request("session/load", { sessionId, cwd });
      const prompt = [{ type: "text", text: "and mind the tests" }];
      const busyResponse = await peer.call("session/prompt", { sessionId, prompt });
      assert.deepEqual([busyResponse.error?.code, busyResponse.error?.message], [-32600, "session is busy"]);
      const imagePrompt = [...prompt, { type: "image", mimeType: "image/png", data: "aGk=" }];
      const imageResponse = await peer.call("session/prompt", {
        sessionId,
        prompt: imagePrompt,
        _meta: { steer: true },
      });
      assert.deepEqual([imageResponse.error?.code, imageResponse.error?.data?.field], [-32602, "prompt"]);
      assert.deepEqual(await peer.request("session/prompt", { sessionId, prompt, _meta: { steer: true } }), {
        stopReason: "end_turn",
        _meta: { steered: { runId: run.id } },
      });
      firstProcess.toolGate.open();
      await run.result;
      // The text arrives before the next model call, or as the next prompt if the run has already ended.
      const steeredMessage = await peer.waitForMessage(
        ({ params }) => params?.update?.content?.text === "and mind the tests",
      );
      // The usage of the previous call can be reported between the text and the answer.
      await peer.waitForMessage(
        (message) =>
          peer.receivedMessages.indexOf(message) > peer.receivedMessages.indexOf(steeredMessage) &&
          message.params?.update?.sessionUpdate === "agent_message_chunk",
      );
      const lines = describeUpdates(peer);
      const promptIndex = lines.indexOf("user_message_chunk and mind the tests");
      const nextLine = lines.slice(promptIndex + 1).find((line) => line !== "usage_update");
      assert.match(nextLine ?? "", /^agent_message_chunk (done|later)$/);
      assert.equal(lines.filter((line) => line === "user_message_chunk and mind the tests").length, 1);
      // Without an active run the steer is an ordinary prompt.
      await waitUntil(async () => (await firstProcess.agent.runs.list({ states: ["queued", "running"] })).length === 0);
      const result = await peer.request("session/prompt", { sessionId, prompt, _meta: { steer: true } });
      assert.deepEqual(result, { stopReason: "end_turn" });
      assert.equal(describeUpdates(peer).filter((line) => line === "agent_message_chunk prompted").length, 1);
      peer.assertNoValidationErrors();
    });
  });

describe("several ACP clients of one session", { concurrency: 4 }, () => {
  it("session/close ends the updates to its client, not the prompt of another client", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent, toolGate } = createAgent(t, new MemoryDriver(new MemoryDocuments()), [
      callTools(["wait", {}]),
      "done",
    ]);
    const server = new InProcessAcp(t, agent);
    const [firstPeer, secondPeer] = [server.connect(), server.connect()];
    for (const peer of [firstPeer, secondPeer]) await peer.initialize();
    const sessionId = await firstPeer.newSession(cwd);
    const result = firstPeer.prompt(sessionId, "x");
    await toolGate.firstWait;
    await secondPeer.request("session/load", { sessionId, cwd });
    await secondPeer.request("session/close", { sessionId });
    const messageCount = secondPeer.receivedMessages.length;
    toolGate.open();
    assert.deepEqual(await result, { stopReason: "end_turn" });
    await secondPeer.request("session/list", {});
    assert.equal(secondPeer.receivedMessages.length, messageCount + 1, "the closed client receives only its response");
  });

  it("session/close also ends updates of commands and options that were still being read", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createAgent(t, new MemoryDriver(new MemoryDocuments()));
    const listGate = createGate();
    const listCommands = agent.commands.bind(agent);
    agent.commands = (options) => listGate.wait().then(() => listCommands(options));
    const [closingPeer, laterPeer] = [await connectPeer(t, agent), await connectPeer(t, agent)];
    const sessionId = await laterPeer.newSession(cwd);
    await closingPeer.request("session/load", { sessionId, cwd, mcpServers: [] });
    await closingPeer.request("session/close", { sessionId });
    const messageCount = closingPeer.receivedMessages.length;
    await laterPeer.request("session/load", { sessionId, cwd, mcpServers: [] });
    listGate.open();
    // A client that opens the session later receives the same updates later.
    for (const kind of ["config_option_update", "available_commands_update"])
      await laterPeer.waitForMessage(({ params }) => params?.update?.sessionUpdate === kind);
    await closingPeer.request("session/list", {});
    assert.equal(closingPeer.receivedMessages.length, messageCount + 1, "it receives only its response");
  });

  it("receive the latest output of a command that any client started; a spec client receives no output", async (t) => {
    const { path: cwd } = await tempDir(t);
    const [firstOutputReceived, toolGate] = [createGate(), createGate()];
    const lines = Array.from({ length: 3_000 }, (_, n) => `line ${n}\n`);
    const chattyTool = createTestTool("chatty", async (_args, { progress }) => {
      progress("begun\n");
      await firstOutputReceived.wait();
      for (const line of lines) progress(line);
      await toolGate.wait();
      return { text: "all" };
    });
    const agent = new Agent({
      providers: [new ScriptedProvider([callTools(["chatty", {}]), "done"])],
      tools: [chattyTool],
      logger: silentLogger,
    });
    t.after(() => agent.close());
    const server = new InProcessAcp(t, agent);
    const [ownPeer, otherPeer, specPeer] = [server.connect(), server.connect(), server.connect()];
    await ownPeer.initialize(EDITOR);
    await otherPeer.initialize(EDITOR);
    await specPeer.initialize();
    for (const peer of [ownPeer, otherPeer]) peer.profile = "official";
    const sessionId = await ownPeer.newSession(cwd);
    for (const peer of [otherPeer, specPeer]) await peer.request("session/load", { sessionId, cwd });
    const result = ownPeer.prompt(sessionId, "x");
    const lastLine = lines.at(-1)!.trim();
    const getPrintedTexts = (peer: AcpPeer): string[] =>
      peer
        .getUpdates()
        .flatMap(({ status, content }) => (status === "in_progress" && content ? [content[0].content.text] : []));
    for (const peer of [ownPeer, otherPeer]) await peer.waitForMessage(() => getPrintedTexts(peer).length > 0);
    firstOutputReceived.open();
    for (const peer of [ownPeer, otherPeer])
      await peer.waitForMessage(() => getPrintedTexts(peer).at(-1)?.includes(lastLine) === true);
    toolGate.open();
    await result;
    for (const peer of [ownPeer, otherPeer]) {
      await peer.waitForMessage(() => describeUpdates(peer).includes("agent_message_chunk done"));
      const texts = getPrintedTexts(peer);
      assert.match(texts[0]!, /^begun/);
      for (const text of texts) assert.ok(text.length < 8_300, `${text.length}`);
      assert.match(texts.at(-1)!, /^\[…\]\nline \d+\n/, "the output starts with a complete line");
      const states = peer.getUpdates().flatMap(({ status }) => (status === undefined ? [] : [status]));
      assert.equal(states.at(-1), "completed", "the result is the last update of the call");
      peer.assertNoValidationErrors();
    }
    await specPeer.waitForMessage(() => describeUpdates(specPeer).includes("agent_message_chunk done"));
    assert.deepEqual(getPrintedTexts(specPeer), []);
  });

  it("receive the plan once per change and a retry notice once; a later client receives the current plan", async (t) => {
    const { path: cwd } = await tempDir(t);
    const createTodos = (status: string) => [
      { content: "look", status },
      { content: "mend", status: "pending" },
    ];
    const overloadedError = new ProviderError("scripted", "overloaded", "try later", {
      status: 503,
      retryAfterMs: 400,
    });
    const agent = new Agent({
      providers: [
        new ScriptedProvider(
          [
            callTools(["todowrite", { todos: createTodos("in_progress") }]),
            overloadedError,
            callTools(["todowrite", { todos: createTodos("completed") }]),
            "done",
          ],
          { maxRetries: 1 },
        ),
      ],
      tools: builtinTools(),
      logger: silentLogger,
    });
    t.after(() => agent.close());
    const server = new InProcessAcp(t, agent);
    const [ownPeer, otherPeer, specPeer] = [server.connect(), server.connect(), server.connect()];
    for (const peer of [ownPeer, otherPeer]) await peer.initialize(EDITOR);
    await specPeer.initialize();
    for (const peer of [ownPeer, otherPeer]) peer.profile = "official";
    const sessionId = await ownPeer.newSession(cwd);
    for (const peer of [otherPeer, specPeer]) await peer.request("session/load", { sessionId, cwd });
    await ownPeer.prompt(sessionId, "x");
    const getPlans = (peer: AcpPeer) =>
      peer
        .getUpdates()
        .flatMap(({ sessionUpdate, entries }) =>
          sessionUpdate === "plan" ? [entries.map((entry: Json) => entry.status)] : [],
        );
    for (const peer of [otherPeer, specPeer]) await peer.waitForMessage(isUsageUpdate);
    for (const peer of [ownPeer, otherPeer]) {
      assert.deepEqual(getPlans(peer), [
        ["in_progress", "pending"],
        ["completed", "pending"],
      ]);
      assert.match(peer.getText(sessionId, "agent_thought_chunk"), /^\[scripted: 503: try later; retrying in 1 s\]\n$/);
      peer.assertNoValidationErrors();
    }
    assert.deepEqual(getPlans(specPeer), []);
    assert.equal(specPeer.getText(sessionId, "agent_thought_chunk"), "");
    // A later client receives the current plan, and no notice of an ended retry.
    const laterClient = server.connect();
    await laterClient.initialize(EDITOR);
    await laterClient.request("session/load", { sessionId, cwd });
    assert.deepEqual(getPlans(laterClient).at(-1), ["completed", "pending"]);
    assert.equal(laterClient.getText(sessionId, "agent_thought_chunk"), "");
  });

  it("receive no echo of their own prompt, even if the store confirms the prompt late", async (t) => {
    const { path: cwd } = await tempDir(t);
    const driver = new MemoryDriver(new MemoryDocuments());
    const { agent } = createAgent(t, driver, ["one"]);
    const peer = await connectPeer(t, agent);
    const session = await peer.newSession(cwd);
    await peer.request("session/load", { sessionId: session, cwd });
    const watcher = await connectPeer(t, agent);
    await watcher.request("session/load", { sessionId: session, cwd });
    const promptReceived = watcher.waitForMessage(
      ({ params }) => params?.update?.sessionUpdate === "user_message_chunk",
    );
    // The run starts when its prompt is on disk. The other client has already received the prompt by then.
    Object.assign(driver, { synced: () => promptReceived });
    await peer.prompt(session, "mine");
    assert.deepEqual(
      describeUpdates(peer).filter((line) => line !== "usage_update"),
      ["agent_message_chunk one"],
    );
  });

  it("receive only the remaining text after a resume during an answer", async (t) => {
    const { path: cwd } = await tempDir(t);
    let releaseSecondPart = (): void => undefined;
    const secondPartReleased = new Promise<void>((resolve) => (releaseSecondPart = resolve));
    const { agent } = createAgent(t, new MemoryDriver(new MemoryDocuments()), [
      "one",
      createTwoPartAnswer(secondPartReleased),
    ]);
    const { sessionId, result } = await agent.run({ message: "x", projectDir: cwd });
    await result;
    const idlePeer = await connectPeer(t, agent);
    await idlePeer.request("session/resume", { sessionId, cwd });
    const run = await agent.run({ message: "y", sessionId });
    await idlePeer.waitForMessage(({ params }) => params?.update?.content?.text?.startsWith("first half"));
    assert.deepEqual(describeUpdates(idlePeer), ["user_message_chunk y", "agent_message_chunk first half, "]);
    const peer = await connectPeer(t, agent);
    await peer.request("session/resume", { sessionId, cwd });
    await peer.request("session/list", {});
    releaseSecondPart();
    await run.result;
    await peer.waitForMessage(({ params }) => params?.update?.content?.text?.endsWith("second half"));
    assert.equal(peer.getText(sessionId), "second half");
    assert.equal(peer.getText(sessionId, "user_message_chunk"), "");
  });

  it("receive each update once despite a temporary store failure", async (t) => {
    const { path: cwd } = await tempDir(t);
    const store = new MemoryDocuments();
    const driver = new MemoryDriver(store);
    const { agent } = createAgent(t, driver, ["one", "two"]);
    const peer = await connectPeer(t, agent);
    const session = await peer.newSession(cwd);
    await peer.prompt(session, "mine");
    const originalMessages = driver.messages.bind(driver);
    let isFailing = true;
    let failureCount = 0;
    driver.messages = (...args) => {
      if (!isFailing) return originalMessages(...args);
      failureCount += 1;
      return Promise.reject(new Error("no disk"));
    };
    const otherProcess = createAgent(t, new MemoryDriver(store), ["theirs"]);
    await (
      await otherProcess.agent.run({ message: "x", sessionId: session })
    ).result;
    await waitUntil(() => failureCount > 0);
    isFailing = false;
    await peer.waitForMessage(({ params }) => params?.update?.content?.text === "theirs");
    assert.equal(describeUpdates(peer).filter((line) => line === "user_message_chunk x").length, 1);
  });
});

describe("updates with acp.profile set to spec", () => {
  it("go only to the connection that prompts, and a request for permission too", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createAgent(t, new MemoryDriver(new MemoryDocuments()), [callTools(["risky", {}]), "one"]);
    const acp = new InProcessAcp(t, agent, { profile: "spec" });
    const [peer, idlePeer] = [acp.connect(), acp.connect()];
    const watchingPeer = await connectPeer(t, agent);
    for (const client of [peer, idlePeer]) {
      await client.initialize(EDITOR);
      client.onRequest = () => ({ outcome: { outcome: "selected", optionId: "allow_once" } });
    }
    const session = await peer.newSession(cwd);
    await idlePeer.request("session/load", { sessionId: session, cwd });
    // The load itself ends with the options of the session.
    await idlePeer.waitForMessage(({ params }) => params?.update?.sessionUpdate === "config_option_update");
    await watchingPeer.request("session/load", { sessionId: session, cwd });
    await peer.request("session/set_mode", { sessionId: session, modeId: "ask" });
    const start = idlePeer.receivedMessages.length;
    await peer.prompt(session, "x");
    await watchingPeer.waitForMessage(isUsageUpdate);
    await agent.sessions.update(session, { title: "changed" });
    for (const client of [peer, watchingPeer])
      await client.waitForMessage(({ params }) => params?.update?.title === "changed");
    await idlePeer.request("session/list", {});
    assert.deepEqual(
      idlePeer.receivedMessages.slice(start).filter(({ method }) => method !== undefined),
      [],
    );
    assert.equal(peer.getText(session), "one");
    assert.ok(peer.receivedMessages.some(({ method }) => method === "session/request_permission"));
    // A prompt of the other connection works, and its updates go to that connection.
    const messageCount = peer.receivedMessages.length;
    assert.deepEqual(await idlePeer.prompt(session, "y"), { stopReason: "end_turn" });
    assert.equal(idlePeer.getText(session), "ok");
    await peer.request("session/list", {});
    assert.deepEqual(describeUpdates(peer, messageCount), []);
  });
});
