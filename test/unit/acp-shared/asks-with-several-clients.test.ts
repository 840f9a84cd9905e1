import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, defineTool, silentLogger } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { InProcessAcp, createTestTool } from "../../helpers/acp-agent.js";
import { createGate } from "../../helpers/gate.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const createClientInfo = (name: string) => ({ clientInfo: { name, version: "1" } });
const DIFF = [{ path: "/p/a", oldText: "x", newText: "y" }];

/** Creates an agent on a store, with a tool that needs permission and two tools that ask a question. */
function createAgent(t: Hooks, driver: SessionDriver, unattended: "reject" | "wait" = "reject") {
  const executedCalls: unknown[] = [];
  const riskyTool = createTestTool("risky", (args) => (executedCalls.push(args), { text: "ran" }), {
    needsPermission: true,
    kind: "edit",
    describe: () => ({ title: "Change a", locations: [{ path: "/p/a" }], diff: DIFF }),
  });
  const choiceTool = defineTool({
    name: "inquire",
    description: "Asks.",
    needsPermission: false,
    run: async (_, { askUser: ask }) => {
      const reply = await ask({ title: "Which?\u0007", choices: ["red", "blue"], freeText: true });
      return reply === undefined ? "nobody" : `they said ${reply}`;
    },
  });
  const textTool = defineTool({
    name: "open",
    description: "Asks for a text.",
    needsPermission: false,
    run: async (_, { askUser: ask }) => (await ask({ title: "Why?" })) ?? "nobody",
  });
  const steps = Array.from({ length: 20 }, (_, n) =>
    n % 2 ? "end" : callTools(["risky", { n }], ["inquire", {}], ["open", {}]),
  );
  const agent = new Agent({
    providers: [new ScriptedProvider(steps)],
    driver,
    tools: [riskyTool, choiceTool, textTool],
    logger: silentLogger,
    unattended,
    clientGraceSeconds: 0,
  });
  t.after(() => agent.close());
  return { agent, executedCalls };
}

/** Connects a client. `chooseOption` returns the user's option, or undefined if the user does not answer. */
async function connectClient(
  t: Hooks,
  agent: Agent,
  name: string,
  chooseOption: (params: Json) => string | undefined,
  options = {},
): Promise<ReturnType<InProcessAcp["connect"]> & { requests: Json[] }> {
  const peer = Object.assign(new InProcessAcp(t, agent, options).connect(), { requests: [] as Json[] });
  peer.profile = "official";
  peer.onRequest = (method, params) => {
    assert.equal(method, "session/request_permission");
    peer.requests.push(params);
    const optionId = chooseOption(params);
    return optionId === undefined ? undefined : { outcome: { outcome: "selected", optionId } };
  };
  await peer.initialize(createClientInfo(name));
  return peer;
}

const getOutputs = (peer: AcpPeer): string[] =>
  peer.getUpdates().flatMap(({ rawOutput }) => (rawOutput === undefined ? [] : [rawOutput]));

/**
 * Waits until the client watches the session. A client that does not watch receives no changes of another process, and
 * its user cannot be asked.
 */
async function waitUntilWatching(peer: AcpPeer, session: string, otherProcess: Agent): Promise<void> {
  await otherProcess.sessions.update(session, { title: "watched" });
  await peer.waitForMessage(({ params }) => params?.update?.title === "watched");
}

const chooseAllowOrBlue = ({ toolCall }: Json) => (toolCall.title === "Change a" ? "allow_once" : "2");

for (const [name, createStore] of STORES)
  describe(`asks with several ACP clients (${name})`, { concurrency: 4 }, () => {
    for (const location of ["this process", "another process"] as const)
      it(`accept the first answer (from ${location}), and the other client receives $/cancel_request`, async (t) => {
        const { path: cwd } = await tempDir(t);
        const openDriver = await createStore(t);
        const firstProcess = createAgent(t, openDriver());
        const secondProcess = location === "this process" ? firstProcess : createAgent(t, openDriver());
        const firstPeer = await connectClient(t, firstProcess.agent, "zed", () => undefined, {
          requestPermission: true,
        });
        const secondPeer = await connectClient(t, secondProcess.agent, "JetBrains.\u001b[0m", chooseAllowOrBlue, {
          requestPermission: true,
        });
        const session = await firstPeer.newSession(cwd);
        await secondPeer.request("session/load", { sessionId: session, cwd });
        const result = firstPeer.prompt(session, "x");
        assert.deepEqual(await result, { stopReason: "end_turn" });
        assert.deepEqual(getOutputs(firstPeer), ["ran", "they said blue", "nobody"]);
        assert.equal(firstProcess.executedCalls.length, 1);
        // Both clients received the requests. The slower client receives the cancellation.
        assert.equal(firstPeer.requests.length, 2);
        const cancelRequests = firstPeer.receivedMessages.filter(({ method }) => method === "$/cancel_request");
        assert.equal(cancelRequests.length, 2);
        const [permissionRequest, questionRequest] = secondPeer.requests;
        assert.deepEqual(firstPeer.requests, secondPeer.requests, "both clients receive equal requests");
        assert.deepEqual(permissionRequest.toolCall.content, [{ type: "diff", ...DIFF[0] }]);
        assert.deepEqual(permissionRequest.toolCall.locations, [{ path: "/p/a" }]);
        assert.deepEqual(
          questionRequest.options.map(({ optionId, name: optionName, kind }: Json) => [optionId, optionName, kind]),
          [
            ["1", "red", "allow_once"],
            ["2", "blue", "allow_once"],
            ["no_answer", "No answer", "reject_once"],
          ],
        );
        assert.equal(questionRequest.toolCall.title, "Which?\\u0007");
        assert.match(questionRequest.toolCall.content[0].content.text, /free text requires the HTTP API/);
        // Both clients receive the tool call before the request.
        for (const peer of [firstPeer, secondPeer]) {
          const requestIndex = peer.receivedMessages.findIndex(({ method }) => method === "session/request_permission");
          const callIndex = peer.receivedMessages.findIndex(
            ({ params }) => params?.update?.toolCallId === peer.requests[0].toolCall.toolCallId,
          );
          assert.ok(callIndex >= 0 && callIndex < requestIndex);
          peer.assertNoValidationErrors();
        }
        const storedSession = await firstProcess.agent.sessions.get(session);
        const asks = await firstProcess.agent.asks.list({ sessionId: storedSession!.id });
        assert.deepEqual(
          asks.map(({ kind, state, answeredBy }) => [kind, state, answeredBy]),
          [
            // ACP users can choose an option but cannot send a text, so this question is withdrawn.
            ["question", "withdrawn", ""],
            ["question", "answered", "acp:JetBrains.\\e[0m"],
            ["permission", "answered", "acp:JetBrains.\\e[0m"],
          ],
        );
      });

    it("of a background run go to a client that loaded the session, and are denied if that client cannot answer", async (t) => {
      const { path: cwd } = await tempDir(t);
      const openDriver = await createStore(t);
      const { agent, executedCalls } = createAgent(t, openDriver());
      const otherProcess = createAgent(t, openDriver());
      const peer = await connectClient(t, agent, "zed", chooseAllowOrBlue);
      const session = await peer.newSession(cwd);
      await peer.request("session/load", { sessionId: session, cwd });
      await waitUntilWatching(peer, session, otherProcess.agent);
      await (
        await agent.run({ message: "x", sessionId: session, mode: "ask" })
      ).result;
      await peer.waitForMessage(({ params }) => params?.update?.sessionUpdate === "usage_update");
      assert.deepEqual(getOutputs(peer), ["ran", "they said blue", "nobody"]);
      assert.equal(executedCalls.length, 1);
      // From here on the client rejects requests, so its user cannot answer.
      peer.onRequest = undefined;
      const run = await agent.run({ message: "y", sessionId: session });
      await run.result;
      const toolMessages = (await agent.sessions.messages(session)).filter(({ role }) => role === "tool").slice(3);
      const texts = toolMessages.map(({ parts }) => parts.map((part) => ("text" in part ? part.text : "")).join(""));
      assert.match(texts[0]!, /no client could answer/);
      assert.deepEqual(texts.slice(1), ["nobody", "nobody"]);
      assert.equal(executedCalls.length, 1);
      peer.assertNoValidationErrors();
    });

    it("wait for a client that loads the session later, but not for a client that cannot answer", async (t) => {
      const { path: cwd } = await tempDir(t);
      const openDriver = await createStore(t);
      const { agent, executedCalls } = createAgent(t, openDriver());
      const peer = await connectClient(t, agent, "zed", chooseAllowOrBlue);
      await peer.newSession(cwd);
      const askOpened = new Promise<void>((resolve) => agent.on("ask.opened", () => resolve()));
      const { id } = await agent.sessions.create({ projectDir: cwd });
      const run = await agent.run({ message: "x", sessionId: id, mode: "ask" });
      await askOpened;
      await peer.request("session/load", { sessionId: id, cwd });
      await run.result;
      assert.equal(executedCalls.length, 1);
      // From here on the client answers every request with "method not found". Runs do not wait for such a client.
      peer.onRequest = undefined;
      await (
        await agent.run({ message: "y", sessionId: id })
      ).result;
      const secondSession = await agent.sessions.create({ projectDir: cwd });
      await (
        await agent.run({ message: "z", sessionId: secondSession.id, mode: "ask" })
      ).result;
      assert.equal(executedCalls.length, 1);
    });

    it("wait for a client while it loads the session", async (t) => {
      const { path: cwd } = await tempDir(t);
      const driver = (await createStore(t))();
      const readGate = createGate();
      let blockedSessionId = "";
      const slowDriver = new Proxy(driver, {
        get: (target, member) => {
          const value: unknown = Reflect.get(target, member, target);
          if (typeof value !== "function") return value;
          return async (...args: unknown[]): Promise<unknown> => {
            if (member === "messages" && args[0] === blockedSessionId) await readGate.wait();
            return (await Reflect.apply(value, target, args)) as unknown;
          };
        },
      });
      const { agent, executedCalls } = createAgent(t, slowDriver);
      const peer = await connectClient(t, agent, "zed", chooseAllowOrBlue);
      const { id } = await agent.sessions.create({ projectDir: cwd });
      blockedSessionId = id;
      const loadResult = peer.request("session/load", { sessionId: id, cwd });
      await readGate.firstWait;
      const askOpened = new Promise<void>((resolve) => agent.on("ask.opened", () => resolve()));
      const run = await agent.run({ message: "x", sessionId: id, mode: "ask" });
      await Promise.race([askOpened, run.result]);
      readGate.open();
      await loadResult;
      await run.result;
      assert.equal(executedCalls.length, 1);
    });

    it("run no tool if the reply has an option that the permission request did not offer", async (t) => {
      const { path: cwd } = await tempDir(t);
      const openDriver = await createStore(t);
      const { agent, executedCalls } = createAgent(t, openDriver());
      const otherProcess = createAgent(t, openDriver());
      // The reply is checked independently of the store, so that one store is enough for all invalid options.
      const optionIds = name === "sqlite" ? ["allow", "yes", "", "no_answer"] : ["allow"];
      for (const optionId of optionIds) {
        const peer = await connectClient(t, agent, "zed", () => optionId);
        const session = await peer.newSession(cwd);
        await peer.request("session/load", { sessionId: session, cwd });
        await waitUntilWatching(peer, session, otherProcess.agent);
        await (
          await agent.run({ message: "x", sessionId: session, mode: "ask" })
        ).result;
        assert.ok(peer.requests.length > 0);
        // Otherwise the next run waits for this client.
        await peer.connection.close();
      }
      assert.deepEqual(executedCalls, []);
    });
  });
