import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MemoryAcp, scriptedAgent } from "../../helpers/acp-agent.js";
import { tempDir } from "../../helpers/temp.js";
import { seedOf } from "../../helpers/random.js";

describe("mutated ACP frames", () => {
  it("leave the connection usable: session/list succeeds after 600 of them", async (t) => {
    const seed = seedOf();
    t.diagnostic(`seed ${seed}`);
    let state = seed;
    const random = (below: number) => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t);
    const peer = new MemoryAcp(t, agent).connect();
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
    for (let i = 0; i < 600; i += 1) {
      let frame = frames[random(frames.length)]!;
      for (let n = random(4) + 1; n > 0; n -= 1) {
        const at = random(frame.length);
        const piece = [
          '"',
          "{",
          "}",
          "[",
          "]",
          ",",
          ":",
          "0",
          "null",
          "\\",
          "\u0000",
          "é",
          frame.slice(random(at + 1), at),
        ][random(13)]!;
        frame = frame.slice(0, at) + piece + frame.slice(at + random(6));
      }
      peer.raw(frame);
    }
    await peer.connection.waitForIdle();
    assert.ok((await peer.request("session/list", {})).sessions.length > 0);
    peer.assertClean();
  });
});
