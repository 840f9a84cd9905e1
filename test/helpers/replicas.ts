import { readFile } from "node:fs/promises";
import type { SessionDriver } from "gantry/plugin";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { Balancer, type BalancerOptions } from "./balancer.js";
import type { FakeModelServer } from "./fake-model-server.js";
import { createServerConfig } from "./server-runs.js";
import { NO_POSTGRES, createPostgresSchema } from "./postgres.js";
import { startServer, type ProcessExit, type GantryOptions, type GantryServer } from "./server.js";
import { makeTempDir, tempDir, type Hooks } from "./temp-dir.js";

/**
 * A store that several processes share: the `session` section of their config, and a function that removes the store.
 */
export interface SharedStore {
  name: string;
  session: Readonly<Record<string, unknown>>;
  close: () => Promise<void>;
}

/** Creates a store in a file. */
export async function createSqliteStore(): Promise<SharedStore> {
  const folder = await makeTempDir();
  const session = { driver: "sqlite", path: folder.at("sessions.db") };
  return { name: "sqlite", session, close: () => folder.remove() };
}

/** Creates a store in a schema of a server: the tests' own, or the one at `url`. */
export async function createPostgresStore(url?: string): Promise<SharedStore> {
  const cleanups: (() => Promise<void> | void)[] = [];
  const location = await createPostgresSchema({ after: (cleanup) => void cleanups.push(cleanup) }, url);
  const close = async () => {
    for (const cleanup of cleanups) await cleanup();
  };
  return { name: "postgres", session: { driver: "postgres", ...location, pool: { connect_timeout: 120 } }, close };
}

/** Opens a driver of this process on a store; the caller closes it. */
export async function openDriver({ session }: SharedStore): Promise<SessionDriver> {
  const { path, url, schema } = session as Record<string, string>;
  // Imported here, because that module registers tests.
  const { postgresOptions } = await import("./stores.js");
  const driver =
    path === undefined
      ? new PostgresDriver(postgresOptions({ url: url ?? "", schema: schema ?? "" }))
      : new SqliteDriver({ path });
  await driver.open();
  return driver;
}

/**
 * Store kinds for several servers: name, reason to skip, and a function that creates a new store. Only PostgreSQL if a
 * server is available, because other tests cover servers on SQLite. STORES=all selects both.
 */
export const SHARED_STORES: readonly (readonly [
  name: string,
  skip: string | false,
  open: () => Promise<SharedStore>,
])[] = [
  ...(NO_POSTGRES || process.env["STORES"] === "all" ? [["sqlite", false, createSqliteStore] as const] : []),
  ["postgres", NO_POSTGRES, createPostgresStore],
];

export interface ReplicasOptions {
  /** Default 3. */
  count?: number;
  /** Replaces whole keys of each replica's config. */
  config?: Readonly<Record<string, unknown>>;
  /** Default: one new folder for all replicas. */
  projectDir?: string;
  from?: GantryOptions["from"];
  /** Options of a single replica, for example another folder or host. */
  optionsFor?: (index: number) => Partial<GantryOptions>;
}

/**
 * Several `gantry serve` processes on one store, as a team runs them. Each has its own home, and may be stopped and
 * started again.
 */
export class Replicas {
  readonly store: SharedStore;
  readonly projectDir: string;
  readonly counts = { kills: 0, drains: 0, starts: 0 };
  readonly #hooks: Hooks;
  readonly #options: readonly GantryOptions[];
  readonly #servers: (GantryServer | undefined)[];
  /** URL of each replica: the current URL, or the last one of a replica that is down. */
  readonly #urls: string[];
  /** Ended servers, for their output. */
  readonly #endedServers: GantryServer[] = [];

  /** Starts the replicas. After the test, the replicas are killed and the store is removed. */
  static async start(
    hooks: Hooks,
    store: SharedStore,
    models: FakeModelServer,
    options: ReplicasOptions = {},
  ): Promise<Replicas> {
    const { count = 3, config = {}, from, optionsFor } = options;
    // On a loaded machine, a connection can wait for many seconds before its request arrives.
    const limits = { header_timeout: 120, request_timeout: 300, ...(config["limits"] as object | undefined) };
    const projectDir = options.projectDir ?? (await tempDir(hooks)).path;
    const homes = await Promise.all(Array.from({ length: count }, () => tempDir(hooks)));
    const serverOptions = homes.map(({ path: home }, n): GantryOptions => ({
      home,
      projectDir,
      config: createServerConfig(models, { session: store.session, ...config, limits }),
      ...(from && { from }),
      ...optionsFor?.(n),
    }));
    const replicas = new Replicas(hooks, store, projectDir, serverOptions);
    hooks.after(() => replicas.#end());
    // Only the first replica creates the store.
    await replicas.startReplica(0);
    await Promise.all(serverOptions.slice(1).map((_, n) => replicas.startReplica(n + 1)));
    return replicas;
  }

  private constructor(hooks: Hooks, store: SharedStore, projectDir: string, options: readonly GantryOptions[]) {
    this.#hooks = hooks;
    this.store = store;
    this.projectDir = projectDir;
    this.#options = options;
    this.#servers = options.map(() => undefined);
    // A URL that refuses connections.
    this.#urls = options.map(() => "http://127.0.0.1:1");
  }

  get count(): number {
    return this.#options.length;
  }

  /** URL of each replica: the current URL, or the last one of a replica that is down. */
  get urls(): readonly string[] {
    return this.#urls;
  }

  /** A running replica; throws if it is down. */
  getServer(index: number): GantryServer {
    const server = this.#servers[index];
    if (!server) throw new Error(`replica ${index} is down`);
    return server;
  }

  isRunning(index: number): boolean {
    return this.#servers[index] !== undefined;
  }

  /** Starts a replica that is down. */
  async startReplica(index: number): Promise<GantryServer> {
    const options = this.#options[index];
    if (!options || this.#servers[index]) throw new Error(`replica ${index} is up already, or there is none`);
    const server = await startServer(this.#hooks, options);
    this.counts.starts += 1;
    this.#servers[index] = server;
    this.#urls[index] = server.url;
    return server;
  }

  /** Ends a replica: SIGKILL kills it, SIGTERM drains it. */
  async stopReplica(index: number, signal: "SIGKILL" | "SIGTERM"): Promise<ProcessExit> {
    const server = this.getServer(index);
    this.#servers[index] = undefined;
    this.#endedServers.push(server);
    this.counts[signal === "SIGKILL" ? "kills" : "drains"] += 1;
    return server.stop(signal);
  }

  async #end(): Promise<void> {
    await Promise.all(this.#servers.map(async (server) => server?.stop("SIGKILL")));
    await this.store.close();
  }

  startBalancer(options: BalancerOptions = {}): Promise<Balancer> {
    return Balancer.start(this.#hooks, () => this.#urls, options);
  }

  /** Stderr of all servers that ever ran. */
  get stderr(): string {
    return [...this.#endedServers, ...this.#servers].map((server) => server?.stderr ?? "").join("");
  }

  /** Resident memory of each running replica, in bytes; empty if the system does not report it. */
  async readMemoryBytes(): Promise<number[]> {
    const runningServers = this.#servers.filter((server) => server !== undefined);
    const memoryReads = runningServers.map(async ({ pid }) => {
      const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
      return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
    });
    return (await Promise.all(memoryReads)).filter((bytes) => bytes > 0);
  }
}
