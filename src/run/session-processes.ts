import type { Bus } from "../base/bus.js";
import type { TaskSet } from "../base/task-set.js";
import type { BackgroundWork, ProcessState } from "../ports/background.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { AgentTools } from "./tools/agent-tools.js";
import type { DeletedElsewhere } from "./deleted-elsewhere.js";

/** Background processes that an agent's tools run for its sessions. Watchers see them; they end with the session. */
export class SessionProcesses {
  readonly #tools: AgentTools;
  readonly #changed: (sessionId: string) => void;
  readonly #store: () => Promise<SessionDriver>;
  readonly #tasks: TaskSet;
  #elsewhere: Promise<DeletedElsewhere> | undefined;
  #works: Promise<readonly BackgroundWork[]> | undefined;
  readonly #forget: (() => void)[] = [];

  /** @param changed Called when the process list of a session changes. */
  constructor(
    tools: AgentTools,
    bus: Bus<BusEvents>,
    tasks: TaskSet,
    store: () => Promise<SessionDriver>,
    changed: (sessionId: string) => void,
  ) {
    this.#tools = tools;
    this.#tasks = tasks;
    this.#store = store;
    this.#changed = (sessionId) => {
      changed(sessionId);
      void this.#heed(sessionId).catch(() => undefined);
    };
    bus.on("session.deleted", ({ ids }) => void tasks.add(this.#end(ids)));
  }

  /**
   * Processes of a session, by the id of its chain's first session. Empty if the tools cannot be loaded; a run reports
   * that error.
   */
  async list(sessionId: string): Promise<readonly ProcessState[]> {
    const works = await this.#had();
    return (await Promise.all(works.map((work) => work.list(sessionId)))).flat();
  }

  /** Subscribes to processes before a run starts, because the run may start some. Never rejects. */
  async watchProcesses(): Promise<void> {
    await this.#had();
  }

  /** Stops reporting changes. */
  close(): void {
    for (const forget of this.#forget) forget();
    this.#elsewhere?.then(
      (one) => one.close(),
      () => undefined,
    );
  }

  /** Also ends processes when another process deletes their session. */
  async #heed(sessionId: string): Promise<void> {
    const isNeeded = (await this.list(sessionId)).some(({ state, detached: keep }) => state === "running" && !keep);
    if (!isNeeded && !this.#elsewhere) return;
    this.#elsewhere ??= Promise.all([import("./deleted-elsewhere.js"), this.#store()]).then(
      ([{ DeletedElsewhere }, store]) => new DeletedElsewhere(store, (id) => void this.#tasks.add(this.#end([id]))),
    );
    // If the store is unreachable, the next change tries again.
    this.#elsewhere.catch(() => (this.#elsewhere = undefined));
    (await this.#elsewhere).listen(sessionId, isNeeded);
  }

  async #end(ids: readonly string[]): Promise<void> {
    for (const work of await this.#had()) await Promise.all(ids.map((id) => work.end(id)));
  }

  /** Loads the tools even before the first run, because an earlier process may have left processes running. */
  #had(): Promise<readonly BackgroundWork[]> {
    return (this.#works ??= this.#tools.load().then(
      ({ tools }) => {
        const works = [...new Set(tools.flatMap(({ background }) => background ?? []))];
        this.#forget.push(...works.map((work) => work.onChange(this.#changed)));
        return works;
      },
      () => {
        this.#works = undefined;
        return [];
      },
    ));
  }
}
