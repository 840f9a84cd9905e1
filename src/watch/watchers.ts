import { setMaxListeners } from "node:events";
import { onAbort } from "../base/abort.js";
import type { ProcessState } from "../ports/background.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { WatchEvent, WatchOptions } from "../ports/watch.js";
import { LiveSessions } from "./live-sessions.js";
import type { Presence } from "./presence.js";

/** The watchers of one agent's sessions. Nothing is loaded or opened before the first watcher. */
export class Watchers {
  readonly #store: () => Promise<SessionDriver>;
  readonly #listProcesses: (rootId: string) => Promise<readonly ProcessState[]>;
  readonly #closeSignal: AbortSignal;
  readonly #presence: Presence;
  #liveSessions: LiveSessions | undefined;

  /** `listProcesses` lists the background processes of a chain. `closeSignal` is aborted when the agent closes. */
  constructor(
    store: () => Promise<SessionDriver>,
    listProcesses: (rootId: string) => Promise<readonly ProcessState[]>,
    closeSignal: AbortSignal,
    presence: Presence,
  ) {
    this.#store = store;
    this.#listProcesses = listProcesses;
    this.#closeSignal = closeSignal;
    this.#presence = presence;
  }

  get liveSessions(): LiveSessions {
    return (this.#liveSessions ??= new LiveSessions(this.#listProcesses, this.#presence));
  }

  /** Like `Sessions.watch`. Ends when the agent closes. */
  async *watch(id: string, options: WatchOptions): AsyncGenerator<WatchEvent, void, undefined> {
    const store = await this.#store();
    const { watch } = await import("./watch.js");
    // A watcher must not prevent the agent from closing.
    const endController = new AbortController();
    const endSignals = [this.#closeSignal, ...(options.signal ? [options.signal] : [])];
    // Any number of watchers may add listeners.
    setMaxListeners(0, ...endSignals);
    const removeListeners = endSignals.map((signal) => onAbort(signal, () => endController.abort()));
    try {
      yield* watch(this.liveSessions, store, id, { ...options, signal: endController.signal });
    } finally {
      for (const removeListener of removeListeners) removeListener();
    }
  }

  /** Notifies watchers that this process changed a chain. `hasMessageChanges`: whether messages changed too. */
  async notify(rootId: string, hasMessageChanges: boolean): Promise<void> {
    const store = await this.#store();
    if (hasMessageChanges) this.liveSessions.notifyMessageChange(rootId, store);
    else this.liveSessions.notifyStateChange(rootId, store);
  }
}
