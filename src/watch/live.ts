import type { ProcessState } from "../ports/background.js";
import type { SessionDriver, StoredRun } from "../ports/session-driver.js";
import { isOurs } from "../sessions/holder.js";
import { withEffectiveState, isOpen } from "../sessions/stored-run.js";
import type { SessionState } from "../ports/watch.js";
import { Plan } from "./plan.js";
import type { Presence } from "./presence.js";
import { SessionTail } from "./tail.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/** The chains that are watched or written in this process. */
export class Live {
  readonly #tails = new Map<string, { tail: SessionTail; users: number }>();
  readonly #processes: Processes;
  readonly #presence: Presence;

  /** `processes` lists the background processes of a chain in this process. */
  constructor(processes: Processes, presence: Presence) {
    this.#processes = processes;
    this.#presence = presence;
  }

  /** The shared tail of a chain. Call `leave` when it is no longer needed. */
  open(rootId: string, store: SessionDriver): { tail: SessionTail; leave: () => void } {
    const entry = this.#tails.get(rootId) ?? { tail: this.#tailOf(rootId, store), users: 0 };
    entry.users += 1;
    entry.tail.refresh();
    this.#tails.set(rootId, entry);
    let isActive = true;
    return {
      tail: entry.tail,
      leave: () => {
        if (!isActive) return;
        isActive = false;
        entry.users -= 1;
        if (entry.users === 0) this.#tails.delete(rootId);
      },
    };
  }

  /** Notifies watchers in this process and other processes that a chain changed. */
  changed(rootId: string, store: SessionDriver): void {
    this.#tails.get(rootId)?.tail.changed();
    notifierOf(store).publish(rootId);
  }

  /** Like `changed`, for a change that does not affect messages. */
  touched(rootId: string, store: SessionDriver): void {
    this.#tails.get(rootId)?.tail.touched();
    notifierOf(store).publish(rootId);
  }

  #tailOf(rootId: string, store: SessionDriver): SessionTail {
    const plan = new Plan(rootId, store);
    return new SessionTail(rootId, store, this.#presence, () => stateOf(store, rootId, plan, this.#processes));
  }
}

type Processes = (rootId: string) => Promise<readonly ProcessState[]>;

/** The state of a session, by the id of its chain's original; undefined if it does not exist. */
async function stateOf(
  store: SessionDriver,
  rootId: string,
  plan: Plan,
  listed: Processes,
): Promise<SessionState | undefined> {
  const [head, stored, processes] = await Promise.all([
    store.head(rootId, { messages: false }),
    newestRun(store, rootId),
    listed(rootId),
  ]);
  if (!head) return undefined;
  const { original: session, newest } = head;
  const run = stored ? withEffectiveState(stored) : null;
  const isGoing = run !== null && isOpen(run);
  const asks = run?.state === "waiting" ? await store.asks({ sessionId: rootId, open: true, limit: 100 }) : [];
  return {
    session,
    run,
    // Asks of a dead run are left out, because no run waits for them.
    asks: asks.filter(({ runId }) => runId === run?.id).reverse(),
    plan: await plan.at(session.rewinds.length, newest.lastSeq),
    ...(processes.length > 0 && { processes }),
    runningElsewhere: isGoing && !!stored?.holder && !isOurs(stored.holder),
  };
}

/** The newest run that has started. Queued runs and runs that left the queue without starting are skipped. */
async function newestRun(store: SessionDriver, rootId: string): Promise<StoredRun | undefined> {
  const few = { sessionId: rootId, limit: 1 };
  for (let page = await store.runs(few); ; page = await store.runs({ ...few, limit: 50, before: page.at(-1)!.run })) {
    const begun = page.find(({ run }) => run.queueLease === null);
    if (begun || page.length === 0) return begun;
  }
}
