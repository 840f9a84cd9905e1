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
 * Why tests that need a server are skipped; false where they can run. For `it("...", { skip: NO_POSTGRES }, ...)`. A build
 * server never skips them.
 */
export const NO_POSTGRES: string | false =
  process.env.GANTRY_TEST_POSTGRES || process.env.CI || findPostgres() ? false : MISSING;

/** A server of a test's own, which it may stop and start. Its URL stays. */
export interface OwnServer {
  /** Of its administrator, password included. */
  readonly url: string;
  readonly pid: number;
  /** As an administrator stops it: connections are told, and what is under way is broken off. */
  stop(): Promise<void>;
  /** As it ends in a crash. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Every process of it stands still; connections stay, and nothing answers. */
  pause(): Promise<void>;
  go(): Promise<void>;
}

interface Started extends OwnServer {
  readonly process: ChildProcess;
  readonly ended: Promise<unknown>;
}

/** Start a private server; it ends with this process, however that ends. */
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
    const told = await answer();
    if (told !== "ok") throw new Error(told);
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

/** A server for one test or file alone, with settings of its own over those of tests (`fsync: "on"`, `max_connections: "20"`). */
export async function ownServer(hooks: Hooks, settings: Readonly<Record<string, string>> = {}): Promise<OwnServer> {
  const started = await startServer(settings);
  hooks.after(async () => {
    started.process.stdin?.end();
    await started.ended;
  });
  return started;
}

let shared: Promise<string> | undefined;

/** Of whoever may make databases: what `GANTRY_TEST_POSTGRES` says, else a server of this process. */
export function postgresUrl(): Promise<string> {
  const { GANTRY_TEST_POSTGRES: given } = process.env;
  return (shared ??= given ? Promise.resolve(given) : startShared());
}

async function startShared(): Promise<string> {
  const { process: child, url } = await startServer({});
  // It holds nobody up: when this process ends its stdin does, and then the server.
  child.unref();
  for (const stream of [child.stdin, child.stdout]) (stream as unknown as { unref(): void }).unref();
  return url;
}

/** Run statements as whoever may make databases, each by itself. */
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

/** The URL of a new empty database, which is dropped at the end; on a test's own server it goes with that. */
export async function postgresDatabase(hooks: Hooks, own?: OwnServer): Promise<string> {
  const admin = own?.url ?? (await postgresUrl());
  const name = `gantry_${randomBytes(8).toString("hex")}`;
  await asAdmin(admin, `CREATE DATABASE ${name}`);
  if (!own) hooks.after(() => asAdmin(admin, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).then(() => undefined));
  const url = new URL(admin);
  url.pathname = `/${name}`;
  return url.href;
}

/**
 * A name for a schema that is not there yet, in the database of all tests, or `at` another; dropped at the end (after what uses it was closed:
 * hooks run in the order in which they were given). Quicker than a database.
 */
export async function postgresSchema(hooks: Hooks, at?: string): Promise<{ url: string; schema: string }> {
  const url = at ?? (await postgresUrl());
  const schema = `gantry_${randomBytes(8).toString("hex")}`;
  hooks.after(() => asAdmin(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE`).then(() => undefined));
  return { url, schema };
}
