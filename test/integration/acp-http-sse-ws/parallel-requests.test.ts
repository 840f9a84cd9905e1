import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { echoLastMessage, createScriptedAgent } from "../../helpers/acp-agent.js";
import { HttpPeer, startAcpHttp } from "../../helpers/acp-http.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { readSeed } from "../../helpers/random.js";

const LIST_REQUEST = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "session/list" });
const isUpdate = (message: Json) => message.method === "session/update";

describe("ACP over HTTP with parallel and mutated requests", () => {
  it("two connections with equal request ids and 20 sessions each receive only their own updates", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [], { provider: { fallback: echoLastMessage } });
    const { url } = await startAcpHttp(t, agent);
    await Promise.all(
      [0, 1].map(async (peerIndex) => {
        const peer = new HttpPeer(url);
        await peer.open();
        await peer.openStream();
        const sessions = await Promise.all(Array.from({ length: 20 }, () => peer.newSession(cwd)));
        // Half of the sessions have their own stream.
        await Promise.all(sessions.slice(0, 10).map((session) => peer.openStream(session)));
        await Promise.all(
          sessions.map((session, sessionIndex) => peer.prompt(session, `${peerIndex}-${sessionIndex}`)),
        );
        for (const [sessionIndex, session] of sessions.entries())
          assert.equal(peer.getText(session), `echo ${peerIndex}-${sessionIndex}`);
        const updates = peer.receivedMessages.filter(isUpdate);
        assert.ok(updates.every(({ params }) => sessions.includes(params.sessionId)));
        peer.assertNoValidationErrors();
      }),
    );
  });

  it("returns 202 or 400 for 120 mutated bodies and keeps serving requests", async (t) => {
    const seed = readSeed();
    t.diagnostic(`seed ${seed}`);
    // A linear congruential generator.
    let state = seed;
    const random = (limit: number) => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) % limit;
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    await peer.openStream();
    for (let i = 0; i < 120; i += 1) {
      const offset = random(LIST_REQUEST.length);
      const replacement = ['"', "{", "}", "[", ",", "0", "null", "\\", "é", "\u0000"][random(10)]!;
      const { status, json } = await peer.post(
        LIST_REQUEST.slice(0, offset) + replacement + LIST_REQUEST.slice(offset + random(5)),
      );
      assert.ok(status === 202 || (status === 400 && json.error.code < 0), String(status));
    }
    assert.ok(await peer.request("session/list", {}, "after"));
  });
});
