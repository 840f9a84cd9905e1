import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, defineTool, silentLogger } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { MemoryAcp, testTool } from "../../helpers/acp-agent.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

const named = (name: string) => ({ clientInfo: { name, version: "1" } });
const diff = [{ path: "/p/a", oldText: "x", newText: "y" }];

/** An agent on a store, with a tool that needs permission and a tool that asks a question. */
function processOn(t: Hooks, driver: SessionDriver, unattended: "reject" | "wait" = "reject") {
  const ran: unknown[] = [];
  const risky = testTool("risky", (args) => (ran.push(args), { text: "ran" }), {
    needsPermission: true,
    kind: "edit",
    describe: () => ({ title: "Change a", locations: [{ path: "/p/a" }], diff }),
  });
  const inquire = defineTool({
    name: "inquire",
    description: "Asks.",
    needsPermission: false,
    run: async (_, { askUser: question }) => {
      const reply = await question({ title: "Which?\u0007", choices: ["red", "blue"], freeText: true });
      return reply === undefined ? "nobody" : `they said ${reply}`;
    },
  });
  const open = defineTool({
    name: "open",
    description: "Asks for a text.",
    needsPermission: false,
    run: async (_, { askUser: question }) => (await question({ title: "Why?" })) ?? "nobody",
  });
  const script = Array.from({ length: 20 }, (_, n) =>
    n % 2 ? "end" : callTools(["risky", { n }], ["inquire", {}], ["open", {}]),
  );
  const agent = new Agent({
    providers: [new ScriptedProvider(script)],
    driver,
    tools: [risky, inquire, open],
    logger: silentLogger,
    unattended,
    clientGraceSeconds: 0,
  });
  t.after(() => agent.close());
  return { agent, ran };
}

/** Connects a client. `answer` returns the option that its user chooses. Undefined: the user does not answer. */
async function client(
  t: Hooks,
  agent: Agent,
  name: string,
  answer: (params: Json) => string | undefined,
  options = {},
): Promise<ReturnType<MemoryAcp["connect"]> & { requests: Json[] }> {
  const peer = Object.assign(new MemoryAcp(t, agent, options).connect(), { requests: [] as Json[] });
  peer.profile = "official";
  peer.onRequest = (method, params) => {
    assert.equal(method, "session/request_permission");
    peer.requests.push(params);
    const optionId = answer(params);
    return optionId === undefined ? undefined : { outcome: { outcome: "selected", optionId } };
  };
  await peer.initialize(named(name));
  return peer;
}

const outputs = (peer: AcpPeer): string[] =>
  peer.updates().flatMap(({ rawOutput }) => (rawOutput === undefined ? [] : [rawOutput]));

/**
 * Waits until the client watches the session. Only then does it receive changes of another process, and only then can
 * its user be asked.
 */
async function watches(peer: AcpPeer, session: string, otherProcess: Agent): Promise<void> {
  await otherProcess.sessions.update(session, { title: "watched" });
  await peer.seen(({ params }) => params?.update?.title === "watched");
}

const choose = ({ toolCall }: Json) => (toolCall.title === "Change a" ? "allow_once" : "2");

for (const [name, make] of STORES)
  describe(`asks with several ACP clients (${name})`, { concurrency: 4 }, () => {
    for (const location of ["this process", "another process"] as const)
      it(`the first answer (from ${location}) counts, and the other client receives $/cancel_request`, async (t) => {
        const { path: cwd } = await tempDir(t);
        const driver = await make(t);
        const first = processOn(t, driver());
        const secondProcess = location === "this process" ? first : processOn(t, driver());
        const firstPeer = await client(t, first.agent, "zed", () => undefined, { requestPermission: true });
        const secondPeer = await client(t, secondProcess.agent, "JetBrains.\u001b[0m", choose, {
          requestPermission: true,
        });
        const session = await firstPeer.newSession(cwd);
        await secondPeer.request("session/load", { sessionId: session, cwd });
        const result = firstPeer.prompt(session, "x");
        assert.deepEqual(await result, { stopReason: "end_turn" });
        assert.deepEqual(outputs(firstPeer), ["ran", "they said blue", "nobody"]);
        assert.equal(first.ran.length, 1);
        // Both clients were asked, and the slower client is notified of the end.
        assert.equal(firstPeer.requests.length, 2);
        const cancels = firstPeer.received.filter(({ method }) => method === "$/cancel_request");
        assert.equal(cancels.length, 2);
        const [permission, question] = secondPeer.requests;
        assert.deepEqual(firstPeer.requests, secondPeer.requests, "in the same words");
        assert.deepEqual(permission.toolCall.content, [{ type: "diff", ...diff[0] }]);
        assert.deepEqual(permission.toolCall.locations, [{ path: "/p/a" }]);
        assert.deepEqual(
          question.options.map(({ optionId, name: shown, kind }: Json) => [optionId, shown, kind]),
          [
            ["1", "red", "allow_once"],
            ["2", "blue", "allow_once"],
            ["no_answer", "No answer", "reject_once"],
          ],
        );
        assert.equal(question.toolCall.title, "Which?\\u0007");
        assert.match(question.toolCall.content[0].content.text, /free text requires the HTTP API/);
        // Both clients are shown the call before the request.
        for (const peer of [firstPeer, secondPeer]) {
          const at = peer.received.findIndex(({ method }) => method === "session/request_permission");
          const call = peer.received.findIndex(
            ({ params }) => params?.update?.toolCallId === peer.requests[0].toolCall.toolCallId,
          );
          assert.ok(call >= 0 && call < at);
          peer.assertClean();
        }
        const stored = await first.agent.sessions.get(session);
        const asks = await first.agent.asks.list({ sessionId: stored!.id });
        assert.deepEqual(
          asks.map(({ kind, state, answeredBy }) => [kind, state, answeredBy]),
          [
            // The user of this client can choose an option but cannot type a text.
            ["question", "withdrawn", ""],
            ["question", "answered", "acp:JetBrains.\\e[0m"],
            ["permission", "answered", "acp:JetBrains.\\e[0m"],
          ],
        );
      });

    it("a run started elsewhere in mode ask asks the client that loaded the session, or is denied if it cannot answer", async (t) => {
      const { path: cwd } = await tempDir(t);
      const driver = await make(t);
      const { agent, ran } = processOn(t, driver());
      const otherProcess = processOn(t, driver());
      const peer = await client(t, agent, "zed", choose);
      const session = await peer.newSession(cwd);
      await peer.request("session/load", { sessionId: session, cwd });
      await watches(peer, session, otherProcess.agent);
      await (
        await agent.run({ message: "x", sessionId: session, mode: "ask" })
      ).result;
      await peer.seen(({ params }) => params?.update?.sessionUpdate === "usage_update");
      assert.deepEqual(outputs(peer), ["ran", "they said blue", "nobody"]);
      assert.equal(ran.length, 1);
      // From now on the client cannot show requests, so its user is not asked.
      peer.onRequest = undefined;
      const run = await agent.run({ message: "y", sessionId: session });
      await run.result;
      const toolMessages = (await agent.sessions.messages(session)).filter(({ role }) => role === "tool").slice(3);
      const texts = toolMessages.map(({ parts }) => parts.map((part) => ("text" in part ? part.text : "")).join(""));
      assert.match(texts[0]!, /no client could answer/);
      assert.deepEqual(texts.slice(1), ["nobody", "nobody"]);
      assert.equal(ran.length, 1);
      peer.assertClean();
    });

    it("a permission request waits for a client that loads the session later, but not for one that cannot answer", async (t) => {
      const { path: cwd } = await tempDir(t);
      const driver = await make(t);
      const { agent, ran } = processOn(t, driver());
      const peer = await client(t, agent, "zed", choose);
      await peer.newSession(cwd);
      const opened = new Promise<void>((resolve) => agent.on("ask.opened", () => resolve()));
      const { id } = await agent.sessions.create({ projectDir: cwd });
      const run = await agent.run({ message: "x", sessionId: id, mode: "ask" });
      await opened;
      await peer.request("session/load", { sessionId: id, cwd });
      await run.result;
      assert.equal(ran.length, 1);
      // This client answers every request with "method not found", so it receives no requests of sessions that another
      // client has open.
      peer.onRequest = undefined;
      await (
        await agent.run({ message: "y", sessionId: id })
      ).result;
      const second = await agent.sessions.create({ projectDir: cwd });
      await (
        await agent.run({ message: "z", sessionId: second.id, mode: "ask" })
      ).result;
      assert.equal(ran.length, 1);
    });

    it("a reply with an option that the permission request did not offer runs no tool", async (t) => {
      const { path: cwd } = await tempDir(t);
      const driver = await make(t);
      const { agent, ran } = processOn(t, driver());
      const otherProcess = processOn(t, driver());
      const optionIds = name === "sqlite" ? ["allow", "yes", "", "no_answer"] : ["allow"];
      for (const optionId of optionIds) {
        const peer = await client(t, agent, "zed", () => optionId);
        const session = await peer.newSession(cwd);
        await peer.request("session/load", { sessionId: session, cwd });
        await watches(peer, session, otherProcess.agent);
        await (
          await agent.run({ message: "x", sessionId: session, mode: "ask" })
        ).result;
        assert.ok(peer.requests.length > 0);
        // Otherwise the next run waits for this client.
        await peer.connection.close();
      }
      assert.deepEqual(ran, []);
    });
  });
