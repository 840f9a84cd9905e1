import type { ProcessState } from "../ports/background.js";
import type { SessionDriver, StoredRun } from "../ports/session-driver.js";
import { isOurs } from "../sessions/holder.js";
import { asItIs, isOpen } from "../sessions/stored-run.js";
import type { SessionState } from "../ports/watch.js";
import { Plan } from "./plan.js";
import type { Presence } from "./presence.js";
import { Tail } from "./tail.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/** The chains of which somebody in this process wants to know at once what happens. */
export class Live {
  readonly #tails = new Map<string, { tail: Tail; users: number }>();
  readonly #processes: Processes;
  readonly #presence: Presence;

  /** `processes` lists what goes on in the background of a chain, in this process. */
  constructor(processes: Processes, presence: Presence) {
    this.#processes = processes;
    this.#presence = presence;
  }

  /** The tail of a chain, shared; `leave` when it is needed no more. */
  open(rootId: string, store: SessionDriver): { tail: Tail; leave: () => void } {
    const known = this.#tails.get(rootId) ?? { tail: this.#tailOf(rootId, store), users: 0 };
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
    notifierOf(store).publish(rootId);
  }

  /** As `changed`, where its messages are the same. */
  touched(rootId: string, store: SessionDriver): void {
    this.#tails.get(rootId)?.tail.touched();
    notifierOf(store).publish(rootId);
  }

  #tailOf(rootId: string, store: SessionDriver): Tail {
    const plan = new Plan(rootId, store);
    return new Tail(rootId, store, this.#presence, () => stateOf(store, rootId, plan, this.#processes));
  }
}

type Processes = (rootId: string) => Promise<readonly ProcessState[]>;

/** How a session stands, by the id of its chain's original; undefined when there is none. */
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
  const run = stored ? asItIs(stored) : null;
  const isGoing = run !== null && isOpen(run);
  const asks = run?.state === "waiting" ? await store.asks({ sessionId: rootId, open: true, limit: 100 }) : [];
  return {
    session,
    run,
    // What a dead run asks nobody waits for.
    asks: asks.filter(({ runId }) => runId === run?.id).reverse(),
    plan: await plan.at(session.cuts.length, newest.lastSeq),
    ...(processes.length > 0 && { processes }),
    elsewhere: isGoing && !!stored?.holder && !isOurs(stored.holder),
  };
}

/** The newest that began: those in line are passed over, and those that left it. */
async function newestRun(store: SessionDriver, rootId: string): Promise<StoredRun | undefined> {
  const few = { sessionId: rootId, limit: 1 };
  for (let page = await store.runs(few); ; page = await store.runs({ ...few, limit: 50, before: page.at(-1)!.run })) {
    const begun = page.find(({ run }) => run.line === null);
    if (begun || page.length === 0) return begun;
  }
}
