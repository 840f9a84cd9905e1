import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { echo, scriptedAgent } from "../../helpers/acp-agent.js";
import { HttpPeer, serveHttp } from "../../helpers/acp-http.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir } from "../../helpers/temp.js";
import { seedOf } from "../../helpers/random.js";

const list = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "session/list" });
const isUpdate = (message: Json) => message.method === "session/update";

describe("ACP over HTTP with parallel and mutated requests", () => {
  it("two connections with equal request ids and 20 sessions each receive only their own updates", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [], { provider: { fallback: echo } });
    const { url } = await serveHttp(t, agent);
    await Promise.all(
      [0, 1].map(async (p) => {
        const peer = new HttpPeer(url);
        await peer.open();
        await peer.stream();
        const sessions = await Promise.all(Array.from({ length: 20 }, () => peer.newSession(cwd)));
        // Half of the sessions have a stream of their own.
        await Promise.all(sessions.slice(0, 10).map((session) => peer.stream(session)));
        await Promise.all(sessions.map((session, s) => peer.prompt(session, `${p}-${s}`)));
        for (const [s, session] of sessions.entries()) assert.equal(peer.text(session), `echo ${p}-${s}`);
        const updates = peer.received.filter(isUpdate);
        assert.ok(updates.every(({ params }) => sessions.includes(params.sessionId)));
        peer.assertClean();
      }),
    );
  });

  it("answers 120 mutated bodies with 202 or 400 and keeps serving requests", async (t) => {
    const seed = seedOf();
    t.diagnostic(`seed ${seed}`);
    let state = seed;
    const random = (below: number) => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    await peer.stream();
    for (let i = 0; i < 120; i += 1) {
      const at = random(list.length);
      const piece = ['"', "{", "}", "[", ",", "0", "null", "\\", "é", "\u0000"][random(10)]!;
      const { status, json } = await peer.post(list.slice(0, at) + piece + list.slice(at + random(5)));
      assert.ok(status === 202 || (status === 400 && json.error.code < 0), String(status));
    }
    assert.ok(await peer.request("session/list", {}, "after"));
  });
});
