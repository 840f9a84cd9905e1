// The measured PostgreSQL: a private server with default durability, and its files on the same disk as the other
// stores. If no server is installed, the one that GANTRY_TEST_POSTGRES names.
import { randomBytes } from "node:crypto";
import type { PostgresOptions } from "gantry/adapters/postgres-driver";
import { cpuOfTree } from "./processes.js";

/** Default values of the settings that tests change for speed. */
const AS_BY_DEFAULT = {
  fsync: "on",
  full_page_writes: "on",
  shared_buffers: "128MB",
  wal_level: "replica",
  max_wal_size: "1GB",
};

/** Why PostgreSQL cannot be measured here; undefined if it can. */
export async function lacksPostgres(): Promise<string | undefined> {
  const { NO_POSTGRES } = await import("../helpers/postgres.js");
  return NO_POSTGRES || undefined;
}

/** A schema on a server. Disposal removes both; a server from GANTRY_TEST_POSTGRES remains. */
export class BenchDatabase implements AsyncDisposable {
  readonly #url: URL;
  readonly #schema = `gantry_${randomBytes(8).toString("hex")}`;
  readonly #pid: number | undefined;
  readonly #after: (() => unknown)[];

  private constructor(url: string, pid: number | undefined, after: (() => unknown)[]) {
    this.#url = new URL(url);
    this.#pid = pid;
    this.#after = after;
  }

  static async create(settings: Readonly<Record<string, string>> = {}): Promise<BenchDatabase> {
    const { ownServer, postgresUrl, asAdmin } = await import("../helpers/postgres.js");
    const { findPostgres } = await import("../helpers/postgres-binaries.js");
    const after: (() => unknown)[] = [];
    if (findPostgres()) {
      const { url, pid } = await ownServer(
        { after: (work) => void after.push(work) },
        { ...AS_BY_DEFAULT, ...settings },
      );
      return new BenchDatabase(url, pid, after);
    }
    const url = await postgresUrl();
    const database = new BenchDatabase(url, undefined, after);
    after.push(() => asAdmin(url, `DROP SCHEMA IF EXISTS ${database.#schema} CASCADE`));
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

  /** The `session` section of a config. With `port`, it uses that port on this machine. */
  session(port?: number): { driver: string; url: string; schema: string } {
    const url = new URL(this.#url);
    if (port !== undefined) [url.hostname, url.port] = ["127.0.0.1", String(port)];
    return { driver: "postgres", url: url.href, schema: this.#schema };
  }

  /** Options for the driver. */
  options(size = 10): PostgresOptions {
    const { url, schema } = this.session();
    return { url, schema, pool: { size } };
  }

  /** CPU time of the server and all its connections until now, in ms. NaN if the server is not private. */
  cpu(): number {
    return this.#pid === undefined ? NaN : cpuOfTree(this.#pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const work of this.#after.splice(0)) await work();
  }
}
