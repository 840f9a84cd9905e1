import type { Notifier, SessionDriver } from "../ports/session-driver.js";

/** Interval at which a store is polled for changes of other processes, in ms. */
const POLL_INTERVAL_MS = 200;

/** Listeners by chain. Listeners must not throw. */
export class ChainListeners {
  readonly #listenersByRoot = new Map<string, Set<() => void>>();

  get size(): number {
    return this.#listenersByRoot.size;
  }

  subscribe(root: string, listener: () => void): () => void {
    const listeners = this.#listenersByRoot.get(root) ?? new Set();
    // The same function may be subscribed twice.
    const uniqueListener = () => listener();
    this.#listenersByRoot.set(root, listeners.add(uniqueListener));
    return () => {
      listeners.delete(uniqueListener);
      if (listeners.size === 0 && this.#listenersByRoot.get(root) === listeners) this.#listenersByRoot.delete(root);
    };
  }

  /** Reports a possible change of the chain; without `root`, of every chain. */
  notify(root?: string): void {
    for (const rootId of root === undefined ? [...this.#listenersByRoot.keys()] : [root])
      for (const listener of [...(this.#listenersByRoot.get(rootId) ?? [])]) listener();
  }
}

/** Notifiers for drivers in one process that share a store. Each notifier passes its driver's changes to the others. */
export class LocalNotifiers {
  /** Listeners of the drivers that have subscribers. */
  readonly #subscribedListeners = new Set<ChainListeners>();

  create(): Notifier {
    const listeners = new ChainListeners();
    return {
      publish: (root) => {
        // Asynchronous, like a notification of another process.
        for (const otherListeners of this.#subscribedListeners)
          if (otherListeners !== listeners) setImmediate(() => otherListeners.notify(root));
      },
      subscribe: (root, listener) => {
        this.#subscribedListeners.add(listeners);
        const unsubscribe = listeners.subscribe(root, listener);
        return () => {
          unsubscribe();
          if (listeners.size === 0) this.#subscribedListeners.delete(listeners);
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
  readonly #listeners = new ChainListeners();
  readonly #readChanges: () => Iterable<string> | boolean;
  #timer: NodeJS.Timeout | undefined;

  /**
   * `readChanges` returns the chains that other processes changed since the last call, or only whether such chains
   * exist. It must be fast. If it throws, all subscribers are notified and get the error when they read the store.
   */
  constructor(readChanges: () => Iterable<string> | boolean) {
    this.#readChanges = readChanges;
  }

  /** Does nothing, because other processes poll the store. */
  publish(): void {}

  subscribe(rootId: string, listener: () => void): () => void {
    const unsubscribe = this.#listeners.subscribe(rootId, listener);
    this.#timer ??= setInterval(() => this.#poll(), POLL_INTERVAL_MS).unref();
    return () => {
      unsubscribe();
      if (this.#listeners.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  #poll(): void {
    let changedRoots: Iterable<string> | boolean = true;
    try {
      changedRoots = this.#readChanges();
    } catch {
      // Readers of the store get the error.
    }
    if (changedRoots === true) this.#listeners.notify();
    else if (changedRoots !== false) for (const root of new Set(changedRoots)) this.#listeners.notify(root);
  }
}

/** One notifier for each driver without a notifier, so that the driver's subscribers share a timer. */
const fallbackNotifiersByDriver = new WeakMap<SessionDriver, Notifier>();

/** Returns the driver's notifier. Fallback: a notifier that notifies all subscribers five times a second. */
export function notifierOf(driver: SessionDriver): Notifier {
  if (driver.notifier) return driver.notifier;
  let fallbackNotifier = fallbackNotifiersByDriver.get(driver);
  if (!fallbackNotifier) fallbackNotifiersByDriver.set(driver, (fallbackNotifier = new PollingNotifier(() => true)));
  return fallbackNotifier;
}
