import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Client } from "pg";
import { SOURCE_FLAGS, sourcePath } from "./source-paths.js";
import { findPostgres } from "./postgres-binaries.js";
import type { Hooks } from "./temp-dir.js";

const MISSING_SERVER_MESSAGE =
  "no PostgreSQL server: install one (apt-get install postgresql), or name one (GANTRY_TEST_POSTGRES=postgres://...)";

/**
 * Why tests with PostgreSQL are skipped; false if they can run. For `it("...", { skip: NO_POSTGRES }, ...)`. On CI such
 * tests are never skipped.
 */
export const NO_POSTGRES: string | false =
  process.env.GANTRY_TEST_POSTGRES || process.env.CI || findPostgres() ? false : MISSING_SERVER_MESSAGE;

/** A test's own server, which the test can stop and start. Its URL does not change. */
export interface PrivateServer {
  /** URL of its administrator, with the password. */
  readonly url: string;
  readonly pid: number;
  /** Stops as an administrator does: clients are notified and running statements aborted. */
  stop(): Promise<void>;
  /** Simulates a crash: clients are not notified, and the next start recovers. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Pauses all processes of the server: connections stay open, but nothing responds. */
  pause(): Promise<void>;
  resume(): Promise<void>;
}

interface StartedServer extends PrivateServer {
  readonly process: ChildProcess;
  readonly closeEvent: Promise<unknown>;
}

/** Starts a private server, which ends with this process, even if this process is killed. */
async function startServer(settings: Readonly<Record<string, string>>): Promise<StartedServer> {
  if (!findPostgres()) throw new Error(MISSING_SERVER_MESSAGE);
  const settingArguments = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
  const child = spawn(
    process.execPath,
    [...SOURCE_FLAGS, sourcePath("test/helpers/postgres-server.ts"), ...settingArguments],
    {
      stdio: ["pipe", "pipe", "inherit"],
    },
  );
  const closeEvent = once(child, "close");
  const responseLines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const readResponse = async (): Promise<string> => {
    const { value } = await responseLines.next();
    if (value === undefined) throw new Error("the private PostgreSQL server ended; its messages are above");
    return value;
  };
  child.stdin.on("error", () => undefined);
  const { url, pid } = JSON.parse(await readResponse()) as { url: string; pid: number };
  const sendCommand = async (command: string): Promise<void> => {
    child.stdin.write(`${command}\n`);
    const reply = await readResponse();
    if (reply !== "ok") throw new Error(reply);
  };
  return {
    url,
    pid,
    stop: () => sendCommand("stop"),
    kill: () => sendCommand("kill"),
    start: () => sendCommand("start"),
    pause: () => sendCommand("pause"),
    resume: () => sendCommand("go"),
    process: child,
    closeEvent,
  };
}

/**
 * Starts a server for one test or file. `settings` override the settings for tests (`fsync: "on"`, `max_connections:
 * "20"`).
 */
export async function startPrivateServer(
  hooks: Hooks,
  settings: Readonly<Record<string, string>> = {},
): Promise<PrivateServer> {
  const startedServer = await startServer(settings);
  hooks.after(async () => {
    startedServer.process.stdin?.end();
    await startedServer.closeEvent;
  });
  return startedServer;
}

let sharedServerUrl: Promise<string> | undefined;

/** URL of a user who may create databases: `GANTRY_TEST_POSTGRES`, otherwise a server that this process starts. */
export function getPostgresUrl(): Promise<string> {
  const { GANTRY_TEST_POSTGRES: configuredUrl } = process.env;
  return (sharedServerUrl ??= configuredUrl ? Promise.resolve(configuredUrl) : startSharedServer());
}

async function startSharedServer(): Promise<string> {
  const { process: child, url } = await startServer({});
  // The server does not keep this process alive. When this process ends, the server's stdin ends, and then the server.
  child.unref();
  for (const stream of [child.stdin, child.stdout]) (stream as unknown as { unref(): void }).unref();
  return url;
}

/** Runs statements as the administrator, each in its own transaction. Resolves with the rows of the last one. */
export async function runAsAdmin(url: string, ...statements: string[]): Promise<Record<string, unknown>[]> {
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
 * Creates an empty database and resolves with its URL. The database is dropped after the test. A database of `server`
 * is removed with that server.
 */
export async function createPostgresDatabase(hooks: Hooks, server?: PrivateServer): Promise<string> {
  const adminUrl = server?.url ?? (await getPostgresUrl());
  const name = `gantry_${randomBytes(8).toString("hex")}`;
  await runAsAdmin(adminUrl, `CREATE DATABASE ${name}`);
  if (!server)
    hooks.after(() => runAsAdmin(adminUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).then(() => undefined));
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/**
 * A name for a new schema in the database of all tests, or in the one at `existingUrl`. It is dropped after the test, once its
 * users are closed, because hooks run in the order of registration. Faster than a database.
 */
export async function createPostgresSchema(
  hooks: Hooks,
  existingUrl?: string,
): Promise<{ url: string; schema: string }> {
  const url = existingUrl ?? (await getPostgresUrl());
  const schema = `gantry_${randomBytes(8).toString("hex")}`;
  hooks.after(() => runAsAdmin(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE`).then(() => undefined));
  return { url, schema };
}
