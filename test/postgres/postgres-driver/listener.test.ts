import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { Client } from "pg";
import { acquireLease, answerAsk, sendInstruction } from "../../../src/testing/session-driver/driver-calls.js";
import {
  aGrowingMessage,
  anAsk,
  anInstruction,
  aResolution,
  aSession,
  change,
} from "../../../src/testing/session-driver/records.js";
import { Child } from "../../helpers/child.js";
import { waitUntil } from "../../helpers/server-runs.js";
import {
  NO_POSTGRES,
  runAsAdmin,
  startPrivateServer,
  createPostgresSchema,
  getPostgresUrl,
} from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";
import type { Hooks } from "../../helpers/temp-dir.js";
import { Connections } from "../../../adapters/postgres-driver/connections.js";
import { PostgresNotifier } from "../../../adapters/postgres-driver/listener.js";

const needsPostgres = { skip: NO_POSTGRES };
const POOL = { size: 2, connectTimeout: 120, idleTimeout: 30, statementTimeout: 120 };

/** Creates a notifier with its own connections, like one in a separate process. */
async function createNotifier(
  hooks: Hooks,
  url: string,
  channel: string,
  readStates: (roots: readonly string[]) => Promise<Map<string, string>> = () => Promise.resolve(new Map()),
): Promise<PostgresNotifier> {
  const connections = new Connections({ url, pool: POOL });
  await connections.open(() => Promise.resolve());
  const notifier = new PostgresNotifier(connections, channel, { address: connections.address, readStates });
  hooks.after(async () => {
    await notifier.close();
    await connections.close();
  });
  return notifier;
}

const createChannelName = () => `gantry "${randomBytes(6).toString("hex")}`;

/** Returns the process ids of the server processes that listen on a channel. */
async function findListeners(url: string, channel: string): Promise<number[]> {
  const rows = await runAsAdmin(url, "SELECT pid, query FROM pg_stat_activity WHERE query LIKE 'LISTEN %'");
  return rows.filter(({ query }) => String(query).includes(channel.split('"')[1]!)).map(({ pid }) => Number(pid));
}

it(
  "PostgresNotifier calls a subscriber when another notifier publishes the subscriber's root",
  needsPostgres,
  async (t) => {
    const url = await getPostgresUrl();
    const channel = createChannelName();
    const [firstNotifier, secondNotifier] = [
      await createNotifier(t, url, channel),
      await createNotifier(t, url, channel),
    ];
    let notificationCount = 0;
    const rawClient = new Client({ connectionString: url });
    const messages: string[] = [];
    rawClient.on("notification", ({ payload }) => messages.push(payload ?? ""));
    await rawClient.connect();
    t.after(() => rawClient.end());
    await rawClient.query(`LISTEN ${rawClient.escapeIdentifier(channel)}`);
    const unsubscribe = firstNotifier.subscribe("root é\0\ud800", () => notificationCount++);
    await waitUntil(async () => (await findListeners(url, channel)).length === 2);
    // The first read notifies each subscriber once, whether or not its chain has changed.
    await waitUntil(() => notificationCount === 1);
    secondNotifier.publish("root é\0\ud800");
    await waitUntil(() => messages.length > 0);
    await waitUntil(() => notificationCount > 1);
    assert.match(messages[0]!, /^[\w-]{8}:[\w-]{16}$/);
    unsubscribe();
    unsubscribe();
  },
);

it(
  "PostgresNotifier combines published roots into few messages, with a wildcard for 2,000 roots",
  needsPostgres,
  async (t) => {
    const url = await getPostgresUrl();
    const channel = createChannelName();
    const notifier = await createNotifier(t, url, channel);
    const rawClient = new Client({ connectionString: url });
    const messages: string[] = [];
    rawClient.on("notification", ({ payload }) => messages.push(payload ?? ""));
    await rawClient.connect();
    t.after(() => rawClient.end());
    await rawClient.query(`LISTEN ${rawClient.escapeIdentifier(channel)}`);
    const createRoots = (firstIndex: number, endIndex: number) =>
      Array.from({ length: endIndex - firstIndex }, (_, n) => `root-${firstIndex + n}`);
    for (const root of [...createRoots(0, 301), ...createRoots(1, 301)]) notifier.publish(root);
    await waitUntil(() => messages.length === 2);
    assert.equal(messages[1]!.split(",").length, 300);
    // 2,000 roots do not fit into one message.
    notifier.publish("another");
    for (const root of createRoots(0, 2000)) notifier.publish(root);
    await waitUntil(() => messages.at(-1)!.endsWith(":*"));
    assert.ok(messages.length <= 4);
  },
);

it("PostgresNotifier polls the states of all roots in one call, and reports only changes", needsPostgres, async (t) => {
  const polledRoots: (readonly string[])[] = [];
  const statesByRoot = new Map([
    ["same", "1"],
    ["other", "1"],
    ["gone", "1"],
  ]);
  const readStates = (roots: readonly string[]): Promise<Map<string, string>> => {
    polledRoots.push(roots);
    return Promise.resolve(new Map([...statesByRoot].filter(([root]) => roots.includes(root))));
  };
  const notifier = await createNotifier(t, await getPostgresUrl(), createChannelName(), readStates);
  const notifiedRoots: string[] = [];
  const roots = ["same", "other", "gone", "comes"];
  const unsubscribeCalls = roots.map((root) => notifier.subscribe(root, () => notifiedRoots.push(root)));
  // The notifier may have missed earlier changes, so it notifies every root.
  await waitUntil(() => notifiedRoots.length >= 4 && polledRoots.length >= 2);
  assert.deepEqual(notifiedRoots.splice(0).sort(), [...roots].sort());
  statesByRoot.set("other", "2").set("comes", "1").delete("gone");
  await waitUntil(() => notifiedRoots.length > 0);
  assert.deepEqual(notifiedRoots.splice(0).sort(), ["comes", "gone", "other"]);
  const pollCountBefore = polledRoots.length;
  await waitUntil(() => polledRoots.length > pollCountBefore + 1);
  assert.deepEqual(notifiedRoots, []);
  assert.deepEqual(polledRoots.at(-1), roots);
  for (const unsubscribe of unsubscribeCalls) unsubscribe();
});

it("PostgresNotifier listens again after a lost connection, and disconnects on close", needsPostgres, async (t) => {
  const url = await getPostgresUrl();
  const channel = createChannelName();
  const notifier = await createNotifier(t, url, channel);
  notifier.subscribe("root", () => undefined);
  await waitUntil(async () => (await findListeners(url, channel)).length === 1);
  const [lostPid] = await findListeners(url, channel);
  await runAsAdmin(url, `SELECT pg_terminate_backend(${lostPid})`);
  await waitUntil(async () => ![undefined, lostPid].includes((await findListeners(url, channel))[0]));
  await notifier.close();
  await waitUntil(async () => (await findListeners(url, channel)).length === 0);
  notifier.open();
  await waitUntil(async () => (await findListeners(url, channel)).length === 1);
});

it("a subscription of PostgresNotifier does not keep its process alive", needsPostgres, async () => {
  const child = new Child("postgres-subscriber.ts", [await getPostgresUrl()]);
  await child.waitForEnd();
});

it(
  "PostgresNotifier.publish does not throw during an outage, and reports changes afterwards",
  needsPostgres,
  async (t) => {
    const server = await startPrivateServer(t);
    const channel = createChannelName();
    const [firstNotifier, secondNotifier] = [
      await createNotifier(t, server.url, channel),
      await createNotifier(t, server.url, channel),
    ];
    let notificationCount = 0;
    firstNotifier.subscribe("root", () => notificationCount++);
    await waitUntil(async () => (await findListeners(server.url, channel)).length === 1);
    await server.kill();
    for (let n = 0; n < 100_000; n++) secondNotifier.publish(`root-${n}`);
    const lateNotifier = await createNotifier(t, server.url, channel).catch(() => undefined);
    assert.equal(lateNotifier, undefined);
    await server.start();
    await waitUntil(async () => (await findListeners(server.url, channel)).length === 1);
    const countBefore = notificationCount;
    // The second notifier may not know yet that the server is available again. Earlier messages may be lost.
    await waitUntil(() => {
      secondNotifier.publish("root");
      return notificationCount > countBefore;
    });
  },
);

it("PostgresNotifier reports every kind of change of a chain that was not published", needsPostgres, async (t) => {
  const cleanups: (() => unknown)[] = [];
  const address = await createPostgresSchema({ after: (cleanup) => void cleanups.push(cleanup) });
  const [driver, secondDriver] = [
    new PostgresDriver(postgresOptions(address)),
    new PostgresDriver(postgresOptions(address)),
  ];
  t.after(async () => {
    await driver.close();
    await secondDriver.close();
    for (const cleanup of cleanups) await cleanup();
  });
  await driver.open();
  await secondDriver.open();
  const id = "chain \0\ud800";
  let notificationCount = 0;
  const unsubscribe = driver.notifier.subscribe(id, () => notificationCount++);
  const changes: readonly (readonly [name: string, applyChange: () => Promise<unknown>])[] = [
    ["create", () => secondDriver.create({ session: aSession(id) })],
    ["write", () => secondDriver.write(id, change({ add: [aGrowingMessage(id, 1)] }))],
    [
      "append",
      () => secondDriver.write(id, change({ append: [{ messageId: `${id}-1`, part: 0, type: "text", text: "a" }] })),
    ],
    ["ask", () => secondDriver.write(id, change({ asks: [anAsk("ask", id)] }))],
    ["answer", () => answerAsk(secondDriver, id, "ask", aResolution("allow"))],
    ["lease", () => acquireLease(secondDriver, id, "holder")],
    ["instruct", () => sendInstruction(secondDriver, anInstruction("steer", id))],
    ["follow-up", () => secondDriver.create({ session: aSession("next", { chain: { root: id, index: 1 } }) })],
    ["delete", () => secondDriver.delete([id])],
  ];
  await waitUntil(() => notificationCount === 1);
  for (const [name, applyChange] of changes) {
    const countBefore = notificationCount;
    await applyChange();
    await waitUntil(() => notificationCount > countBefore);
    t.diagnostic(name);
  }
  unsubscribe();
});
