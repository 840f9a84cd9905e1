import { setMaxListeners } from "node:events";
import { onAbort } from "../base/abort.js";
import type { ProcessState } from "../ports/background.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { WatchEvent, WatchOptions } from "../ports/watch.js";
import { Live } from "./live.js";
import type { Presence } from "./presence.js";

/** The watchers of one agent's sessions. Nothing is loaded or opened before the first watcher. */
export class Watchers {
  readonly #store: () => Promise<SessionDriver>;
  readonly #processes: (rootId: string) => Promise<readonly ProcessState[]>;
  readonly #closing: AbortSignal;
  readonly #presence: Presence;
  #live: Live | undefined;

  /** `processes` lists the background processes of a chain. `closing` is aborted when the agent closes. */
  constructor(
    store: () => Promise<SessionDriver>,
    processes: (rootId: string) => Promise<readonly ProcessState[]>,
    closing: AbortSignal,
    presence: Presence,
  ) {
    this.#store = store;
    this.#processes = processes;
    this.#closing = closing;
    this.#presence = presence;
  }

  get live(): Live {
    return (this.#live ??= new Live(this.#processes, this.#presence));
  }

  /** Like `Sessions.watch`. Ends when the agent closes. */
  async *watch(id: string, options: WatchOptions): AsyncGenerator<WatchEvent, void, undefined> {
    const store = await this.#store();
    const { watch } = await import("./watch.js");
    // A watcher must not prevent the agent from closing.
    const ended = new AbortController();
    const endSignals = [this.#closing, ...(options.signal ? [options.signal] : [])];
    // Any number of watchers may add listeners.
    setMaxListeners(0, ...endSignals);
    const ties = endSignals.map((signal) => onAbort(signal, () => ended.abort()));
    try {
      yield* watch(this.live, store, id, { ...options, signal: ended.signal });
    } finally {
      for (const untie of ties) untie();
    }
  }

  /** Notifies watchers that this process changed a chain. `messages`: whether its messages changed too. */
  async notify(rootId: string, messages: boolean): Promise<void> {
    const store = await this.#store();
    if (messages) this.live.changed(rootId, store);
    else this.live.touched(rootId, store);
  }
}
