import type { Notifier } from "../ports/notifier.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** How often a store is looked at for what others did, in ms. */
const LOOK_MS = 200;

/** Who wants to hear of which chain. Listeners must not throw. */
export class Hints {
  readonly #hints = new Map<string, Set<() => void>>();

  get size(): number {
    return this.#hints.size;
  }

  subscribe(root: string, hint: () => void): () => void {
    const hints = this.#hints.get(root) ?? new Set();
    // The same function may be subscribed twice.
    const mine = () => hint();
    this.#hints.set(root, hints.add(mine));
    return () => {
      hints.delete(mine);
      if (hints.size === 0 && this.#hints.get(root) === hints) this.#hints.delete(root);
    };
  }

  /** Something of the chain may be new; left out: of any. */
  tell(root?: string): void {
    for (const one of root === undefined ? [...this.#hints.keys()] : [root])
      for (const hint of [...(this.#hints.get(one) ?? [])]) hint();
  }
}

/** Notifiers of drivers in one process that share a store: each passes to the others what its own driver publishes. */
export class LocalNotifiers {
  /** Hints of the drivers that have subscribers. */
  readonly #subscribed = new Set<Hints>();

  create(): Notifier {
    const own = new Hints();
    return {
      publish: (root) => {
        // A hint of another process would never come within the call.
        for (const hints of this.#subscribed) if (hints !== own) setImmediate(() => hints.tell(root));
      },
      subscribe: (root, hint) => {
        this.#subscribed.add(own);
        const end = own.subscribe(root, hint);
        return () => {
          end();
          if (own.size === 0) this.#subscribed.delete(own);
        };
      },
    };
  }
}

/** A notifier for stores that can be looked at: while somebody listens it looks five times a second whether others wrote something. */
export class LookingNotifier implements Notifier {
  readonly #hints = new Hints();
  readonly #look: () => Iterable<string> | boolean;
  #timer: NodeJS.Timeout | undefined;

  /** `look` tells the chains that others changed since it was asked last, or only whether there are any. It must be quick; where it throws there may be some of any: who reads the store then hears why. */
  constructor(look: () => Iterable<string> | boolean) {
    this.#look = look;
  }

  /** Others look by themselves. */
  publish(): void {}

  subscribe(rootId: string, hint: () => void): () => void {
    const end = this.#hints.subscribe(rootId, hint);
    this.#timer ??= setInterval(() => this.#tell(), LOOK_MS).unref();
    return () => {
      end();
      if (this.#hints.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  #tell(): void {
    let news: Iterable<string> | boolean = true;
    try {
      news = this.#look();
    } catch {
      // Nobody waits for a look.
    }
    if (news === true) this.#hints.tell();
    else if (news !== false) for (const root of new Set(news)) this.#hints.tell(root);
  }
}

/** One for each driver without a notifier of its own, so that its subscribers share a timer. */
const fallbacks = new WeakMap<SessionDriver, Notifier>();

/** The driver's own notifier, or one that hints at every chain five times a second. */
export function notifierOf(driver: SessionDriver): Notifier {
  if (driver.notifier) return driver.notifier;
  let fallback = fallbacks.get(driver);
  if (!fallback) fallbacks.set(driver, (fallback = new LookingNotifier(() => true)));
  return fallback;
}
