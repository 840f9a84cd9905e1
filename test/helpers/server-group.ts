import type { FakeModelServer } from "./fake-model-server.js";
import { createGroupStore, type GroupStore } from "./group-stores.js";
import { createServerConfig, pause } from "./server-runs.js";
import { startServer, type GantryOptions, type GantryServer } from "./server.js";
import { skewedClock } from "./skewed-clock.js";
import { tempDir, type Hooks } from "./temp-dir.js";

/** Differences of the servers' clocks from the clock of this process, in ms. */
const CLOCK_OFFSETS_MS = [5_400_000, 0, -3_600_000];

/** Several servers on one store, each of which may be down or suspended. */
export class ServerGroup {
  /** Numbers of faults. `kills`: with SIGKILL; `restarts`: with SIGTERM. */
  readonly counts = { kills: 0, restarts: 0, suspensions: 0, fullDisks: 0, answerCuts: 0, diskRollbacks: 0 };
  readonly store: GroupStore;
  readonly #hooks: Hooks;
  readonly #options: GantryOptions & { home: string };
  readonly #servers: (GantryServer | undefined)[];
  #startCount = 0;
  /** Headers of requests from this process, which servers in another user namespace cannot identify. */
  headers: Record<string, string> = {};

  /** Starts the servers, each with another clock: three, or one if the store permits only one process. */
  static async start(hooks: Hooks, driver: string, models: FakeModelServer): Promise<ServerGroup> {
    const [home, project] = [await tempDir(hooks), await tempDir(hooks)];
    const store = await createGroupStore(hooks, home, project.path, driver);
    // A small context window, so that runs compact often.
    const compaction = { context_window: 7_000, keep_messages: 4 };
    const config = createServerConfig(models, { compaction, session: store.session });
    const options = { config, home: home.path, projectDir: project.path, ...store.serverOptions };
    const group = new ServerGroup(hooks, store, options);
    // Only the first server creates the store.
    for (const [index] of group.#servers.entries()) await group.#startServer(index);
    return group;
  }

  private constructor(hooks: Hooks, store: GroupStore, options: GantryOptions & { home: string }) {
    this.#hooks = hooks;
    this.store = store;
    this.#options = options;
    this.#servers = CLOCK_OFFSETS_MS.slice(0, store.maxServers).map(() => undefined);
  }

  /** A running server; undefined if none is running. */
  pickServer(random: () => number): GantryServer | undefined {
    const runningServers = this.#servers.filter((server) => server !== undefined);
    return runningServers[Math.floor(random() * runningServers.length)];
  }

  /** A function like `fetch` that sends each request to a random server, whichever the host of its URL. */
  createFetch(random: () => number): typeof fetch {
    return async (input, init) => {
      const server = this.pickServer(random);
      if (!server) throw new TypeError("no server is up");
      const { pathname, search } = new URL(input instanceof Request ? input.url : input, "http://gantry.invalid");
      const headers = new Headers(init?.headers);
      for (const [name, value] of Object.entries(this.headers)) headers.set(name, value);
      return fetch(new URL(pathname + search, server.url), { ...init, headers });
    };
  }

  /** Kills or stops a server, and starts a new server in its place. Does nothing if the server is already down. */
  async restart(random: () => number, signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const server = this.pickServer(random);
    if (!server) return;
    this.counts[signal === "SIGKILL" ? "kills" : "restarts"] += 1;
    const index = this.#servers.indexOf(server);
    this.#servers[index] = undefined;
    await server.stop(signal);
    await this.#startServer(index);
  }

  /** Stops a server with SIGSTOP for `ms`; the server stays in the group. */
  async suspend(random: () => number, ms: number): Promise<void> {
    const server = this.pickServer(random);
    if (!server) return;
    this.counts.suspensions += 1;
    server.child.kill("SIGSTOP");
    await pause(ms);
    server.child.kill("SIGCONT");
  }

  /** Uses up the store's disk for `ms`. */
  async fillDisk(ms: number): Promise<void> {
    if (!this.store.disk) return;
    this.counts.fullDisks += 1;
    await this.store.disk.fill();
    await pause(ms);
    await this.store.disk.free();
  }

  /** Loses the next answers of the store. */
  cutAnswers(random: () => number): void {
    if (!this.store.cutAnswers) return;
    this.counts.answerCuts += 1;
    this.store.cutAnswers(random);
  }

  /** Kills all servers and saves a copy of the store. */
  async saveDisk(): Promise<void> {
    await this.#withStoppedServers(async () => this.store.copy?.save());
  }

  /** Kills all servers and restores the saved store, as if later writes had never reached the disk. */
  async rollBackDisk(): Promise<void> {
    await this.#withStoppedServers(async () => this.store.copy?.restore());
    this.counts.diskRollbacks += 1;
  }

  async #withStoppedServers(work: () => Promise<void>): Promise<void> {
    await Promise.all(
      this.#servers.map(async (server, n) => {
        this.#servers[n] = undefined;
        await server?.stop("SIGKILL");
      }),
    );
    await work();
    await Promise.all(this.#servers.map((_, n) => this.#startServer(n)));
  }

  async #startServer(index: number): Promise<void> {
    // A single server has another clock after each start.
    const clock = this.#servers.length === 1 ? (this.#startCount += 1) : index;
    const env = skewedClock(CLOCK_OFFSETS_MS[clock % CLOCK_OFFSETS_MS.length] ?? 0);
    const server = await startServer(this.#hooks, { ...this.#options, env });
    this.headers = server.personHeaders;
    this.#servers[index] = server;
  }
}
