import { cp, mkdir, rm } from "node:fs/promises";
import { Agent, defineTool, type AgentOptions } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import type { ScriptedProvider } from "gantry/testing";
import type { FakeModelServer } from "./fake-model-server.js";
import { createServerConfig } from "./server-runs.js";
import { startServer, type GantryServer } from "./server.js";
import { tempDir, type Hooks, type TempDir } from "./temp-dir.js";

export interface ServerGroupCounts {
  /** Number of servers that `restart` killed with SIGKILL. */
  kills: number;
  /** Number of servers that `restart` stopped with SIGTERM. */
  restarts: number;
  diskRollbacks: number;
}

/** A tool that always succeeds without any effect. */
const noop = defineTool({ name: "noop", description: "Does nothing.", run: () => "done" });

/** Several servers on one store, each of which may be down, and an agent of this process on the same store. */
export class ServerGroup {
  readonly counts: ServerGroupCounts = { kills: 0, restarts: 0, diskRollbacks: 0 };
  readonly #hooks: Hooks;
  readonly #config: Record<string, unknown>;
  readonly #homeFolder: TempDir;
  readonly #projectFolder: TempDir;
  readonly #createProvider: () => ScriptedProvider;
  readonly #servers: (GantryServer | undefined)[];
  #agent: Agent;

  /** Starts `count` listening servers. `createProvider` creates the models of this process's agent. */
  static async start(
    hooks: Hooks,
    models: FakeModelServer,
    createProvider: () => ScriptedProvider,
    count = 2,
  ): Promise<ServerGroup> {
    const [home, project] = [await tempDir(hooks), await tempDir(hooks)];
    // A small context window, so that runs compact often.
    const config = createServerConfig(models, {
      compaction: { context_window: 7_000, keep_messages: 4 },
    });
    const group = new ServerGroup(hooks, config, home, project, createProvider, count);
    hooks.after(() => group.#agent.close());
    await Promise.all(Array.from({ length: count }, (_, n) => group.#startServer(n)));
    return group;
  }

  private constructor(
    hooks: Hooks,
    config: Record<string, unknown>,
    home: TempDir,
    project: TempDir,
    createProvider: () => ScriptedProvider,
    count: number,
  ) {
    this.#hooks = hooks;
    this.#config = config;
    this.#homeFolder = home;
    this.#projectFolder = project;
    this.#createProvider = createProvider;
    this.#servers = Array.from({ length: count }, () => undefined);
    this.#agent = this.#openAgent();
  }

  /** The agent of this process, on the same store. */
  get agent(): Agent {
    return this.#agent;
  }

  /** A running server; undefined if none is running. */
  pickServer(random: () => number): GantryServer | undefined {
    const runningServers = this.#servers.filter((server) => server !== undefined);
    return runningServers[Math.floor(random() * runningServers.length)];
  }

  /** Kills or stops a server, and starts a new server in its place. Does nothing if the server is already down. */
  async restart(index: number, signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const server = this.#servers[index];
    if (!server) return;
    this.counts[signal === "SIGKILL" ? "kills" : "restarts"] += 1;
    this.#servers[index] = undefined;
    await server.stop(signal);
    await this.#startServer(index);
  }

  /** Kills all servers and saves a copy of the store. */
  async saveDisk(): Promise<void> {
    await this.#withStoppedServers(async () => {
      await rm(this.#homeFolder.at("kept"), { recursive: true, force: true });
      await mkdir(this.#homeFolder.at("kept"));
      await this.#copyStore(this.#homeFolder.path, this.#homeFolder.at("kept"));
    });
  }

  /** Kills all servers and restores the saved store, as if later writes had never reached the disk. */
  async rollBackDisk(): Promise<void> {
    await this.#withStoppedServers(async () => {
      for (const name of STORE_FILES) await rm(this.#homeFolder.at(name), { recursive: true, force: true });
      await this.#copyStore(this.#homeFolder.at("kept"), this.#homeFolder.path);
    });
    this.counts.diskRollbacks += 1;
  }

  async #withStoppedServers(work: () => Promise<void>): Promise<void> {
    const stops = this.#servers.map((server, n) => {
      this.#servers[n] = undefined;
      return server?.stop("SIGKILL");
    });
    await Promise.all([this.#agent.close(), ...stops]);
    await work();
    this.#agent = this.#openAgent();
    await Promise.all(this.#servers.map((_, n) => this.#startServer(n)));
  }

  async #copyStore(source: string, target: string): Promise<void> {
    for (const name of STORE_FILES.filter((name) => !name.endsWith("-shm")))
      await cp(`${source}/${name}`, `${target}/${name}`, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
      });
  }

  async #startServer(n: number): Promise<void> {
    this.#servers[n] = await startServer(this.#hooks, {
      config: this.#config,
      home: this.#homeFolder.path,
      projectDir: this.#projectFolder.path,
    });
  }

  #openAgent(): Agent {
    const options: AgentOptions = {
      driver: new SqliteDriver({ path: this.#homeFolder.at("sessions.db") }),
      providers: [this.#createProvider()],
      tools: [noop],
      projectDir: this.#projectFolder.path,
      compaction: { strategy: "sliding-window", threshold: 0.01 },
    };
    return new Agent(options);
  }
}

/** Files of the SQLite store. */
const STORE_FILES = ["sessions.db", "sessions.db-wal", "sessions.db-shm"];
