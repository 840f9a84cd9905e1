import type { Notifier } from "../ports/notifier.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** Interval at which a store is polled for changes of other processes, in ms. */
const POLL_INTERVAL_MS = 200;

/** Listeners by chain. Listeners must not throw. */
export class ChainListeners {
  readonly #hints = new Map<string, Set<() => void>>();

  get size(): number {
    return this.#hints.size;
  }

  subscribe(root: string, hint: () => void): () => void {
    const hints = this.#hints.get(root) ?? new Set();
    // The same function may be subscribed twice.
    const listener = () => hint();
    this.#hints.set(root, hints.add(listener));
    return () => {
      hints.delete(listener);
      if (hints.size === 0 && this.#hints.get(root) === hints) this.#hints.delete(root);
    };
  }

  /** Reports a possible change of the chain; without `root`, of every chain. */
  notify(root?: string): void {
    for (const rootId of root === undefined ? [...this.#hints.keys()] : [root])
      for (const hint of [...(this.#hints.get(rootId) ?? [])]) hint();
  }
}

/** Notifiers for drivers in one process that share a store. Each passes what its own driver publishes to the others. */
export class LocalNotifiers {
  /** Listeners of the drivers that have subscribers. */
  readonly #subscribed = new Set<ChainListeners>();

  create(): Notifier {
    const listeners = new ChainListeners();
    return {
      publish: (root) => {
        // Asynchronous, like a notification of another process.
        for (const hints of this.#subscribed) if (hints !== listeners) setImmediate(() => hints.notify(root));
      },
      subscribe: (root, hint) => {
        this.#subscribed.add(listeners);
        const end = listeners.subscribe(root, hint);
        return () => {
          end();
          if (listeners.size === 0) this.#subscribed.delete(listeners);
        };
      },
    };
  }
}

/**
 * Notifier for stores that can be polled. While it has subscribers, it checks five times a second whether other
 * processes wrote to the store.
 */
export class PollingNotifier implements Notifier {
  readonly #hints = new ChainListeners();
  readonly #readChanges: () => Iterable<string> | boolean;
  #timer: NodeJS.Timeout | undefined;

  /**
   * `look` returns the chains that other processes changed since the last call, or only whether there are any. It must
   * be fast. If it throws, all subscribers are notified, because the error then appears when they read the store.
   */
  constructor(look: () => Iterable<string> | boolean) {
    this.#readChanges = look;
  }

  /** Other processes poll the store themselves. */
  publish(): void {}

  subscribe(rootId: string, hint: () => void): () => void {
    const end = this.#hints.subscribe(rootId, hint);
    this.#timer ??= setInterval(() => this.#poll(), POLL_INTERVAL_MS).unref();
    return () => {
      end();
      if (this.#hints.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  #poll(): void {
    let news: Iterable<string> | boolean = true;
    try {
      news = this.#readChanges();
    } catch {
      // Readers of the store get the error.
    }
    if (news === true) this.#hints.notify();
    else if (news !== false) for (const root of new Set(news)) this.#hints.notify(root);
  }
}

/** One notifier per driver without its own, so that its subscribers share a timer. */
const fallbacks = new WeakMap<SessionDriver, Notifier>();

/** The driver's own notifier, or one that notifies every chain's subscribers five times a second. */
export function notifierOf(driver: SessionDriver): Notifier {
  if (driver.notifier) return driver.notifier;
  let fallback = fallbacks.get(driver);
  if (!fallback) fallbacks.set(driver, (fallback = new PollingNotifier(() => true)));
  return fallback;
}
