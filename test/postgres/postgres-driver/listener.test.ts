import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { Client } from "pg";
import {
  anAsk,
  anInstruction,
  answerAsk,
  aResolution,
  aSession,
  change,
  aGrowingMessage,
  sendInstruction,
  acquireLease,
} from "../../../src/testing/session-driver/rule.js";
import { Child } from "../../helpers/child.js";
import { until } from "../../helpers/lab.js";
import { NO_POSTGRES, asAdmin, ownServer, postgresSchema, postgresUrl } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";
import type { Hooks } from "../../helpers/temp.js";
import { Connections } from "../../../adapters/postgres-driver/connections.js";
import { PostgresNotifier } from "../../../adapters/postgres-driver/listener.js";

const real = { skip: NO_POSTGRES };
const POOL = { size: 2, connectTimeout: 120, idleTimeout: 30, statementTimeout: 120 };

/** A notifier that acts like a separate process. */
async function notifierOn(
  hooks: Hooks,
  url: string,
  channel: string,
  states: (roots: readonly string[]) => Promise<Map<string, string>> = () => Promise.resolve(new Map()),
): Promise<PostgresNotifier> {
  const connections = new Connections({ url, pool: POOL });
  await connections.open(() => Promise.resolve());
  const notifier = new PostgresNotifier(connections, channel, { address: connections.address, readStates: states });
  hooks.after(async () => {
    await notifier.close();
    await connections.close();
  });
  return notifier;
}

const aChannel = () => `gantry "${randomBytes(6).toString("hex")}`;

/** Server processes that listen on a channel. */
async function listening(url: string, channel: string): Promise<number[]> {
  const rows = await asAdmin(url, "SELECT pid, query FROM pg_stat_activity WHERE query LIKE 'LISTEN %'");
  return rows.filter(({ query }) => String(query).includes(channel.split('"')[1]!)).map(({ pid }) => Number(pid));
}

it("PostgresNotifier calls a subscriber when another notifier publishes its root", real, async (t) => {
  const url = await postgresUrl();
  const channel = aChannel();
  const [firstNotifier, secondNotifier] = [await notifierOn(t, url, channel), await notifierOn(t, url, channel)];
  let notifications = 0;
  const raw = new Client({ connectionString: url });
  const messages: string[] = [];
  raw.on("notification", ({ payload }) => messages.push(payload ?? ""));
  await raw.connect();
  t.after(() => raw.end());
  await raw.query(`LISTEN ${raw.escapeIdentifier(channel)}`);
  const end = firstNotifier.subscribe("root é\0\ud800", () => notifications++);
  await until(async () => (await listening(url, channel)).length === 2);
  // The first read notifies once, whatever it finds.
  await until(() => notifications === 1);
  secondNotifier.publish("root é\0\ud800");
  await until(() => messages.length > 0);
  await until(() => notifications > 1);
  assert.match(messages[0]!, /^[\w-]{8}:[\w-]{16}$/);
  end();
  end();
});

it("PostgresNotifier combines published roots into few messages, with a wildcard for 2,000 roots", real, async (t) => {
  const url = await postgresUrl();
  const channel = aChannel();
  const notifier = await notifierOn(t, url, channel);
  const raw = new Client({ connectionString: url });
  const messages: string[] = [];
  raw.on("notification", ({ payload }) => messages.push(payload ?? ""));
  await raw.connect();
  t.after(() => raw.end());
  await raw.query(`LISTEN ${raw.escapeIdentifier(channel)}`);
  const roots = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => `root-${from + n}`);
  for (const root of [...roots(0, 301), ...roots(1, 301)]) notifier.publish(root);
  await until(() => messages.length === 2);
  assert.equal(messages[1]!.split(",").length, 300);
  // Too many to be named in one message.
  notifier.publish("another");
  for (const root of roots(0, 2000)) notifier.publish(root);
  await until(() => messages.at(-1)!.endsWith(":*"));
  assert.ok(messages.length <= 4);
});

it("PostgresNotifier polls the states of all roots in one call, and reports only changes", real, async (t) => {
  const looks: (readonly string[])[] = [];
  const now = new Map([
    ["same", "1"],
    ["other", "1"],
    ["gone", "1"],
  ]);
  const states = (roots: readonly string[]): Promise<Map<string, string>> => {
    looks.push(roots);
    return Promise.resolve(new Map([...now].filter(([root]) => roots.includes(root))));
  };
  const notifier = await notifierOn(t, await postgresUrl(), aChannel(), states);
  const hints: string[] = [];
  const roots = ["same", "other", "gone", "comes"];
  const ends = roots.map((root) => notifier.subscribe(root, () => hints.push(root)));
  // Changes before it listened may have been missed, so every root is notified.
  await until(() => hints.length >= 4 && looks.length >= 2);
  assert.deepEqual(hints.splice(0).sort(), [...roots].sort());
  now.set("other", "2").set("comes", "1").delete("gone");
  await until(() => hints.length > 0);
  assert.deepEqual(hints.splice(0).sort(), ["comes", "gone", "other"]);
  const before = looks.length;
  await until(() => looks.length > before + 1);
  assert.deepEqual(hints, []);
  assert.deepEqual(looks.at(-1), roots);
  for (const end of ends) end();
});

it("PostgresNotifier listens again after a lost connection, and disconnects on close", real, async (t) => {
  const url = await postgresUrl();
  const channel = aChannel();
  const notifier = await notifierOn(t, url, channel);
  notifier.subscribe("root", () => undefined);
  await until(async () => (await listening(url, channel)).length === 1);
  const [before] = await listening(url, channel);
  await asAdmin(url, `SELECT pg_terminate_backend(${before})`);
  await until(async () => ![undefined, before].includes((await listening(url, channel))[0]));
  await notifier.close();
  await until(async () => (await listening(url, channel)).length === 0);
  notifier.open();
  await until(async () => (await listening(url, channel)).length === 1);
});

it("a subscription of PostgresNotifier does not keep its process alive", real, async () => {
  const child = new Child("postgres-subscriber.ts", [await postgresUrl()]);
  await child.ended();
});

it("PostgresNotifier.publish does not throw during an outage, and reports changes afterwards", real, async (t) => {
  const server = await ownServer(t);
  const channel = aChannel();
  const [firstNotifier, secondNotifier] = [
    await notifierOn(t, server.url, channel),
    await notifierOn(t, server.url, channel),
  ];
  let notifications = 0;
  firstNotifier.subscribe("root", () => notifications++);
  await until(async () => (await listening(server.url, channel)).length === 1);
  await server.kill();
  for (let n = 0; n < 100_000; n++) secondNotifier.publish(`root-${n}`);
  const lateNotifier = await notifierOn(t, server.url, channel).catch(() => undefined);
  assert.equal(lateNotifier, undefined);
  await server.start();
  await until(async () => (await listening(server.url, channel)).length === 1);
  const notificationsBefore = notifications;
  // The other notifier may not know yet that the server is available again. Its earlier messages may be lost.
  await until(() => {
    secondNotifier.publish("root");
    return notifications > notificationsBefore;
  });
});

it("PostgresNotifier reports every kind of change of a chain that was not published", real, async (t) => {
  const ends: (() => unknown)[] = [];
  const place = await postgresSchema({ after: (end) => void ends.push(end) });
  const [driver, secondDriver] = [
    new PostgresDriver(postgresOptions(place)),
    new PostgresDriver(postgresOptions(place)),
  ];
  t.after(async () => {
    await driver.close();
    await secondDriver.close();
    for (const end of ends) await end();
  });
  await driver.open();
  await secondDriver.open();
  const id = "chain \0\ud800";
  let hints = 0;
  const unsubscribe = driver.notifier.subscribe(id, () => hints++);
  const changes: readonly (readonly [name: string, act: () => Promise<unknown>])[] = [
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
  await until(() => hints === 1);
  for (const [name, act] of changes) {
    const before = hints;
    await act();
    await until(() => hints > before);
    t.diagnostic(name);
  }
  unsubscribe();
});
