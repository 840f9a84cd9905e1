// ACP clients with several servers on one store.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import type { Affinity, Balancer } from "../../helpers/balancer.js";
import { textStep, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { startModelServer, waitUntil } from "../../helpers/server-runs.js";
import { Replicas, SHARED_STORES, type SharedStore } from "../../helpers/replicas.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const UNKNOWN_CONNECTION = "unknown Acp-Connection-Id: initialize again, then load the session";

interface ReplicaSetup {
  models: FakeModelServer;
  replicas: Replicas;
  balancer: Balancer;
  url: string;
}

async function startReplicas(hooks: Hooks, store: SharedStore, affinity: Affinity): Promise<ReplicaSetup> {
  const models = await startModelServer(hooks, { fallback: textStep("Yes.") });
  const config = { server: { transports: ["koa-http-api", "acp-http-sse-ws"] } };
  const replicas = await Replicas.start(hooks, store, models, { config });
  const balancer = await replicas.startBalancer({ affinity });
  return { models, replicas, balancer, url: `${balancer.url}/acp` };
}

/** A client that stores the cookies that it receives and opens a stream. */
async function connect(url: string): Promise<HttpPeer> {
  const peer = new HttpPeer(url);
  const { headers } = await peer.open();
  const cookie = headers["set-cookie"]?.[0]?.split(";")[0];
  if (cookie !== undefined) peer.headers["cookie"] = cookie;
  await peer.openStream();
  return peer;
}

/** Returns the indexes of the replicas that have answered requests since `countsBefore`. */
function findServingReplicas(balancer: Balancer, countsBefore: readonly number[]): number[] {
  return balancer.answerCounts.flatMap((count, index) => (count > (countsBefore[index] ?? 0) ? [index] : []));
}

const loadSession = (peer: AcpPeer, { replicas }: ReplicaSetup, sessionId: string): Promise<Json> =>
  peer.request("session/load", { sessionId, cwd: replicas.projectDir, mcpServers: [] });

for (const [name, skip, openStore] of SHARED_STORES)
  describe(`ACP with replicas on ${name}`, { concurrency: true, skip }, () => {
    for (const affinity of ["header", "cookie"] as const)
      it(`keeps an HTTP connection on one replica by ${affinity}, and loads its session on another replica after a kill`, async (t) => {
        const setup = await startReplicas(t, await openStore(), affinity);
        const { replicas, balancer, models, url } = setup;
        const otherPeers = await Promise.all([connect(url), connect(url)]);
        const countsBefore = [...balancer.answerCounts];
        const peer = await connect(url);
        models.enqueue(textStep("Before."));
        const sessionId = await peer.newSession(replicas.projectDir);
        assert.deepEqual(await peer.prompt(sessionId, "begin"), { stopReason: "end_turn" });
        const servingReplicas = findServingReplicas(balancer, countsBefore);
        assert.equal(servingReplicas.length, 1, "one replica serves all requests of a connection");
        await Promise.all(otherPeers.map((otherPeer) => otherPeer.newSession(replicas.projectDir)));

        await replicas.stopReplica(servingReplicas[0]!, "SIGKILL");
        const lostResponse = await peer.post(
          JSON.stringify({ jsonrpc: "2.0", id: 7, method: "session/list", params: {} }),
        );
        assert.deepEqual(
          [lostResponse.status, lostResponse.json.error],
          [404, { code: -32600, message: UNKNOWN_CONNECTION }],
        );
        const reconnectedPeer = await connect(url);
        await loadSession(reconnectedPeer, setup, sessionId);
        assert.equal(reconnectedPeer.getText(sessionId), "Before.");
        assert.deepEqual(await reconnectedPeer.prompt(sessionId, "go on"), { stopReason: "end_turn" });
        assert.equal(reconnectedPeer.getText(sessionId), "Before.Yes.");
        for (const client of [peer, reconnectedPeer, ...otherPeers]) client.assertNoValidationErrors();
        await Promise.all([
          reconnectedPeer.closeConnection(),
          ...otherPeers.map((otherPeer) => otherPeer.closeConnection()),
        ]);
        assert.deepEqual(models.violations, []);
      });

    it("returns 404 for an HTTP connection on every replica except the one that opened it", async (t) => {
      const { balancer, url } = await startReplicas(t, await openStore(), "none");
      const peer = new HttpPeer(url);
      await peer.open();
      const responses = await Promise.all(
        Array.from({ length: 3 }, () => peer.post(JSON.stringify({ jsonrpc: "2.0", method: "session/cancel" }))),
      );
      assert.deepEqual(responses.map(({ status }) => status).sort(), [202, 404, 404]);
      await assert.rejects(
        peer.openStream().then(() => peer.openStream()),
        /GET answered 404/,
      );
      assert.equal(balancer.badGatewayCount, 0);
    });

    it("sends the run of another replica to a WebSocket, closes the WebSocket with 1001 on drain, and loads the session on another replica", async (t) => {
      const setup = await startReplicas(t, await openStore(), "none");
      const { replicas, balancer, models, url } = setup;
      models.enqueue({ say: [{ text: "One, " }, { gate: "two" }, { text: "two." }] });
      const firstPeer = new SocketPeer(url);
      await firstPeer.waitUntilOpen();
      await firstPeer.initialize();
      const sessionId = await firstPeer.newSession(replicas.projectDir);
      const countsBefore = [...balancer.answerCounts];
      const promptResult = firstPeer.prompt(sessionId, "count");
      await firstPeer.waitForMessage(
        ({ method, params }) => method === "session/update" && params.update.content?.text === "One, ",
      );

      const secondPeer = new SocketPeer(url);
      await secondPeer.waitUntilOpen();
      const [servingReplica] = findServingReplicas(balancer, countsBefore);
      await secondPeer.initialize();
      await loadSession(secondPeer, setup, sessionId);
      models.openGate("two");
      assert.deepEqual(await promptResult, { stopReason: "end_turn" });
      while (secondPeer.getText(sessionId) !== "One, two.")
        await secondPeer.waitForNext(({ method }) => method === "session/update");

      await replicas.stopReplica(servingReplica!, "SIGTERM");
      assert.equal(await secondPeer.closed, 1001);
      const thirdPeer = new SocketPeer(url);
      await thirdPeer.waitUntilOpen();
      await thirdPeer.initialize();
      await loadSession(thirdPeer, setup, sessionId);
      assert.equal(thirdPeer.getText(sessionId), "One, two.");
      assert.deepEqual(await thirdPeer.prompt(sessionId, "go on"), { stopReason: "end_turn" });
      assert.equal(thirdPeer.getText(sessionId), "One, two.Yes.");
      for (const client of [firstPeer, secondPeer, thirdPeer]) client.assertNoValidationErrors();
      for (const client of [firstPeer, thirdPeer]) client.socket.close();
      await Promise.all([firstPeer.closed, thirdPeer.closed]);
      assert.deepEqual(models.violations, []);
    });

    it("loads the stored text on another replica after a kill during a prompt over WebSocket", async (t) => {
      const setup = await startReplicas(t, await openStore(), "none");
      const { replicas, balancer, models, url } = setup;
      const firstPeer = new SocketPeer(url);
      const countsBefore = [...balancer.answerCounts];
      await firstPeer.waitUntilOpen();
      const [servingReplica] = findServingReplicas(balancer, countsBefore);
      await firstPeer.initialize();
      const sessionId = await firstPeer.newSession(replicas.projectDir);
      models.enqueue({ say: [{ text: ["Half ", "an ", "answer"] }, { stall: true }] });
      firstPeer.prompt(sessionId, "speak").catch(() => undefined);
      // The last batch is stored within 100 ms.
      const readStoredText = async () => {
        const { sessions } = (await (
          await replicas.getServer((servingReplica! + 1) % 3).fetch("/api/sessions")
        ).json()) as Json;
        const response = await replicas
          .getServer((servingReplica! + 1) % 3)
          .fetch(`/api/sessions/${sessions[0].id}/messages`);
        return ((await response.json()) as Json).messages.at(-1)?.content as string;
      };
      await waitUntil(async () => (await readStoredText()) === "Half an answer");
      await replicas.stopReplica(servingReplica!, "SIGKILL");
      assert.equal(await firstPeer.closed, 1006);
      const secondPeer = new SocketPeer(url);
      await secondPeer.waitUntilOpen();
      await secondPeer.initialize();
      await loadSession(secondPeer, setup, sessionId);
      assert.equal(secondPeer.getText(sessionId), "Half an answer");
      assert.deepEqual(await secondPeer.prompt(sessionId, "go on"), { stopReason: "end_turn" });
      secondPeer.assertNoValidationErrors();
      secondPeer.socket.close();
      await secondPeer.closed;
      assert.deepEqual(models.violations, []);
    });
  });
