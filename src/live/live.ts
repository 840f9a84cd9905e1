import type { SessionDriver, StoredRun } from "../ports/session-driver.js";
import { asItIs, isOpen } from "../sessions/stored-run.js";
import type { SessionState } from "../ports/watch.js";
import { Tail } from "./tail.js";

/** The chains of which somebody in this process wants to know at once what happens. */
export class Live {
  readonly #tails = new Map<string, { tail: Tail; users: number }>();

  /** The tail of a chain, shared; `leave` when it is needed no more. */
  open(rootId: string, store: SessionDriver): { tail: Tail; leave: () => void } {
    const known = this.#tails.get(rootId) ?? { tail: new Tail(rootId, store, () => stateOf(store, rootId)), users: 0 };
    known.users += 1;
    known.tail.refresh();
    this.#tails.set(rootId, known);
    let here = true;
    return {
      tail: known.tail,
      leave: () => {
        if (!here) return;
        here = false;
        known.users -= 1;
        if (known.users === 0) this.#tails.delete(rootId);
      },
    };
  }

  /** This process changed a chain: who watches it here, and other processes, are told. */
  changed(rootId: string, store: SessionDriver): void {
    this.#tails.get(rootId)?.tail.changed();
    store.notifier.publish(rootId);
  }

  /** As `changed`, where its messages are the same. */
  touched(rootId: string, store: SessionDriver): void {
    this.#tails.get(rootId)?.tail.touched();
    store.notifier.publish(rootId);
  }
}

/** How a session stands, by the id of its chain's original; undefined when there is none. */
async function stateOf(store: SessionDriver, rootId: string): Promise<SessionState | undefined> {
  const [session, stored, asks] = await Promise.all([
    store.get(rootId),
    newestRun(store, rootId),
    store.asks({ sessionId: rootId, open: true, limit: 100 }),
  ]);
  if (!session) return undefined;
  const run = stored ? asItIs(stored) : null;
  // What a dead run asks nobody waits for.
  const open = run && isOpen(run) ? asks.filter(({ runId }) => runId === run.id) : [];
  return { session, run, asks: open.reverse(), plan: [] };
}

/** The newest that began: those in line are passed over, and those that left it. */
async function newestRun(store: SessionDriver, rootId: string): Promise<StoredRun | undefined> {
  const few = { sessionId: rootId, limit: 1 };
  for (let page = await store.runs(few); ; page = await store.runs({ ...few, limit: 50, before: page.at(-1)!.run })) {
    const begun = page.find(({ run }) => run.line === null);
    if (begun || page.length === 0) return begun;
  }
}
