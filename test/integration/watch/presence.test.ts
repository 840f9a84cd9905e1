import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient } from "gantry/client";
import { call, say } from "../../helpers/fake-model-server.js";
import { lab, labConfig, until } from "../../helpers/lab.js";
import { startServer } from "../../helpers/server.js";
import type { Hooks } from "../../helpers/temp.js";

/** A server whose runs need permission, and a client of it. */
async function startAskingServer(t: Hooks, permissions: object = {}) {
  const models = await lab(t);
  const config = labConfig(models, {
    permissions: { mode: "ask", ...permissions },
    tools: { bash: { sandbox: "off" } },
  });
  const server = await startServer(t, { config });
  const client = new GantryClient({ url: server.url, personHeaders: () => server.personHeaders });
  const watch = async (id: string): Promise<() => void> => {
    const over = new AbortController();
    t.after(() => over.abort());
    let isOpen = false;
    void (async () => {
      for await (const _ of client.sessions.watch(id, { canAnswer: true, signal: over.signal })) isOpen = true;
    })();
    await until(() => isOpen);
    return () => over.abort();
  };
  /** Starts a run in a new session and waits for its ask. */
  const startAsking = async () => {
    models.enqueue(call("bash", { command: "echo it ran" }), say("Done."));
    const { session_id: id, run_id: runId } = await client.start({ message: "Do it" });
    await until(async () => (await client.runs.get(runId)).state !== "running");
    const [ask] = await client.asks.list({ sessionId: id });
    return { id, runId, ask };
  };
  const ended = (runId: string) => until(async () => (await client.runs.get(runId)).state === "finished");
  const output = async (id: string) => {
    const message = (await client.sessions.messages(id)).find(({ role }) => role === "tool");
    return String(message?.content);
  };
  /** Creates a session with a finished run. */
  const createSession = async () => {
    models.enqueue(say("Hello."));
    return (await client.run({ message: "Hello" })).sessionId;
  };
  return { client, watch, startAsking, ended, output, createSession };
}

describe("an ask of a session that no client shows", () => {
  it("stays open for a client that watches another session, also while that client reconnects", async (t) => {
    const { client, watch, startAsking, ended, output, createSession } = await startAskingServer(t);
    const shown = await createSession();
    const disconnect = await watch(shown);
    const { id, runId, ask } = await startAsking();
    assert.ok(ask, "the question is open");
    disconnect();
    // When a second stream starts, the server has noticed the disconnect.
    await watch(shown);
    assert.equal((await client.asks.get(ask.id)).state, "open");
    await client.asks.answer(ask.id, { choice: "allow" });
    await ended(runId);
    assert.match(await output(id), /it ran/);
  });

  it("is denied without a client, and stays open after a client has listed the asks", async (t) => {
    const { client, startAsking, ended, output } = await startAskingServer(t, { client_grace: 0 });
    const refused = await startAsking();
    assert.equal(refused.ask, undefined);
    await ended(refused.runId);
    assert.match(await output(refused.id), /no client could answer/);
    assert.deepEqual(await client.asks.list({ canAnswer: true }), []);
    const { id, runId, ask } = await startAsking();
    await client.asks.answer(ask?.id ?? "", { choice: "allow" });
    await ended(runId);
    assert.match(await output(id), /it ran/);
  });

  it("is denied when the last client has disconnected and permissions.client_grace has expired", async (t) => {
    const { watch, startAsking, ended, output, createSession } = await startAskingServer(t, { client_grace: 1 });
    const disconnect = await watch(await createSession());
    const { id, runId, ask } = await startAsking();
    assert.ok(ask, "the question is open");
    disconnect();
    await ended(runId);
    assert.match(await output(id), /no client could answer/);
  });
});
