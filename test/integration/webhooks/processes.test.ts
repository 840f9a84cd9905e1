import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { CERTIFICATE } from "../../helpers/certificate.js";
import { runGantry, startServer } from "../../helpers/server.js";
import { createServerConfig, runPrompt, startModelServer } from "../../helpers/server-runs.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { startReceiver, WEBHOOK_SECRET } from "../../helpers/webhook-receiver.js";

/** A config with a receiver over TLS, and the environment of a process that trusts it. */
async function prepare(t: TestContext) {
  const receiver = await startReceiver(t, undefined, { isSecure: true });
  const models = await startModelServer(t);
  const webhook = { url: receiver.url, secret: "${WEBHOOK_SECRET}" };
  const folder = await tempDir(t, { "ca.pem": CERTIFICATE });
  const env = { WEBHOOK_SECRET, NODE_EXTRA_CA_CERTS: folder.at("ca.pem") };
  return { receiver, models, env, config: createServerConfig(models, { server: { webhooks: [webhook] } }) };
}

it("a server sends the end of its runs over TLS, and its output contains no secret", async (t) => {
  const { receiver, env, config } = await prepare(t);
  const server = await startServer(t, { config, env });
  const { sessionId } = await runPrompt(server, { message: "hi" });
  const [event] = await receiver.waitForEvents(1);
  assert.deepEqual([event?.type, event?.data["session_id"]], ["run.finished", sessionId]);
  assert.equal((await server.stop()).code, 0);
  assert.doesNotMatch(server.stdout + server.stderr, /whsec|path-key/);
});

it("gantry run sends the end of its run before it exits, and reports a receiver that it cannot trust", async (t) => {
  const { receiver, env, config } = await prepare(t);
  const args = ["run", "hi"];
  const trusted = await runGantry(t, args, { config, env });
  assert.equal(trusted.code, 0, trusted.stderr);
  assert.deepEqual(receiver.types, ["run.finished"]);
  const untrusted = await runGantry(t, args, { config, env: { WEBHOOK_SECRET } });
  assert.equal(untrusted.code, 0, untrusted.stderr);
  assert.match(untrusted.stderr, /events not delivered before the stop/);
  assert.doesNotMatch(untrusted.stderr, /whsec|path-key/);
  assert.deepEqual(receiver.types, ["run.finished"]);
});

it("a killed server sends no event for its run, and GET /api/runs has the run as interrupted", async (t) => {
  const { receiver, models, env, config } = await prepare(t);
  const server = await startServer(t, { config, env });
  models.enqueue({ say: [{ gate: "never" }, { text: "Late." }] });
  const response = await server.fetch("/api/run", {
    method: "POST",
    body: JSON.stringify({ message: "hi", background: true }),
  });
  const { run_id } = (await response.json()) as { run_id: string };
  await models.waitForRequest(1);
  await server.stop("SIGKILL");
  const { home, projectDir } = server;
  const nextServer = await startServer(t, { config, env, home, projectDir });
  const { runs } = (await (await nextServer.fetch("/api/runs")).json()) as { runs: { id: string; state: string }[] };
  assert.deepEqual(
    runs.map(({ id, state }) => [id, state]),
    [[run_id, "interrupted"]],
  );
  const { sessionId } = await runPrompt(nextServer, { message: "hi" });
  const [event] = await receiver.waitForEvents(1);
  assert.equal(event?.data["session_id"], sessionId);
});
