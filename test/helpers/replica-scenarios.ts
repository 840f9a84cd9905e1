import assert from "node:assert/strict";
import { HttpPeer } from "./acp-http.js";
import type { FakeModelServer, FakeStep } from "./fake-model-server.js";
import { HttpWatcher } from "./http-watcher.js";
import { historyFaults } from "./replica-load.js";
import { ask, processes, stream, uniqueSeconds, until } from "./lab.js";
import type { Replicas } from "./replicas.js";
import type { GantryServer } from "./server.js";

/** Words of an answer. */
const WORDS = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}${n} `);
const post = (server: GantryServer, path: string, body: object = {}, headers: Record<string, string> = {}) =>
  server.fetch(path, { method: "POST", body: JSON.stringify(body), headers });

interface Listed {
  id: string;
  state: string;
}

async function runIs(server: GantryServer, run: string, state: string): Promise<void> {
  await until(async () => ((await (await server.fetch(`/api/runs/${run}`)).json()) as Listed).state === state);
}

/**
 * One client watches at the first replica. The second replica runs the session and is killed during an answer, and the
 * third continues, `rounds` times. Another watcher's connection drops randomly and reconnects at any replica. Resolves
 * with the number of events, and with faults.
 */
export async function watchWhileKilled(
  replicas: Replicas,
  models: FakeModelServer,
  rounds: number,
  random: () => number,
): Promise<{ events: number; connections: number; faults: string[] }> {
  const [a, c] = [replicas.at(0), replicas.at(2)];
  models.enqueue({ say: [{ text: "First." }] });
  const { sessionId } = await ask(c, { message: "begin" });
  const path = `/api/sessions/${sessionId}`;
  // Stays connected to one server.
  const steady = new HttpWatcher(
    `${path}/events`,
    () => a.url,
    () => 0.1,
  );
  const restless = new HttpWatcher(
    `${path}/events`,
    () => replicas.urls[Math.floor(random() * replicas.count)],
    random,
  );
  try {
    for (let round = 0; round < rounds; round += 1) {
      const reasoning = { reasoning: WORDS("why", 3) };
      const call = { call: { name: "glob", arguments: { pattern: "*" } } };
      models.enqueue(
        { say: [reasoning, { text: "Let me look. " }, call] },
        { say: [{ text: WORDS("lost", 400) }], pace: 5 },
        { say: [reasoning, { text: WORDS("kept", 20) }, call], pace: 2 },
        { say: [{ text: WORDS("end", 20) }], pace: 2 },
      );
      const broken = await stream(replicas.at(1), { message: `round ${round}`, session_id: sessionId });
      await broken.text(60 + Math.floor(random() * 200));
      await replicas.down(1, "SIGKILL");
      await broken.ended;
      const next = await ask(c, { message: `go on ${round}`, session_id: sessionId });
      assert.deepEqual([next.status, next.error], [200, ""]);
      await replicas.up(1);
    }
    let expectedText = "";
    const isThere = ({ page }: HttpWatcher) => JSON.stringify({ messages: page.messages }) === expectedText;
    // Twice: a late or repeated event arrives before those of the last answer.
    for (let last = 0; last < 2; last += 1) {
      if (last > 0) models.enqueue({ say: [{ text: "Last." }] });
      if (last > 0) assert.equal((await ask(c, { message: "end", session_id: sessionId })).output, "Last.");
      expectedText = await (await c.fetch(`${path}/messages`)).text();
      // The checks below report which watcher differs.
      await until(() => [steady, restless].every(isThere)).catch(() => undefined);
    }
    const faults = [steady, restless].flatMap((watcher, n) => [
      ...watcher.page.faults,
      ...(isThere(watcher) ? [] : [`watcher ${n} sees another page`]),
      ...(watcher.page.retold > 0 ? [`watcher ${n} was told ${watcher.page.retold} messages twice`] : []),
    ]);
    const { messages } = JSON.parse(expectedText) as { messages: Parameters<typeof historyFaults>[0] };
    faults.push(...historyFaults(messages), ...models.violations);
    return { events: steady.page.events, connections: restless.connections, faults };
  } finally {
    await Promise.all([steady.end(), restless.end()]);
  }
}

/** Starts a run at the first replica whose tool sleeps in a shell. `gone` waits until the sleep has ended. */
async function sleeping(replicas: Replicas, models: FakeModelServer) {
  const seconds = uniqueSeconds();
  models.enqueue({
    say: [{ call: { name: "bash", arguments: { command: `sleep ${seconds} & wait`, timeout: 600 } } }],
  });
  const answer = await post(replicas.at(0), "/api/run", { message: "sleep", background: true });
  const { run_id: run, session_id: session } = (await answer.json()) as { run_id: string; session_id: string };
  const sleepers = () => processes(`sleep ${seconds}`);
  await until(async () => (await sleepers()) > 0);
  const gone = () => until(async () => (await sleepers()) === 0);
  return { run, session, gone };
}

/** Requests for a run that are sent to another replica. Each resolves with the time until it took effect, in ms. */
export const TRANSPORT_SCENARIOS: Readonly<
  Record<string, (replicas: Replicas, models: FakeModelServer) => Promise<number>>
> = {
  "a cancel ends the run, and its tool's processes": async (replicas, models) => {
    const { run, gone } = await sleeping(replicas, models);
    const since = Date.now();
    assert.equal((await post(replicas.at(1), `/api/runs/${run}/cancel`)).status, 200);
    await Promise.all([gone(), runIs(replicas.at(2), run, "cancelled")]);
    return Date.now() - since;
  },
  "a delete ends the run, and its tool's processes": async (replicas, models) => {
    const { session, gone } = await sleeping(replicas, models);
    const since = Date.now();
    const path = `/api/sessions/${session}`;
    assert.equal((await replicas.at(1).fetch(path, { method: "DELETE" })).status, 200);
    await gone();
    assert.equal((await replicas.at(0).fetch(path)).status, 404);
    return Date.now() - since;
  },
  "an answer to a question lets its tool run": async (replicas, models) => {
    models.enqueue(
      { say: [{ call: { name: "write", arguments: { path: "asked.txt", content: "yes" } } }] },
      { say: [{ text: "Written." }] },
    );
    const answer = post(replicas.at(0), "/api/run", { message: "write", mode: "ask" });
    let asks: { id: string; title: string }[] = [];
    await until(async () => {
      ({ asks } = (await (await replicas.at(1).fetch("/api/asks")).json()) as { asks: typeof asks });
      return asks.length > 0;
    });
    const since = Date.now();
    const answered = replicas.at(1);
    const path = `/api/asks/${asks[0]!.id}`;
    assert.equal((await post(answered, path, { choice: "allow" }, answered.personHeaders)).status, 200);
    assert.equal(((await (await answer).json()) as { output: string }).output, "Written.");
    return Date.now() - since;
  },
  "what it is told is the next that its model hears": async (replicas, models) => {
    const { run, session, gone } = await sleeping(replicas, models);
    const since = Date.now();
    const steered = await post(replicas.at(1), `/api/sessions/${session}/steer`, { message: "to the left" });
    assert.equal(steered.status, 200);
    const took = Date.now() - since;
    // The instruction waits for the model's next request, which comes when the tool has ended: here by a cancel.
    assert.equal((await post(replicas.at(2), `/api/runs/${run}/cancel`)).status, 200);
    await gone();
    return took;
  },
  "a client's session/cancel at another replica ends it": async (replicas, models) => {
    const { run, session, gone } = await sleeping(replicas, models);
    const peer = new HttpPeer(`${replicas.urls[1]}/acp`);
    await peer.open();
    const reading = await peer.stream();
    await peer.request("session/load", { sessionId: session, cwd: replicas.projectDir, mcpServers: [] });
    const since = Date.now();
    peer.notify("session/cancel", { sessionId: session });
    await Promise.all([gone(), runIs(replicas.at(2), run, "cancelled")]);
    const took = Date.now() - since;
    reading.close();
    await peer.remove();
    peer.assertClean();
    return took;
  },
};

/** Config of the replicas for all of these scenarios. */
export const TRANSPORT_SCENARIOS_CONFIG = {
  server: { transports: ["koa-http-api", "acp-http-sse-ws"] },
  permissions: { unattended: "wait", timeout: 60 },
};

/** An answer that stalls after one word. */
export const STUCK: FakeStep = { say: [{ text: "Hm" }, { stall: true }] };
