import type { Bus } from "../../base/bus.js";
import type { TaskSet } from "../../base/task-set.js";
import type { BackgroundWork, ProcessState } from "../../ports/background.js";
import type { BusEvents } from "../../ports/bus-events.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { DeletionWatcher } from "./deletion-watcher.js";
import type { AgentTools } from "./tool-sources.js";

/**
 * Background processes that an agent's tools run for its sessions. Watchers see these processes, which end with the
 * session.
 */
export class SessionProcesses {
  readonly #tools: AgentTools;
  readonly #onChange: (sessionId: string) => void;
  readonly #store: () => Promise<SessionDriver>;
  readonly #tasks: TaskSet;
  #deletionWatcher: Promise<DeletionWatcher> | undefined;
  /** Empty until the tools are loaded. */
  #backgroundWorks: readonly BackgroundWork[] = [];
  #unsubscribeFunctions: readonly (() => void)[] = [];

  /** @param onChange Called when the process list of a session changes. */
  constructor(
    tools: AgentTools,
    bus: Bus<BusEvents>,
    tasks: TaskSet,
    store: () => Promise<SessionDriver>,
    onChange: (sessionId: string) => void,
  ) {
    this.#tools = tools;
    this.#tasks = tasks;
    this.#store = store;
    this.#onChange = (sessionId) => {
      onChange(sessionId);
      void this.#watchDeletion(sessionId).catch(() => undefined);
    };
    // Subscribes before the first run starts, because the run may start processes.
    tools.onLoaded = (list) => {
      this.#backgroundWorks = [...new Set(list.tools.flatMap(({ background }) => background ?? []))];
      this.#unsubscribeFunctions = this.#backgroundWorks.map((work) => work.onChange(this.#onChange));
    };
    bus.on("session.deleted", ({ ids }) => void tasks.add(this.#endProcesses(ids)));
  }

  /**
   * Lists the processes of a session. `sessionId` is the id of the chain's first session. Empty if the tools cannot be
   * loaded; a run reports that error.
   */
  async list(sessionId: string): Promise<readonly ProcessState[]> {
    const backgroundWorks = await this.#loadBackgroundWork();
    return (await Promise.all(backgroundWorks.map((work) => work.list(sessionId)))).flat();
  }

  close(): void {
    for (const unsubscribe of this.#unsubscribeFunctions) unsubscribe();
    this.#deletionWatcher?.then(
      (watcher) => watcher.close(),
      () => undefined,
    );
  }

  /** Ends the background processes of a session when another gantry process deletes it. */
  async #watchDeletion(sessionId: string): Promise<void> {
    const shouldListen = (await this.list(sessionId)).some(({ state, detached }) => state === "running" && !detached);
    if (!shouldListen && !this.#deletionWatcher) return;
    this.#deletionWatcher ??= Promise.all([import("./deletion-watcher.js"), this.#store()]).then(
      ([{ DeletionWatcher }, store]) =>
        new DeletionWatcher(store, (id) => void this.#tasks.add(this.#endProcesses([id]))),
    );
    // If the store is unreachable, the next change tries again.
    this.#deletionWatcher.catch(() => (this.#deletionWatcher = undefined));
    (await this.#deletionWatcher).setListening(sessionId, shouldListen);
  }

  async #endProcesses(ids: readonly string[]): Promise<void> {
    for (const work of await this.#loadBackgroundWork()) await Promise.all(ids.map((id) => work.end(id)));
  }

  /** Loads the tools even before the first run, because an earlier gantry process may have left commands running. */
  async #loadBackgroundWork(): Promise<readonly BackgroundWork[]> {
    await this.#tools.load().catch(() => undefined);
    return this.#backgroundWorks;
  }
}
