// Starts the measured PostgreSQL: a private server with default durability, whose files are on the same disk as the other
// stores. If PostgreSQL is not installed, the bench uses the server in GANTRY_TEST_POSTGRES.
import { randomBytes } from "node:crypto";
import type { PostgresOptions } from "gantry/adapters/postgres-driver";
import { readTreeCpuMs } from "./processes.js";

/** Default values of the settings that tests change for speed. */
const DEFAULT_SETTINGS = {
  fsync: "on",
  full_page_writes: "on",
  shared_buffers: "128MB",
  wal_level: "replica",
  max_wal_size: "1GB",
};

/** Returns why PostgreSQL cannot be measured on this machine; undefined if PostgreSQL is available. */
export async function getPostgresSkipReason(): Promise<string | undefined> {
  const { NO_POSTGRES } = await import("../helpers/postgres.js");
  return NO_POSTGRES || undefined;
}

/** A schema on a server. Disposal removes the schema and the server; a server from GANTRY_TEST_POSTGRES remains. */
export class BenchDatabase implements AsyncDisposable {
  readonly #url: URL;
  readonly #schema = `gantry_${randomBytes(8).toString("hex")}`;
  readonly #pid: number | undefined;
  readonly #cleanups: (() => unknown)[];

  private constructor(url: string, pid: number | undefined, cleanups: (() => unknown)[]) {
    this.#url = new URL(url);
    this.#pid = pid;
    this.#cleanups = cleanups;
  }

  static async create(settings: Readonly<Record<string, string>> = {}): Promise<BenchDatabase> {
    const { startPrivateServer, getPostgresUrl, runAsAdmin } = await import("../helpers/postgres.js");
    const { findPostgres } = await import("../helpers/postgres-binaries.js");
    const cleanups: (() => unknown)[] = [];
    if (findPostgres()) {
      const { url, pid } = await startPrivateServer(
        { after: (cleanup) => void cleanups.push(cleanup) },
        { ...DEFAULT_SETTINGS, ...settings },
      );
      return new BenchDatabase(url, pid, cleanups);
    }
    const url = await getPostgresUrl();
    const database = new BenchDatabase(url, undefined, cleanups);
    cleanups.push(() => runAsAdmin(url, `DROP SCHEMA IF EXISTS ${database.#schema} CASCADE`));
    return database;
  }

  /** URL of an administrator. */
  get url(): string {
    return this.#url.href;
  }

  get schema(): string {
    return this.#schema;
  }

  get address(): { host: string; port: number } {
    return { host: this.#url.hostname, port: Number(this.#url.port || 5432) };
  }

  /** Creates the `session` section of a config. With `port`, the section names that port on this machine. */
  createSessionConfig(port?: number): { driver: string; url: string; schema: string } {
    const url = new URL(this.#url);
    if (port !== undefined) [url.hostname, url.port] = ["127.0.0.1", String(port)];
    return { driver: "postgres", url: url.href, schema: this.#schema };
  }

  /** Creates options of the driver with this pool size. */
  createDriverOptions(size = 10): PostgresOptions {
    const { url, schema } = this.createSessionConfig();
    return { url, schema, pool: { size } };
  }

  /** Reads the CPU time of the server and all its connections until now, in ms. NaN if the server is not private. */
  readCpuMs(): number {
    return this.#pid === undefined ? NaN : readTreeCpuMs(this.#pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const cleanup of this.#cleanups.splice(0)) await cleanup();
  }
}
