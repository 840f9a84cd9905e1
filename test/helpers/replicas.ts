import { readFile } from "node:fs/promises";
import type { SessionDriver } from "gantry/plugin";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { Balancer, type BalancerOptions } from "./balancer.js";
import type { FakeModelServer } from "./fake-model-server.js";
import { labConfig } from "./lab.js";
import { NO_POSTGRES, postgresSchema } from "./postgres.js";
import { startServer, type Exit, type GantryOptions, type GantryServer } from "./server.js";
import { makeTempDir, tempDir, type Hooks } from "./temp.js";

/** A store that several processes share: `session` of their config, and what takes it away. */
export interface SharedStore {
  name: string;
  session: Readonly<Record<string, unknown>>;
  close: () => Promise<void>;
}

/** A new store in a file. */
export async function sqliteStore(): Promise<SharedStore> {
  const folder = await makeTempDir();
  const session = { driver: "sqlite", path: folder.at("sessions.db") };
  return { name: "sqlite", session, close: () => folder.remove() };
}

/** A new store in a schema of a server: of the tests' own, or at this URL. */
export async function postgresStore(url?: string): Promise<SharedStore> {
  const ends: (() => Promise<void> | void)[] = [];
  const place = await postgresSchema({ after: (end) => void ends.push(end) }, url);
  const close = async () => {
    for (const end of ends) await end();
  };
  return { name: "postgres", session: { driver: "postgres", ...place }, close };
}

/** This process on a store; to be closed. */
export async function driverOf({ session }: SharedStore): Promise<SessionDriver> {
  const { path, url, schema } = session as Record<string, string>;
  // A file of tests, by itself.
  const { postgresOptions } = await import("./stores.js");
  const driver =
    path === undefined
      ? new PostgresDriver(postgresOptions({ url: url ?? "", schema: schema ?? "" }))
      : new SqliteDriver({ path });
  await driver.open();
  return driver;
}

/**
 * Each kind that a team may use: its name, why it is not to be had here, and a new one. PostgreSQL alone where it is to be
 * had: what servers do on SQLite is in tests of its own. With STORES=all both.
 */
export const SHARED_STORES: readonly (readonly [
  name: string,
  skip: string | false,
  open: () => Promise<SharedStore>,
])[] = [
  ...(NO_POSTGRES || process.env["STORES"] === "all" ? [["sqlite", false, sqliteStore] as const] : []),
  ["postgres", NO_POSTGRES, postgresStore],
];

export interface ReplicasOptions {
  /** Default 3. */
  count?: number;
  /** Replaces whole keys of each one's config. */
  config?: Readonly<Record<string, unknown>>;
  /** Default one new folder that all have. */
  projectDir?: string;
  from?: GantryOptions["from"];
  /** What is its own of one: another folder, another host. */
  each?: (index: number) => Partial<GantryOptions>;
}

/** `gantry serve` several times on one store, as a team runs it: each has a home of its own, and may die and come back. */
export class Replicas {
  readonly store: SharedStore;
  readonly projectDir: string;
  readonly counts = { kills: 0, drains: 0, starts: 0 };
  readonly #hooks: Hooks;
  readonly #options: readonly GantryOptions[];
  readonly #servers: (GantryServer | undefined)[];
  /** Where each was last. */
  readonly #urls: string[];
  /** Of those that ended, for what they said. */
  readonly #ended: GantryServer[] = [];

  /** The store goes with them. */
  static async start(
    hooks: Hooks,
    store: SharedStore,
    models: FakeModelServer,
    options: ReplicasOptions = {},
  ): Promise<Replicas> {
    const { count = 3, config = {}, from, each } = options;
    const projectDir = options.projectDir ?? (await tempDir(hooks)).path;
    const homes = await Promise.all(Array.from({ length: count }, () => tempDir(hooks)));
    const servers = homes.map(({ path: home }, n): GantryOptions => ({
      home,
      projectDir,
      config: labConfig(models, { session: store.session, ...config }),
      ...(from && { from }),
      ...each?.(n),
    }));
    const replicas = new Replicas(hooks, store, projectDir, servers);
    hooks.after(() => replicas.#end());
    // The first one alone makes the store.
    await replicas.up(0);
    await Promise.all(servers.slice(1).map((_, n) => replicas.up(n + 1)));
    return replicas;
  }

  private constructor(hooks: Hooks, store: SharedStore, projectDir: string, options: readonly GantryOptions[]) {
    this.#hooks = hooks;
    this.store = store;
    this.projectDir = projectDir;
    this.#options = options;
    this.#servers = options.map(() => undefined);
    this.#urls = options.map(() => "http://127.0.0.1:1");
  }

  get count(): number {
    return this.#options.length;
  }

  /** Where each is, or was when it was last there. */
  get urls(): readonly string[] {
    return this.#urls;
  }

  /** One that is up; throws where it is down. */
  at(index: number): GantryServer {
    const server = this.#servers[index];
    if (!server) throw new Error(`replica ${index} is down`);
    return server;
  }

  isUp(index: number): boolean {
    return this.#servers[index] !== undefined;
  }

  /** Start one that is down. */
  async up(index: number): Promise<GantryServer> {
    const options = this.#options[index];
    if (!options || this.#servers[index]) throw new Error(`replica ${index} is up already, or there is none`);
    const server = await startServer(this.#hooks, options);
    this.counts.starts += 1;
    this.#servers[index] = server;
    this.#urls[index] = server.url;
    return server;
  }

  /** End one: by SIGKILL it dies, by SIGTERM it drains. */
  async down(index: number, signal: "SIGKILL" | "SIGTERM"): Promise<Exit> {
    const server = this.at(index);
    this.#servers[index] = undefined;
    this.#ended.push(server);
    this.counts[signal === "SIGKILL" ? "kills" : "drains"] += 1;
    return server.stop(signal);
  }

  async #end(): Promise<void> {
    await Promise.all(this.#servers.map(async (server) => server?.stop("SIGKILL")));
    await this.store.close();
  }

  balancer(options: BalancerOptions = {}): Promise<Balancer> {
    return Balancer.start(this.#hooks, () => this.#urls, options);
  }

  /** What all that ever ran wrote to stderr. */
  get stderr(): string {
    return [...this.#ended, ...this.#servers].map((server) => server?.stderr ?? "").join("");
  }

  /** Resident memory of each that is up, in bytes; where the system does not tell, none. */
  async memory(): Promise<number[]> {
    const up = this.#servers.filter((server) => server !== undefined);
    const told = up.map(async ({ pid }) => {
      const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
      return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
    });
    return (await Promise.all(told)).filter((bytes) => bytes > 0);
  }
}
