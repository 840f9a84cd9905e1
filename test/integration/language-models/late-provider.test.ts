import assert from "node:assert/strict";
import { createServer } from "node:net";
import { once } from "node:events";
import { it } from "node:test";
import { textStep, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { runPrompt, startModelServer, createServerConfig, waitUntil } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";

interface ListedModel {
  provider: string;
  model: { id: string };
}

async function listModelIds(server: GantryServer): Promise<string[]> {
  const { models } = (await (await server.fetch("/api/models")).json()) as { models: ListedModel[] };
  return models.map(({ provider, model }) => `${provider}/${model.id}`);
}

/**
 * Returns a port on which no process listens. The port is below the range of automatically assigned ports, so that no
 * other test takes the port.
 */
async function findFreePort(): Promise<number> {
  const port = 10_000 + Math.floor(Math.random() * 20_000);
  const probe = createServer().listen(port, "127.0.0.1");
  const isFree = await once(probe, "listening").then(
    () => true,
    () => false,
  );
  if (!isFree) return findFreePort();
  probe.close();
  await once(probe, "close");
  return port;
}

it("a server uses a provider that starts later, a slow model list, and a model that is added later", async (t) => {
  const port = await findFreePort();
  const labModelServer = await startModelServer(t, { fallback: textStep("from the lab") });
  const slowModelServer = await startModelServer(t, { fallback: textStep("from the slow one") });
  // Time: the list takes longer than gantry's former timeout of 5 s.
  slowModelServer.listing = { delay: 5_500, body: { data: [{ id: "patience" }] }, status: 200 };
  const config = createServerConfig(labModelServer);
  const commonFields = { driver: "openai", api_key: "key-of-others", max_retries: 0 };
  (config["providers"] as object[]).push(
    { ...commonFields, name: "late", base_url: `http://127.0.0.1:${port}/v1` },
    { ...commonFields, name: "slow", base_url: slowModelServer.baseUrl },
  );
  const server = await startServer(t, { config });
  const slowRun = runPrompt(server, { message: "hi", provider: "slow", model: "patience" });
  const cause = `late: network: no connection to 127.0.0.1:${port} (ECONNREFUSED); is the server running?`;
  const expectedError = `model selection failed: late has no model (its list could not be fetched: ${cause})`;

  // No other provider answers instead, and the request does not wait.
  const unreachableRun = await runPrompt(server, { message: "hi", provider: "late" });
  assert.deepEqual([unreachableRun.status, unreachableRun.error], [400, expectedError]);
  assert.equal((await runPrompt(server, { message: "hi" })).output, "from the lab");

  const lateModelServer = await startFakeModelServer({
    port,
    models: ["early"],
    fallback: textStep("from the late one"),
  });
  t.after(() => lateModelServer.close());
  assert.equal(
    (await runPrompt(server, { message: "hi", provider: "late", model: "early" })).output,
    "from the late one",
  );
  assert.equal((await runPrompt(server, { message: "hi", provider: "late" })).output, "from the late one");
  // The server gets the model `pulled` after this request.
  const unknownModelRun = await runPrompt(server, { message: "hi", provider: "late", model: "pulled" });
  assert.deepEqual(
    [unknownModelRun.status, unknownModelRun.error],
    [400, "model selection failed: late has no model pulled"],
  );
  lateModelServer.models = ["early", "pulled"];
  assert.equal((await runPrompt(server, { message: "hi", provider: "late", model: "pulled" })).status, 200);

  assert.equal((await slowRun).output, "from the slow one");
  assert.deepEqual(await listModelIds(server), ["lab/m1", "late/early", "late/pulled", "slow/patience"]);
});

it("a server without a reachable provider returns 400 with the causes, and uses a provider that becomes reachable", async (t) => {
  const port = await findFreePort();
  const providers = [
    { name: "late", driver: "openai", base_url: `http://127.0.0.1:${port}/v1`, api_key: "key-of-the-late" },
    { name: "lost", driver: "openai", base_url: "http://models.invalid/v1", api_key: "key-of-the-lost" },
  ];
  const server = await startServer(t, { config: { providers } });
  const { status, error } = await runPrompt(server, { message: "hi" });
  assert.equal(status, 400);
  assert.match(
    error,
    /^model selection failed: no model available \(late: network: no connection to 127\.0\.0\.1:\d+ \(ECONNREFUSED\); is the server running\?; lost: network: no connection to models\.invalid \((ENOTFOUND|EAI_AGAIN)\)/,
  );
  const lateModelServer = await startFakeModelServer({ port, fallback: textStep("back") });
  t.after(() => lateModelServer.close());
  await waitUntil(async () => (await listModelIds(server)).length > 0);
  assert.deepEqual(await listModelIds(server), ["late/m1"]);
  assert.equal((await runPrompt(server, { message: "hi" })).output, "back");
});

it("a server uses the configured model if the provider forbids listing models", async (t) => {
  const modelServer = await startModelServer(t, { fallback: textStep("used") });
  modelServer.listing = { status: 403, error: "this key may not list models" };
  const provider = { name: "gate", driver: "openai", base_url: modelServer.baseUrl, api_key: "key-of-the-gate" };
  const config = { providers: [provider], model: { provider: "gate", model: "mine" } };
  const server = await startServer(t, { config });
  assert.equal((await runPrompt(server, { message: "hi" })).output, "used");
  assert.equal((await runPrompt(server, { message: "hi", provider: "gate", model: "mine" })).output, "used");
  assert.equal(modelServer.requests.at(-1)!.model, "mine");
  assert.deepEqual(await listModelIds(server), ["gate/mine"]);
});
