import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { silentLogger, type Agent } from "gantry";
import { AcpStdioTransport } from "../../../adapters/acp-stdio/index.js";
import { ACP_DEFAULTS, type AcpOptions, type Profile } from "../../../adapters/acp-shared/index.js";
import { createScriptedAgent } from "../../helpers/acp-agent.js";
import { AcpPeer, type Json } from "../../helpers/acp-peer.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Starts a transport on two pipes and connects a client. */
async function connectPipes(agent: Agent, options: Partial<AcpOptions> = {}) {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const transport = new AcpStdioTransport({ ...ACP_DEFAULTS, ...options }, silentLogger, { input, output });
  const listening = await transport.start(agent);
  const profile = options.profile === "official" ? "official" : "spec";
  const peer = new AcpPeer((text) => void input.write(`${text}\n`), profile);
  let incompleteLine = "";
  output.setEncoding("utf8");
  output.on("data", (text: string) => {
    const lines = (incompleteLine + text).split("\n");
    incompleteLine = lines.pop() ?? "";
    // Parsing fails unless each line is one JSON message.
    for (const line of lines) peer.receiveMessage(JSON.parse(line) as Json);
  });
  return { input, output, listening, peer };
}

/** Updates that belong to no request. They arrive whenever the session data changes. */
const SESSION_DATA_UPDATES = new Set(["session_info_update", "config_option_update", "available_commands_update"]);
const isSessionDataUpdate = ({ params }: Json) => SESSION_DATA_UPDATES.has(params?.update?.sessionUpdate);

const INITIALIZE_REQUEST = '{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}';

describe("line framing over stdio", () => {
  it("ends a message at LF only, ignores empty lines, and accepts a last line without LF", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { input, peer, listening } = await connectPipes(agent);
    input.write(`\n\r\n   \n${INITIALIZE_REQUEST}\r\n\n`);
    await peer.waitForMessage((message) => message.id === "i");
    input.write('{"jsonrpc":"2.0","id":"a\u2028b\u2029c\u0085d","method":"session/list"}\n');
    await peer.waitForMessage((message) => message.id === "a\u2028b\u2029c\u0085d");
    input.end('{"jsonrpc":"2.0","id":"last","method":"session/list"}');
    await listening.ended;
    assert.deepEqual(
      peer.receivedMessages.map(({ id }) => id),
      ["i", "a\u2028b\u2029c\u0085d", "last"],
    );
    peer.assertNoValidationErrors();
  });

  it("decodes UTF-8 that arrives byte by byte", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, ["ok"]);
    const { input, peer } = await connectPipes(agent);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const prompt = { sessionId: session, prompt: [{ type: "text", text: "grüß 🌍 日本" }] };
    const response = peer.waitForNext((message) => message.id === "p");
    const bytes = Buffer.from(
      `${JSON.stringify({ jsonrpc: "2.0", id: "p", method: "session/prompt", params: prompt })}\n`,
    );
    for (const byte of bytes) input.write(Buffer.from([byte]));
    await response;
    assert.deepEqual((await agent.sessions.messages(session))[0]?.parts, [{ type: "text", text: "grüß 🌍 日本" }]);
  });

  it("rejects invalid UTF-8 with -32700 and a line above the limit with -32600, with id null; stays usable", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { input, peer } = await connectPipes(agent, { frameBytes: 1024 });
    input.write(Buffer.from([0x22, 0xff, 0x22, 0x0a]));
    assert.equal((await peer.waitForMessage((message) => message.id === null)).error.code, -32700);
    input.write(`${"x".repeat(700)}`);
    input.write(`${"x".repeat(700)}\n`);
    assert.equal((await peer.waitForMessage((message) => message.error?.code === -32600)).id, null);
    assert.ok(await peer.initialize());
    peer.assertNoValidationErrors();
  });

  it("rejects a line of 66 MiB and retains less than 4 MiB of the line", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { input, peer } = await connectPipes(agent);
    const chunkReferences: WeakRef<ArrayBufferLike>[] = [];
    for (let i = 0; i < 66; i += 1) {
      const chunk = Buffer.alloc(1024 * 1024, 0x61);
      chunkReferences.push(new WeakRef(chunk.buffer));
      if (!input.write(chunk)) await new Promise((resolve) => setImmediate(resolve));
    }
    await new Promise((resolve) => setImmediate(resolve));
    setFlagsFromString("--expose-gc");
    (runInNewContext("gc") as () => void)();
    const retainedChunks = chunkReferences.filter((chunk) => chunk.deref() !== undefined).length;
    assert.ok(retainedChunks < 4, `${retainedChunks} MiB`);
    input.write("\n");
    assert.equal((await peer.waitForMessage((message) => message.error !== undefined)).error.code, -32600);
    assert.ok(await peer.initialize());
  });

  it("accepts a message of 5 MB", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t);
    const { peer } = await connectPipes(agent);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    await peer.prompt(session, "x".repeat(5_000_000));
    assert.equal(JSON.stringify((await agent.sessions.messages(session))[0]).length > 5_000_000, true);
  });
});

describe("end of the stdio connection", () => {
  it("finishes pending requests and sends their responses when stdin ends", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [[50, { type: "text", block: "t", text: "slowly" }]]);
    const { input, peer, listening } = await connectPipes(agent);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const result = peer.prompt(session, "x");
    input.end();
    assert.deepEqual(await result, { stopReason: "end_turn" });
    assert.equal(peer.getText(session), "slowly");
    await listening.ended;
    peer.assertNoValidationErrors();
  });

  it("cancels an unfinished prompt on stop, which can be called twice", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [{ hang: true }]);
    const { peer, listening } = await connectPipes(agent);
    await peer.initialize();
    const result = peer.prompt(await peer.newSession(cwd), "x");
    await Promise.all([listening.stop(AbortSignal.abort()), listening.stop(AbortSignal.abort())]);
    assert.deepEqual(await result, { stopReason: "cancelled" });
    await listening.ended;
  });

  it("cancels the run when stdout closes", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half" }], hang: true }]);
    const { output, peer, listening } = await connectPipes(agent);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const runFailed = new Promise((resolve) => agent.on("run.failed", resolve));
    peer.notify("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] });
    await peer.waitForMessage((message) => message.method === "session/update");
    output.destroy(Object.assign(new Error("EPIPE"), { code: "EPIPE" }));
    await Promise.all([runFailed, listening.ended]);
  });

  it("does not lose text of a slow reader: all 3,000,000 characters arrive in fewer than 300 updates", async (t) => {
    const { path: cwd } = await tempDir(t);
    const chunkText = "x".repeat(10_000);
    const chunks = Array.from({ length: 300 }, () => ({ type: "text" as const, block: "t", text: chunkText }));
    const { agent } = createScriptedAgent(t, [chunks]);
    const { output, peer } = await connectPipes(agent);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const runFinished = new Promise((resolve) => agent.on("run.finished", resolve));
    const result = peer.prompt(session, "x");
    output.pause();
    await runFinished;
    output.resume();
    await result;
    assert.equal(peer.getText(session).length, 3_000_000);
    assert.ok(peer.getUpdates(session).length < 300);
  });
});

for (const profile of ["spec", "official"] satisfies Profile[]) {
  describe(`requirements of the official ACP test kit (profile ${profile})`, () => {
    it("responses repeat string and integer ids and have either result or error; notifications have no response", async (t) => {
      const { agent } = createScriptedAgent(t);
      const { peer } = await connectPipes(agent, { profile });
      for (const id of [7, "seven"])
        assert.equal((await peer.call("initialize", { protocolVersion: 65535 }, id)).result.protocolVersion, 1);
      const messageCount = peer.receivedMessages.length;
      peer.notify("session/cancel", { sessionId: "none" });
      peer.notify("_whatever", {});
      assert.equal((await peer.call("_x", {})).error?.code, -32601);
      assert.equal(peer.receivedMessages.length, messageCount + 1);
      peer.assertNoValidationErrors();
    });

    it("updates belong to the prompted session, none follow a cancelled result, and an error ends no session", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = createScriptedAgent(t, [
        "one",
        { chunks: [{ type: "text", block: "t", text: "…" }], hang: true },
        { chunks: [{ type: "text", block: "t", text: "…" }], hang: true },
      ]);
      const { peer } = await connectPipes(agent, { profile });
      await peer.initialize();
      const [sessionA, sessionB] = [await peer.newSession(cwd), await peer.newSession(cwd)];
      assert.notEqual(sessionA, sessionB);
      const prompt = [
        { type: "text", text: "hi" },
        { type: "image", data: "aGk=", mimeType: "image/png" },
      ];
      assert.equal((await peer.request("session/prompt", { sessionId: sessionA, prompt })).stopReason, "end_turn");
      assert.equal(peer.getUpdates(sessionB).length, 0);
      assert.ok((await peer.call("session/prompt", { sessionId: "none", prompt })).error);
      for (const method of ["session/cancel", "session/close"]) {
        const updateCount = peer.getUpdates(sessionB).length;
        const result = peer.prompt(sessionB, "go");
        while (peer.getUpdates(sessionB).length === updateCount)
          await peer.waitForNext((message) => message.method === "session/update");
        const endRequest =
          method === "session/close"
            ? peer.request(method, { sessionId: sessionB })
            : peer.notify(method, { sessionId: sessionB });
        assert.deepEqual(await result, { stopReason: "cancelled" });
        await endRequest;
        const messageCount = peer.receivedMessages.filter((message) => !isSessionDataUpdate(message)).length;
        await peer.request("session/list", {});
        const laterCount = peer.receivedMessages.filter((message) => !isSessionDataUpdate(message)).length;
        assert.equal(laterCount, messageCount + 1, "no update follows the result");
      }
      peer.assertNoValidationErrors();
    });

    it("session/load replays before its response, session/resume sends no history, and the end of stdin ends the transport", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = createScriptedAgent(t, ["one"]);
      const { peer, input, listening } = await connectPipes(agent, { profile });
      await peer.initialize();
      const session = await peer.newSession(cwd);
      await peer.prompt(session, "hi");
      await peer.waitForMessage((message) => message.params?.update?.sessionUpdate === "session_info_update");
      let messageCount = peer.receivedMessages.length;
      const loadResponse = await peer.call("session/load", { sessionId: session, cwd, mcpServers: [] });
      const replayedUpdates = peer.receivedMessages
        .slice(messageCount, peer.receivedMessages.indexOf(loadResponse))
        .filter((message) => !isSessionDataUpdate(message));
      assert.deepEqual(
        replayedUpdates.map(({ params }) => params.update.content.text),
        ["hi", "one"],
      );
      await peer.waitForMessage((message) => message.params?.update?.sessionUpdate === "config_option_update");
      messageCount = peer.receivedMessages.length;
      await peer.request("session/resume", { sessionId: session, cwd, mcpServers: [] });
      assert.deepEqual((await peer.request("session/list", { cwd: "/nowhere" })).sessions, []);
      assert.ok((await peer.request("session/list", { cwd })).sessions.length > 0);
      const messagesSinceResume = peer.receivedMessages
        .slice(messageCount)
        .filter((message) => "method" in message && !isSessionDataUpdate(message));
      assert.deepEqual(messagesSinceResume, []);
      await peer.request("session/delete", { sessionId: session });
      assert.deepEqual((await peer.request("session/list", { cwd })).sessions, []);
      input.end();
      await listening.ended;
      peer.assertNoValidationErrors();
    });
  });
}
