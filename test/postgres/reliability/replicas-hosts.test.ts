// Servers on one store whose hosts cannot see each other's processes. LEASES=1 waits until a lease expires.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { currentHolder } from "gantry/plugin";
import { HttpPeer } from "../../helpers/acp-http.js";
import { textStep } from "../../helpers/fake-model-server.js";
import { runPrompt, startModelServer, fetchMessages, waitUntil } from "../../helpers/server-runs.js";
import { createHostPrefix, createHiddenFolderPrefix } from "../../helpers/namespaces.js";
import { STALLED_ANSWER } from "../../helpers/replica-scenarios.js";
import { openDriver, Replicas, SHARED_STORES, type SharedStore } from "../../helpers/replicas.js";
import { tempDir } from "../../helpers/temp-dir.js";

const hostPrefixes = await Promise.all(["host-a", "host-b"].map(createHostPrefix));
const skipReason = hostPrefixes.find((host) => typeof host === "string") ?? false;

/** Lets the lease of a chain expire. */
async function endLease(store: SharedStore, sessionId: string): Promise<void> {
  const driver = await openDriver(store);
  try {
    const currentLease = await driver.lease(sessionId, currentHolder("probe"), 1);
    assert.ok("heldBy" in currentLease, "the lease of the dead process was granted again before it expired");
    // Renews the lease as its holder, for 1 ms.
    await driver.lease(sessionId, currentLease.heldBy.holder, 1);
  } finally {
    await driver.close();
  }
}

for (const [name, skip, openStore] of SHARED_STORES)
  describe(`replicas on separate hosts with ${name}`, { skip: skip || skipReason }, () => {
    it("reject runs and loads of a session whose folder is missing on their host, and store nothing", async (t) => {
      const sharedFolder = await tempDir(t, { "project/a.txt": "a" });
      const project = sharedFolder.at("project");
      const otherFolder = await tempDir(t);
      const commandPrefix = await createHiddenFolderPrefix(sharedFolder.path);
      if (typeof commandPrefix === "string") return t.skip(commandPrefix);
      const models = await startModelServer(t, { fallback: textStep("Yes.") });
      const config = { server: { transports: ["koa-http-api", "acp-http-sse-ws"] } };
      const replicas = await Replicas.start(t, await openStore(), models, {
        count: 2,
        config,
        optionsFor: (n) => (n === 0 ? { projectDir: project } : { projectDir: otherFolder.path, commandPrefix }),
      });
      const [replicaWithFolder, replicaWithoutFolder] = [replicas.getServer(0), replicas.getServer(1)];
      const { sessionId } = await runPrompt(replicaWithFolder, { message: "begin" });
      const messagesBefore = await fetchMessages(replicaWithoutFolder, sessionId);
      assert.equal(messagesBefore.length, 2, "the replica without the folder reads the messages");

      const body = { message: "go on", session_id: sessionId };
      const keyHeaders = { "idempotency-key": "anywhere" };
      for (const fields of [{}, { stream: true }, { background: true }, { queue: true }]) {
        const init = { method: "POST", headers: keyHeaders, body: JSON.stringify({ ...body, ...fields }) };
        const response = await replicaWithoutFolder.fetch("/api/run", init);
        const refusal = [response.status, await response.json()];
        assert.deepEqual(refusal, [400, { error: "project folder not found", code: "project_folder" }]);
      }
      const peer = new HttpPeer(`${replicaWithoutFolder.url}/acp`);
      await peer.open();
      const stream = await peer.openStream();
      const loadResponse = await peer.call("session/load", { sessionId, cwd: project, mcpServers: [] });
      assert.deepEqual(loadResponse.error, {
        code: -32602,
        message: "invalid params: cwd: expected the absolute path of an existing folder",
        data: { field: "cwd" },
      });
      peer.assertNoValidationErrors();
      stream.close();
      await peer.closeConnection();

      assert.deepEqual(
        await fetchMessages(replicaWithoutFolder, sessionId),
        messagesBefore,
        "the rejected requests stored nothing",
      );
      assert.deepEqual(await runPrompt(replicaWithFolder, body, keyHeaders), {
        status: 200,
        sessionId,
        output: "Yes.",
        error: "",
      });
      const { runs } = (await (await replicaWithFolder.fetch("/api/runs")).json()) as { runs: { state: string }[] };
      assert.deepEqual(
        runs.map(({ state }) => state),
        ["finished", "finished"],
      );
      assert.doesNotMatch(replicas.stderr, / error /);
    });

    it("take over a session only when the lease of a dead holder expires, and then run queued prompts", async (t) => {
      const models = await startModelServer(t, { fallback: textStep("Yes.") });
      const store = await openStore();
      const replicas = await Replicas.start(t, store, models, {
        count: 2,
        optionsFor: (n) => ({ commandPrefix: hostPrefixes[n] as readonly string[] }),
      });
      const [killedReplica, otherReplica] = [replicas.getServer(0), replicas.getServer(1)];
      const keyHeaders = { "idempotency-key": "once" };
      models.enqueue(textStep("Before."), STALLED_ANSWER);
      const { sessionId } = await runPrompt(killedReplica, { message: "begin" });
      const body = { message: "think", session_id: sessionId };
      const queuedBody = { ...body, queue: true };
      const failedRun = assert.rejects(runPrompt(killedReplica, queuedBody, keyHeaders));
      await waitUntil(async () => (await fetchMessages(otherReplica, sessionId)).at(-1)?.content === "Hm");
      await replicas.stopReplica(0, "SIGKILL");
      await failedRun;

      const response = await otherReplica.fetch("/api/run", { method: "POST", body: JSON.stringify(body) });
      assert.deepEqual(
        [response.status, await response.json()],
        [409, { error: "session is busy", code: "session_busy" }],
      );
      assert.equal(response.headers.get("retry-after"), "1");
      const order: string[] = [];
      const repeatedRun = runPrompt(otherReplica, queuedBody, keyHeaders).finally(() => order.push("repeated prompt"));
      const queuedRun = runPrompt(otherReplica, { message: "and then", session_id: sessionId, queue: true }).finally(
        () => order.push("queued prompt"),
      );
      // The dead process still holds the lease while the runs wait. `endLease` asserts this.
      await waitUntil(async () => {
        const { runs } = (await (await otherReplica.fetch("/api/runs")).json()) as { runs: { state: string }[] };
        return order.length > 0 || runs.some(({ state }) => state === "queued");
      });
      assert.deepEqual(order, [], "no prompt is answered while the lease of the dead process is valid");
      if (process.env["LEASES"] !== "1") await endLease(store, sessionId);
      for (const answer of await Promise.all([repeatedRun, queuedRun]))
        assert.deepEqual(answer, { status: 200, sessionId, output: "Yes.", error: "" });
      t.diagnostic(order.join(" before "));
      const messages = await fetchMessages(otherReplica, sessionId);
      const contents = messages.map(({ content }) => String(content));
      // The first of both requests that notices the end of the lease starts. The repeated one then continues its run.
      const expectedContents = contents.includes("Hm")
        ? ["begin", "Before.", "think", "Hm", "and then", "Yes.", "think", "Yes."]
        : ["begin", "Before.", "think", "Yes.", "and then", "Yes."];
      assert.deepEqual(contents, expectedContents);
      assert.deepEqual(models.violations, []);
    });
  });
