import { cp, mkdir, rm } from "node:fs/promises";
import { Agent, defineTool, type AgentOptions } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import type { ScriptedProvider } from "gantry/testing";
import type { FakeModelServer } from "./fake-model-server.js";
import { labConfig } from "./lab.js";
import { startServer, type GantryServer } from "./server.js";
import { tempDir, type Hooks, type TempDir } from "./temp.js";

/** Counts of the events of a fleet. */
export interface FleetCounts {
  kills: number;
  restarts: number;
  forgotten: number;
}

/** A tool that always succeeds without any effect. */
const noop = defineTool({ name: "noop", description: "Does nothing.", run: () => "done" });

/** Several servers on one store, each of which may be down, and an agent of this process on the same store. */
export class Fleet {
  readonly counts: FleetCounts = { kills: 0, restarts: 0, forgotten: 0 };
  readonly #hooks: Hooks;
  readonly #config: Record<string, unknown>;
  readonly #home: TempDir;
  readonly #project: TempDir;
  readonly #provider: () => ScriptedProvider;
  readonly #servers: (GantryServer | undefined)[];
  #agent: Agent;

  /** Starts `count` listening servers. `provider` creates the models of this process's agent. */
  static async start(
    hooks: Hooks,
    models: FakeModelServer,
    provider: () => ScriptedProvider,
    count = 2,
  ): Promise<Fleet> {
    const [home, project] = [await tempDir(hooks), await tempDir(hooks)];
    const config = labConfig(models, {
      compaction: { context_window: 7_000, keep_messages: 4 },
    });
    const fleet = new Fleet(hooks, config, home, project, provider, count);
    hooks.after(() => fleet.#agent.close());
    await Promise.all(Array.from({ length: count }, (_, n) => fleet.#up(n)));
    return fleet;
  }

  private constructor(
    hooks: Hooks,
    config: Record<string, unknown>,
    home: TempDir,
    project: TempDir,
    provider: () => ScriptedProvider,
    count: number,
  ) {
    this.#hooks = hooks;
    this.#config = config;
    this.#home = home;
    this.#project = project;
    this.#provider = provider;
    this.#servers = Array.from({ length: count }, () => undefined);
    this.#agent = this.#open();
  }

  /** The agent of this process, on the same store. */
  get agent(): Agent {
    return this.#agent;
  }

  /** A running server; undefined if none is running. */
  any(random: () => number): GantryServer | undefined {
    const up = this.#servers.filter((server) => server !== undefined);
    return up[Math.floor(random() * up.length)];
  }

  /** Kills or stops a server, and starts a new one in its place. Does nothing if it is already down. */
  async restart(n: number, signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const server = this.#servers[n];
    if (!server) return;
    this.counts[signal === "SIGKILL" ? "kills" : "restarts"] += 1;
    this.#servers[n] = undefined;
    await server.stop(signal);
    await this.#up(n);
  }

  /** Kills all servers and saves a copy of the store. */
  async keepDisk(): Promise<void> {
    await this.#allDown(async () => {
      await rm(this.#home.at("kept"), { recursive: true, force: true });
      await mkdir(this.#home.at("kept"));
      await this.#copy(this.#home.path, this.#home.at("kept"));
    });
  }

  /** Kills all servers and restores the saved store, as if later writes had never reached the disk. */
  async forgetDisk(): Promise<void> {
    await this.#allDown(async () => {
      for (const name of NAMES) await rm(this.#home.at(name), { recursive: true, force: true });
      await this.#copy(this.#home.at("kept"), this.#home.path);
    });
    this.counts.forgotten += 1;
  }

  async #allDown(work: () => Promise<void>): Promise<void> {
    const ended = this.#servers.map((server, n) => {
      this.#servers[n] = undefined;
      return server?.stop("SIGKILL");
    });
    await Promise.all([this.#agent.close(), ...ended]);
    await work();
    this.#agent = this.#open();
    await Promise.all(this.#servers.map((_, n) => this.#up(n)));
  }

  async #copy(from: string, to: string): Promise<void> {
    for (const name of NAMES.filter((name) => !name.endsWith("-shm")))
      await cp(`${from}/${name}`, `${to}/${name}`, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
      });
  }

  async #up(n: number): Promise<void> {
    this.#servers[n] = await startServer(this.#hooks, {
      config: this.#config,
      home: this.#home.path,
      projectDir: this.#project.path,
    });
  }

  #open(): Agent {
    const options: AgentOptions = {
      driver: new SqliteDriver({ path: this.#home.at("sessions.db") }),
      providers: [this.#provider()],
      tools: [noop],
      projectDir: this.#project.path,
      compaction: { strategy: "sliding-window", threshold: 0.01 },
    };
    return new Agent(options);
  }
}

/** Files of the store. */
const NAMES = ["sessions.db", "sessions.db-wal", "sessions.db-shm"];
