import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Client } from "pg";
import { SOURCE_FLAGS, source } from "./node.js";
import { findPostgres } from "./postgres-binaries.js";
import type { Hooks } from "./temp.js";

const MISSING =
  "no PostgreSQL server: install one (apt-get install postgresql), or name one (GANTRY_TEST_POSTGRES=postgres://...)";

/**
 * Why tests with PostgreSQL are skipped; false if they can run. For `it("...", { skip: NO_POSTGRES }, ...)`. On CI they
 * are never skipped.
 */
export const NO_POSTGRES: string | false =
  process.env.GANTRY_TEST_POSTGRES || process.env.CI || findPostgres() ? false : MISSING;

/** A test's own server, which the test can stop and start. Its URL does not change. */
export interface OwnServer {
  /** URL of its administrator, with the password. */
  readonly url: string;
  readonly pid: number;
  /** Stops as an administrator does: clients are notified and running statements aborted. */
  stop(): Promise<void>;
  /** Simulates a crash. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Pauses all its processes: connections stay open, but nothing responds. */
  pause(): Promise<void>;
  go(): Promise<void>;
}

interface Started extends OwnServer {
  readonly process: ChildProcess;
  readonly ended: Promise<unknown>;
}

/** Starts a private server, which ends with this process, even if this process is killed. */
async function startServer(settings: Readonly<Record<string, string>>): Promise<Started> {
  if (!findPostgres()) throw new Error(MISSING);
  const pairs = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
  const child = spawn(process.execPath, [...SOURCE_FLAGS, source("test/helpers/postgres-server.ts"), ...pairs], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(child, "close");
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async (): Promise<string> => {
    const { value } = await answers.next();
    if (value === undefined) throw new Error("the private PostgreSQL server ended; its messages are above");
    return value;
  };
  child.stdin.on("error", () => undefined);
  const { url, pid } = JSON.parse(await answer()) as { url: string; pid: number };
  const tell = async (deed: string): Promise<void> => {
    child.stdin.write(`${deed}\n`);
    const reply = await answer();
    if (reply !== "ok") throw new Error(reply);
  };
  return {
    url,
    pid,
    stop: () => tell("stop"),
    kill: () => tell("kill"),
    start: () => tell("start"),
    pause: () => tell("pause"),
    go: () => tell("go"),
    process: child,
    ended,
  };
}

/**
 * Starts a server for one test or file. `settings` override the settings for tests (`fsync: "on"`, `max_connections:
 * "20"`).
 */
export async function ownServer(hooks: Hooks, settings: Readonly<Record<string, string>> = {}): Promise<OwnServer> {
  const started = await startServer(settings);
  hooks.after(async () => {
    started.process.stdin?.end();
    await started.ended;
  });
  return started;
}

let shared: Promise<string> | undefined;

/** URL of a user who may create databases: `GANTRY_TEST_POSTGRES`, or else a server of this process. */
export function postgresUrl(): Promise<string> {
  const { GANTRY_TEST_POSTGRES: configuredUrl } = process.env;
  return (shared ??= configuredUrl ? Promise.resolve(configuredUrl) : startShared());
}

async function startShared(): Promise<string> {
  const { process: child, url } = await startServer({});
  // The server does not keep this process alive. When this process ends, the server's stdin ends, and then the server.
  child.unref();
  for (const stream of [child.stdin, child.stdout]) (stream as unknown as { unref(): void }).unref();
  return url;
}

/** Runs statements as the administrator, each in its own transaction. Resolves with the rows of the last one. */
export async function asAdmin(url: string, ...statements: string[]): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  client.on("error", () => undefined);
  await client.connect();
  try {
    let rows: Record<string, unknown>[] = [];
    for (const statement of statements) ({ rows } = await client.query<Record<string, unknown>>(statement));
    return rows;
  } finally {
    await client.end();
  }
}

/**
 * The URL of a new empty database, which is dropped after the test. On a test's own server, it is removed with the
 * server.
 */
export async function postgresDatabase(hooks: Hooks, server?: OwnServer): Promise<string> {
  const admin = server?.url ?? (await postgresUrl());
  const name = `gantry_${randomBytes(8).toString("hex")}`;
  await asAdmin(admin, `CREATE DATABASE ${name}`);
  if (!server) hooks.after(() => asAdmin(admin, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).then(() => undefined));
  const url = new URL(admin);
  url.pathname = `/${name}`;
  return url.href;
}

/**
 * A name for a new schema in the database of all tests, or in the one at `at`. It is dropped after the test, once its
 * users are closed, because hooks run in the order of registration. Faster than a database.
 */
export async function postgresSchema(hooks: Hooks, at?: string): Promise<{ url: string; schema: string }> {
  const url = at ?? (await postgresUrl());
  const schema = `gantry_${randomBytes(8).toString("hex")}`;
  hooks.after(() => asAdmin(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE`).then(() => undefined));
  return { url, schema };
}
