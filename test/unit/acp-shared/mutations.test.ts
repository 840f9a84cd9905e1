import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { InProcessAcp, createScriptedAgent } from "../../helpers/acp-agent.js";
import { mutateText } from "../../helpers/mutations.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { createRandom, readSeed } from "../../helpers/random.js";

describe("mutated ACP frames", () => {
  it("leave the connection usable: session/list succeeds after 600 mutated frames", async (t) => {
    const seed = readSeed();
    t.diagnostic(`seed ${seed}`);
    const random = createRandom(seed);
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t);
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const frames = [
      {
        jsonrpc: "2.0",
        id: 900,
        method: "session/prompt",
        params: { sessionId: session, prompt: [{ type: "text", text: "hi" }] },
      },
      { jsonrpc: "2.0", id: 901, method: "session/load", params: { sessionId: session, cwd, mcpServers: [] } },
      { jsonrpc: "2.0", id: 902, method: "session/list", params: { cwd, cursor: "" } },
      { jsonrpc: "2.0", id: 903, method: "initialize", params: { protocolVersion: 1, clientInfo: { name: "x" } } },
      { jsonrpc: "2.0", method: "$/cancel_request", params: { requestId: 900 } },
      { jsonrpc: "2.0", id: "gantry-1", result: { outcome: { outcome: "cancelled" } } },
    ].map((frame) => JSON.stringify(frame));
    for (let i = 0; i < 600; i += 1) peer.sendText(mutateText(random, frames[i % frames.length] ?? "").toString());
    await peer.connection.waitForIdle();
    assert.ok((await peer.request("session/list", {})).sessions.length > 0);
    peer.assertNoValidationErrors();
  });
});
