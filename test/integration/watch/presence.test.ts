import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient } from "gantry/client";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { startModelServer, createServerConfig, waitUntil } from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";
import type { Hooks } from "../../helpers/temp-dir.js";

/** Starts a server whose runs need permission, and creates a client of the server. */
async function startAskingServer(t: Hooks, permissions: object = {}) {
  const modelServer = await startModelServer(t);
  const config = createServerConfig(modelServer, {
    permissions: { mode: "ask", ...permissions },
    tools: { bash: { sandbox: "off" } },
  });
  const server = await startServer(t, { config });
  const client = new GantryClient({ url: server.url, personHeaders: () => server.personHeaders });
  /** Watches a session as a client that can answer. Returns a function that disconnects. */
  const watchSession = async (id: string): Promise<() => void> => {
    const abortController = new AbortController();
    t.after(() => abortController.abort());
    let isOpen = false;
    void (async () => {
      for await (const _ of client.sessions.watch(id, { canAnswer: true, signal: abortController.signal }))
        isOpen = true;
    })();
    await waitUntil(() => isOpen);
    return () => abortController.abort();
  };
  /** Starts a run in a new session and waits for its ask. */
  const startAskingRun = async () => {
    modelServer.enqueue(callStep("bash", { command: "echo it ran" }), textStep("Done."));
    const { session_id: id, run_id: runId } = await client.start({ message: "Do it" });
    await waitUntil(async () => (await client.runs.get(runId)).state !== "running");
    const [ask] = await client.asks.list({ sessionId: id });
    return { id, runId, ask };
  };
  const waitForEnd = (runId: string) => waitUntil(async () => (await client.runs.get(runId)).state === "finished");
  const readToolOutput = async (id: string) => {
    const message = (await client.sessions.messages(id)).find(({ role }) => role === "tool");
    return String(message?.content);
  };
  /** Creates a session with a finished run. */
  const createSession = async () => {
    modelServer.enqueue(textStep("Hello."));
    return (await client.run({ message: "Hello" })).sessionId;
  };
  return { client, watchSession, startAskingRun, waitForEnd, readToolOutput, createSession };
}

describe("an ask of a session that no client shows", () => {
  it("stays open for a client that watches another session, also while that client reconnects", async (t) => {
    const { client, watchSession, startAskingRun, waitForEnd, readToolOutput, createSession } =
      await startAskingServer(t);
    const shownId = await createSession();
    const disconnect = await watchSession(shownId);
    const { id, runId, ask } = await startAskingRun();
    assert.ok(ask, "the ask is open");
    disconnect();
    // When a second stream starts, the server has noticed the disconnect.
    await watchSession(shownId);
    assert.equal((await client.asks.get(ask.id)).state, "open");
    await client.asks.answer(ask.id, { choice: "allow" });
    await waitForEnd(runId);
    assert.match(await readToolOutput(id), /it ran/);
  });

  it("is denied without a client, and stays open after a client has listed the asks", async (t) => {
    const { client, startAskingRun, waitForEnd, readToolOutput } = await startAskingServer(t, { client_grace: 0 });
    const deniedRun = await startAskingRun();
    assert.equal(deniedRun.ask, undefined);
    await waitForEnd(deniedRun.runId);
    assert.match(await readToolOutput(deniedRun.id), /no client could answer/);
    assert.deepEqual(await client.asks.list({ canAnswer: true }), []);
    const { id, runId, ask } = await startAskingRun();
    await client.asks.answer(ask?.id ?? "", { choice: "allow" });
    await waitForEnd(runId);
    assert.match(await readToolOutput(id), /it ran/);
  });

  it("is denied when the last client has disconnected and permissions.client_grace has expired", async (t) => {
    const { watchSession, startAskingRun, waitForEnd, readToolOutput, createSession } = await startAskingServer(t, {
      client_grace: 1,
    });
    const disconnect = await watchSession(await createSession());
    const { id, runId, ask } = await startAskingRun();
    assert.ok(ask, "the ask is open");
    disconnect();
    await waitForEnd(runId);
    assert.match(await readToolOutput(id), /no client could answer/);
  });
});
