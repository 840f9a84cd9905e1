import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { silentLogger, type Agent } from "gantry";
import { AcpStdioTransport } from "../../../adapters/acp-stdio/index.js";
import { ACP_DEFAULTS, type AcpOptions, type Profile } from "../../../adapters/acp-shared/index.js";
import { scriptedAgent } from "../../helpers/acp-agent.js";
import { AcpPeer, type Json } from "../../helpers/acp-peer.js";
import { tempDir } from "../../helpers/temp.js";

/** A client over two pipes. */
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
    // Each line must be one JSON message, otherwise parsing fails here.
    for (const line of lines) peer.take(JSON.parse(line) as Json);
  });
  return { input, output, listening, peer };
}

/** Updates that belong to no request. They arrive whenever the session data changes. */
const NEWS = new Set(["session_info_update", "config_option_update", "available_commands_update"]);
const isNews = ({ params }: Json) => NEWS.has(params?.update?.sessionUpdate);

const initialize = '{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}';

describe("line framing over stdio", () => {
  it("ends a message at LF only, ignores empty lines, and accepts a last line without LF", async (t) => {
    const { agent } = scriptedAgent(t);
    const { input, peer, listening } = await connectPipes(agent);
    input.write(`\n\r\n   \n${initialize}\r\n\n`);
    await peer.seen((message) => message.id === "i");
    input.write('{"jsonrpc":"2.0","id":"a\u2028b\u2029c\u0085d","method":"session/list"}\n');
    await peer.seen((message) => message.id === "a\u2028b\u2029c\u0085d");
    input.end('{"jsonrpc":"2.0","id":"last","method":"session/list"}');
    await listening.ended;
    assert.deepEqual(
      peer.received.map(({ id }) => id),
      ["i", "a\u2028b\u2029c\u0085d", "last"],
    );
    peer.assertClean();
  });

  it("decodes UTF-8 that arrives byte by byte", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, ["ok"]);
    const { input, peer } = await connectPipes(agent);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const prompt = { sessionId: session, prompt: [{ type: "text", text: "grüß 🌍 日本" }] };
    const answer = peer.next((message) => message.id === "p");
    const bytes = Buffer.from(
      `${JSON.stringify({ jsonrpc: "2.0", id: "p", method: "session/prompt", params: prompt })}\n`,
    );
    for (const byte of bytes) input.write(Buffer.from([byte]));
    await answer;
    assert.deepEqual((await agent.sessions.messages(session))[0]?.parts, [{ type: "text", text: "grüß 🌍 日本" }]);
  });

  it("answers invalid UTF-8 with -32700 and a line above the limit with -32600, both with id null; stays usable", async (t) => {
    const { agent } = scriptedAgent(t);
    const { input, peer } = await connectPipes(agent, { frameBytes: 1024 });
    input.write(Buffer.from([0x22, 0xff, 0x22, 0x0a]));
    assert.equal((await peer.seen((message) => message.id === null)).error.code, -32700);
    input.write(`${"x".repeat(700)}`);
    input.write(`${"x".repeat(700)}\n`);
    assert.equal((await peer.seen((message) => message.error?.code === -32600)).id, null);
    assert.ok(await peer.initialize());
    peer.assertClean();
  });

  it("rejects a line of 66 MiB and retains less than 4 MiB of it", async (t) => {
    const { agent } = scriptedAgent(t);
    const { input, peer } = await connectPipes(agent);
    const memory: WeakRef<ArrayBufferLike>[] = [];
    for (let i = 0; i < 66; i += 1) {
      const chunk = Buffer.alloc(1024 * 1024, 0x61);
      memory.push(new WeakRef(chunk.buffer));
      if (!input.write(chunk)) await new Promise((resolve) => setImmediate(resolve));
    }
    await new Promise((resolve) => setImmediate(resolve));
    setFlagsFromString("--expose-gc");
    (runInNewContext("gc") as () => void)();
    const retainedChunks = memory.filter((chunk) => chunk.deref() !== undefined).length;
    assert.ok(retainedChunks < 4, `${retainedChunks} MiB`);
    input.write("\n");
    assert.equal((await peer.seen((message) => message.error !== undefined)).error.code, -32600);
    assert.ok(await peer.initialize());
  });

  it("accepts a message of 5 MB", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t);
    const { peer } = await connectPipes(agent);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    await peer.prompt(session, "x".repeat(5_000_000));
    assert.equal(JSON.stringify((await agent.sessions.messages(session))[0]).length > 5_000_000, true);
  });
});

describe("end of the stdio connection", () => {
  it("requests in flight when stdin ends are finished and answered", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [[50, { type: "text", block: "t", text: "slowly" }]]);
    const { input, peer, listening } = await connectPipes(agent);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const result = peer.prompt(session, "x");
    input.end();
    assert.deepEqual(await result, { stopReason: "end_turn" });
    assert.equal(peer.text(session), "slowly");
    await listening.ended;
    peer.assertClean();
  });

  it("stop cancels an unfinished prompt and can be called twice", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [{ hang: true }]);
    const { peer, listening } = await connectPipes(agent);
    await peer.initialize();
    const result = peer.prompt(await peer.newSession(cwd), "x");
    await Promise.all([listening.stop(AbortSignal.abort()), listening.stop(AbortSignal.abort())]);
    assert.deepEqual(await result, { stopReason: "cancelled" });
    await listening.ended;
  });

  it("a closed stdout ends the connection and the run", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half" }], hang: true }]);
    const { output, peer, listening } = await connectPipes(agent);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const failed = new Promise((resolve) => agent.on("run.failed", resolve));
    peer.notify("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] });
    await peer.seen((message) => message.method === "session/update");
    output.destroy(Object.assign(new Error("EPIPE"), { code: "EPIPE" }));
    await Promise.all([failed, listening.ended]);
  });

  it("a slow reader receives all 3,000,000 characters, in fewer than 300 updates", async (t) => {
    const { path: cwd } = await tempDir(t);
    const piece = "x".repeat(10_000);
    const chunks = Array.from({ length: 300 }, () => ({ type: "text" as const, block: "t", text: piece }));
    const { agent } = scriptedAgent(t, [chunks]);
    const { output, peer } = await connectPipes(agent);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const finished = new Promise((resolve) => agent.on("run.finished", resolve));
    const result = peer.prompt(session, "x");
    output.pause();
    await finished;
    output.resume();
    await result;
    assert.equal(peer.text(session).length, 3_000_000);
    assert.ok(peer.updates(session).length < 300);
  });
});

for (const profile of ["spec", "official"] satisfies Profile[]) {
  describe(`requirements of the official ACP test kit (profile ${profile})`, () => {
    it("string and integer ids are echoed with exactly one of result and error; notifications are never answered", async (t) => {
      const { agent } = scriptedAgent(t);
      const { peer } = await connectPipes(agent, { profile });
      for (const id of [7, "seven"])
        assert.equal((await peer.call("initialize", { protocolVersion: 65535 }, id)).result.protocolVersion, 1);
      const count = peer.received.length;
      peer.notify("session/cancel", { sessionId: "none" });
      peer.notify("_whatever", {});
      assert.equal((await peer.call("_x", {})).error?.code, -32601);
      assert.equal(peer.received.length, count + 1);
      peer.assertClean();
    });

    it("updates belong to the prompted session, none follow a cancelled result, and an error keeps it usable", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = scriptedAgent(t, [
        "one",
        { chunks: [{ type: "text", block: "t", text: "…" }], hang: true },
        { chunks: [{ type: "text", block: "t", text: "…" }], hang: true },
      ]);
      const { peer } = await connectPipes(agent, { profile });
      await peer.initialize();
      const [a, b] = [await peer.newSession(cwd), await peer.newSession(cwd)];
      assert.notEqual(a, b);
      const prompt = [
        { type: "text", text: "hi" },
        { type: "image", data: "aGk=", mimeType: "image/png" },
      ];
      assert.equal((await peer.request("session/prompt", { sessionId: a, prompt })).stopReason, "end_turn");
      assert.equal(peer.updates(b).length, 0);
      assert.ok((await peer.call("session/prompt", { sessionId: "none", prompt })).error);
      for (const end of ["session/cancel", "session/close"]) {
        const before = peer.updates(b).length;
        const result = peer.prompt(b, "go");
        while (peer.updates(b).length === before) await peer.next((message) => message.method === "session/update");
        const closed =
          end === "session/close" ? peer.request(end, { sessionId: b }) : peer.notify(end, { sessionId: b });
        assert.deepEqual(await result, { stopReason: "cancelled" });
        await closed;
        const count = peer.received.filter((message) => !isNews(message)).length;
        await peer.request("session/list", {});
        const later = peer.received.filter((message) => !isNews(message)).length;
        assert.equal(later, count + 1, "nothing behind the result");
      }
      peer.assertClean();
    });

    it("load replays before its answer, resume sends no history, delete removes, and the end of stdin ends it", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = scriptedAgent(t, ["one"]);
      const { peer, input, listening } = await connectPipes(agent, { profile });
      await peer.initialize();
      const session = await peer.newSession(cwd);
      await peer.prompt(session, "hi");
      await peer.seen((message) => message.params?.update?.sessionUpdate === "session_info_update");
      let mark = peer.received.length;
      const loaded = await peer.call("session/load", { sessionId: session, cwd, mcpServers: [] });
      const replayed = peer.received.slice(mark, peer.received.indexOf(loaded)).filter((message) => !isNews(message));
      assert.deepEqual(
        replayed.map(({ params }) => params.update.content.text),
        ["hi", "one"],
      );
      await peer.seen((message) => message.params?.update?.sessionUpdate === "config_option_update");
      mark = peer.received.length;
      await peer.request("session/resume", { sessionId: session, cwd, mcpServers: [] });
      assert.deepEqual((await peer.request("session/list", { cwd: "/nowhere" })).sessions, []);
      assert.ok((await peer.request("session/list", { cwd })).sessions.length > 0);
      const sinceResume = peer.received.slice(mark).filter((message) => "method" in message && !isNews(message));
      assert.deepEqual(sinceResume, []);
      await peer.request("session/delete", { sessionId: session });
      assert.deepEqual((await peer.request("session/list", { cwd })).sessions, []);
      input.end();
      await listening.ended;
      peer.assertClean();
    });
  });
}
