// ACP clients with several servers on one store.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import type { Affinity, Balancer } from "../../helpers/balancer.js";
import { say, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { lab, until } from "../../helpers/lab.js";
import { Replicas, SHARED_STORES, type SharedStore } from "../../helpers/replicas.js";
import type { Hooks } from "../../helpers/temp.js";

const UNKNOWN = "unknown Acp-Connection-Id: initialize again, then load the session";

interface Place {
  models: FakeModelServer;
  replicas: Replicas;
  balancer: Balancer;
  url: string;
}

async function place(hooks: Hooks, store: SharedStore, affinity: Affinity): Promise<Place> {
  const models = await lab(hooks, { fallback: say("Yes.") });
  const config = { server: { transports: ["koa-http-api", "acp-http-sse-ws"] } };
  const replicas = await Replicas.start(hooks, store, models, { config });
  const balancer = await replicas.balancer({ affinity });
  return { models, replicas, balancer, url: `${balancer.url}/acp` };
}

/** A client that stores the cookies that it receives and opens a stream. */
async function connect(url: string): Promise<HttpPeer> {
  const peer = new HttpPeer(url);
  const { headers } = await peer.open();
  const cookie = headers["set-cookie"]?.[0]?.split(";")[0];
  if (cookie !== undefined) peer.headers["cookie"] = cookie;
  await peer.stream();
  return peer;
}

/** Indexes of the servers that have answered since `before`. */
function servedBy(balancer: Balancer, before: readonly number[]): number[] {
  return balancer.answered.flatMap((count, index) => (count > (before[index] ?? 0) ? [index] : []));
}

const load = (peer: AcpPeer, { replicas }: Place, sessionId: string): Promise<Json> =>
  peer.request("session/load", { sessionId, cwd: replicas.projectDir, mcpServers: [] });

for (const [name, skip, open] of SHARED_STORES)
  describe(`ACP with replicas on ${name}`, { concurrency: true, skip }, () => {
    for (const affinity of ["header", "cookie"] as const)
      it(`keeps an HTTP connection on one replica by ${affinity}, and loads its session on another after a kill`, async (t) => {
        const at = await place(t, await open(), affinity);
        const { replicas, balancer, models, url } = at;
        const otherPeers = await Promise.all([connect(url), connect(url)]);
        const before = [...balancer.answered];
        const peer = await connect(url);
        models.enqueue(say("Before."));
        const session = await peer.newSession(replicas.projectDir);
        assert.deepEqual(await peer.prompt(session, "begin"), { stopReason: "end_turn" });
        const servingReplicas = servedBy(balancer, before);
        assert.equal(servingReplicas.length, 1, "one server has all of a connection");
        await Promise.all(otherPeers.map((otherPeer) => otherPeer.newSession(replicas.projectDir)));

        await replicas.down(servingReplicas[0]!, "SIGKILL");
        const lost = await peer.post(JSON.stringify({ jsonrpc: "2.0", id: 7, method: "session/list", params: {} }));
        assert.deepEqual([lost.status, lost.json.error], [404, { code: -32600, message: UNKNOWN }]);
        const again = await connect(url);
        await load(again, at, session);
        assert.equal(again.text(session), "Before.");
        assert.deepEqual(await again.prompt(session, "go on"), { stopReason: "end_turn" });
        assert.equal(again.text(session), "Before.Yes.");
        for (const client of [peer, again, ...otherPeers]) client.assertClean();
        await Promise.all([again.remove(), ...otherPeers.map((otherPeer) => otherPeer.remove())]);
        assert.deepEqual(models.violations, []);
      });

    it("returns 404 for an HTTP connection on every replica but the one that opened it", async (t) => {
      const { balancer, url } = await place(t, await open(), "none");
      const peer = new HttpPeer(url);
      await peer.open();
      const answers = await Promise.all(
        Array.from({ length: 3 }, () => peer.post(JSON.stringify({ jsonrpc: "2.0", method: "session/cancel" }))),
      );
      assert.deepEqual(answers.map(({ status }) => status).sort(), [202, 404, 404]);
      await assert.rejects(
        peer.stream().then(() => peer.stream()),
        /GET answered 404/,
      );
      assert.equal(balancer.broken, 0);
    });

    it("sends the run of another replica to a WebSocket, closes it with 1001 on drain, and loads the session elsewhere", async (t) => {
      const at = await place(t, await open(), "none");
      const { replicas, balancer, models, url } = at;
      models.enqueue({ say: [{ text: "One, " }, { gate: "two" }, { text: "two." }] });
      const first = new SocketPeer(url);
      await first.opened();
      await first.initialize();
      const session = await first.newSession(replicas.projectDir);
      const before = [...balancer.answered];
      const prompted = first.prompt(session, "count");
      await first.seen(({ method, params }) => method === "session/update" && params.update.content?.text === "One, ");

      const second = new SocketPeer(url);
      await second.opened();
      const [servingReplica] = servedBy(balancer, before);
      await second.initialize();
      await load(second, at, session);
      models.open("two");
      assert.deepEqual(await prompted, { stopReason: "end_turn" });
      while (second.text(session) !== "One, two.") await second.next(({ method }) => method === "session/update");

      await replicas.down(servingReplica!, "SIGTERM");
      assert.equal(await second.closed, 1001);
      const third = new SocketPeer(url);
      await third.opened();
      await third.initialize();
      await load(third, at, session);
      assert.equal(third.text(session), "One, two.");
      assert.deepEqual(await third.prompt(session, "go on"), { stopReason: "end_turn" });
      assert.equal(third.text(session), "One, two.Yes.");
      for (const client of [first, second, third]) client.assertClean();
      for (const client of [first, third]) client.socket.close();
      await Promise.all([first.closed, third.closed]);
      assert.deepEqual(models.violations, []);
    });

    it("loads the stored text on another replica after a kill during a prompt over WebSocket", async (t) => {
      const at = await place(t, await open(), "none");
      const { replicas, balancer, models, url } = at;
      const first = new SocketPeer(url);
      const before = [...balancer.answered];
      await first.opened();
      const [servingReplica] = servedBy(balancer, before);
      await first.initialize();
      const session = await first.newSession(replicas.projectDir);
      models.enqueue({ say: [{ text: ["Half ", "an ", "answer"] }, { stall: true }] });
      first.prompt(session, "speak").catch(() => undefined);
      // The last batch reaches the disk within 100 ms.
      const storedText = async () => {
        const { sessions } = (await (
          await replicas.at((servingReplica! + 1) % 3).fetch("/api/sessions")
        ).json()) as Json;
        const answer = await replicas.at((servingReplica! + 1) % 3).fetch(`/api/sessions/${sessions[0].id}/messages`);
        return ((await answer.json()) as Json).messages.at(-1)?.content as string;
      };
      await until(async () => (await storedText()) === "Half an answer");
      await replicas.down(servingReplica!, "SIGKILL");
      assert.equal(await first.closed, 1006);
      const second = new SocketPeer(url);
      await second.opened();
      await second.initialize();
      await load(second, at, session);
      assert.equal(second.text(session), "Half an answer");
      assert.deepEqual(await second.prompt(session, "go on"), { stopReason: "end_turn" });
      second.assertClean();
      second.socket.close();
      await second.closed;
      assert.deepEqual(models.violations, []);
    });
  });
