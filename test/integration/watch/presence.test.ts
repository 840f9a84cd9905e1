import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient } from "gantry/client";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { startModelServer, createServerConfig, waitUntil } from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";
import type { Hooks } from "../../helpers/temp-dir.js";

/** A server whose runs need permission, and a client of it. */
async function startAskingServer(t: Hooks, permissions: object = {}) {
  const models = await startModelServer(t);
  const config = createServerConfig(models, {
    permissions: { mode: "ask", ...permissions },
    tools: { bash: { sandbox: "off" } },
  });
  const server = await startServer(t, { config });
  const client = new GantryClient({ url: server.url, personHeaders: () => server.personHeaders });
  const watch = async (id: string): Promise<() => void> => {
    const abort = new AbortController();
    t.after(() => abort.abort());
    let isOpen = false;
    void (async () => {
      for await (const _ of client.sessions.watch(id, { canAnswer: true, signal: abort.signal })) isOpen = true;
    })();
    await waitUntil(() => isOpen);
    return () => abort.abort();
  };
  /** Starts a run in a new session and waits for its ask. */
  const startAsking = async () => {
    models.enqueue(callStep("bash", { command: "echo it ran" }), textStep("Done."));
    const { session_id: id, run_id: runId } = await client.start({ message: "Do it" });
    await waitUntil(async () => (await client.runs.get(runId)).state !== "running");
    const [ask] = await client.asks.list({ sessionId: id });
    return { id, runId, ask };
  };
  const waitForEnd = (runId: string) => waitUntil(async () => (await client.runs.get(runId)).state === "finished");
  const readOutput = async (id: string) => {
    const message = (await client.sessions.messages(id)).find(({ role }) => role === "tool");
    return String(message?.content);
  };
  /** Creates a session with a finished run. */
  const createSession = async () => {
    models.enqueue(textStep("Hello."));
    return (await client.run({ message: "Hello" })).sessionId;
  };
  return { client, watch, startAsking, waitForEnd, readOutput, createSession };
}

describe("an ask of a session that no client shows", () => {
  it("stays open for a client that watches another session, also while that client reconnects", async (t) => {
    const { client, watch, startAsking, waitForEnd, readOutput, createSession } = await startAskingServer(t);
    const shownId = await createSession();
    const disconnect = await watch(shownId);
    const { id, runId, ask } = await startAsking();
    assert.ok(ask, "the ask is open");
    disconnect();
    // When a second stream starts, the server has noticed the disconnect.
    await watch(shownId);
    assert.equal((await client.asks.get(ask.id)).state, "open");
    await client.asks.answer(ask.id, { choice: "allow" });
    await waitForEnd(runId);
    assert.match(await readOutput(id), /it ran/);
  });

  it("is denied without a client, and stays open after a client has listed the asks", async (t) => {
    const { client, startAsking, waitForEnd, readOutput } = await startAskingServer(t, { client_grace: 0 });
    const deniedRun = await startAsking();
    assert.equal(deniedRun.ask, undefined);
    await waitForEnd(deniedRun.runId);
    assert.match(await readOutput(deniedRun.id), /no client could answer/);
    assert.deepEqual(await client.asks.list({ canAnswer: true }), []);
    const { id, runId, ask } = await startAsking();
    await client.asks.answer(ask?.id ?? "", { choice: "allow" });
    await waitForEnd(runId);
    assert.match(await readOutput(id), /it ran/);
  });

  it("is denied when the last client has disconnected and permissions.client_grace has expired", async (t) => {
    const { watch, startAsking, waitForEnd, readOutput, createSession } = await startAskingServer(t, {
      client_grace: 1,
    });
    const disconnect = await watch(await createSession());
    const { id, runId, ask } = await startAsking();
    assert.ok(ask, "the ask is open");
    disconnect();
    await waitForEnd(runId);
    assert.match(await readOutput(id), /no client could answer/);
  });
});
