import { collectState } from "../conversation/conversation.js";
import type { ProcessState } from "../ports/background.js";
import type { Message } from "../ports/message.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { StoredRun } from "../ports/session-queries.js";
import type { AgentStatistics } from "../ports/statistics.js";
import { isOwnHolder } from "../sessions/holder.js";
import { withEffectiveState, isOpen } from "../sessions/stored-run.js";
import type { PlanEntry, SessionState } from "../ports/watch.js";
import { PLAN_TOOL, findStoredPlan } from "../tools/agent/todo.js";
import type { Presence } from "./presence.js";
import { SessionTail } from "./session-tail.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/** Maximum open asks in the state of a session. */
const MAX_ASKS = 100;
/** Runs per query, after the first query for one run. */
const RUN_PAGE_SIZE = 50;
/** Tool results per query. More than one, because the result of a failed call contains no list. */
const RESULT_PAGE_SIZE = 10;

/** The chains that are watched or written in this process. */
export class LiveSessions {
  /** Tails by root id, each with the number of watchers and runs that use it. */
  readonly #tails = new Map<string, { tail: SessionTail; userCount: number }>();
  readonly #listProcesses: ListProcesses;
  readonly #presence: Presence;

  /** `listProcesses` lists the background processes of a chain in this process. */
  constructor(listProcesses: ListProcesses, presence: Presence) {
    this.#listProcesses = listProcesses;
    this.#presence = presence;
  }

  get counts(): Pick<AgentStatistics, "liveSessions" | "watchers"> {
    let watchers = 0;
    for (const { tail } of this.#tails.values()) watchers += tail.watcherCount;
    return { liveSessions: this.#tails.size, watchers };
  }

  /** Returns the shared tail of a chain. Call `release` when it is no longer needed. */
  open(rootId: string, store: SessionDriver): { tail: SessionTail; release: () => void } {
    const entry = this.#tails.get(rootId) ?? { tail: this.#createTail(rootId, store), userCount: 0 };
    entry.userCount += 1;
    entry.tail.refresh();
    this.#tails.set(rootId, entry);
    let isActive = true;
    return {
      tail: entry.tail,
      release: () => {
        if (!isActive) return;
        isActive = false;
        entry.userCount -= 1;
        if (entry.userCount === 0) this.#tails.delete(rootId);
      },
    };
  }

  /** Notifies watchers in this process and other processes that the messages of a chain changed. */
  notifyMessageChange(rootId: string, store: SessionDriver): void {
    this.#tails.get(rootId)?.tail.reportMessageChange();
    notifierOf(store).publish(rootId);
  }

  /** Like `notifyMessageChange`, for a change that does not affect messages. */
  notifyStateChange(rootId: string, store: SessionDriver): void {
    this.#tails.get(rootId)?.tail.reportStateChange();
    notifierOf(store).publish(rootId);
  }

  #createTail(rootId: string, store: SessionDriver): SessionTail {
    const plan = new Plan(rootId, store);
    return new SessionTail(rootId, store, this.#presence, () =>
      readSessionState(store, rootId, plan, this.#listProcesses),
    );
  }
}

type ListProcesses = (rootId: string) => Promise<readonly ProcessState[]>;

/** Reads the state of a session, by the id of its chain's first session; undefined if it does not exist. */
async function readSessionState(
  store: SessionDriver,
  rootId: string,
  plan: Plan,
  listProcesses: ListProcesses,
): Promise<SessionState | undefined> {
  const [head, storedRun, processes] = await Promise.all([
    store.head(rootId, { messages: false }),
    findNewestRun(store, rootId),
    listProcesses(rootId),
  ]);
  if (!head) return undefined;
  const { root, newest } = head;
  const run = storedRun ? withEffectiveState(storedRun, store) : null;
  const isRunOpen = run !== null && isOpen(run);
  const asks = run?.state === "waiting" ? await store.asks({ sessionId: rootId, open: true, limit: MAX_ASKS }) : [];
  return {
    session: root,
    run,
    // Asks of a dead run are left out, because no run waits for them.
    asks: asks.filter(({ runId }) => runId === run?.id).reverse(),
    plan: await plan.readAt(root.rewinds.length, newest.lastSeq),
    ...(processes.length > 0 && { processes }),
    runningElsewhere: isRunOpen && !!storedRun?.holder && !isOwnHolder(storedRun.holder),
  };
}

/** Finds the newest run that has started. Queued runs and runs that left the queue without starting are skipped. */
async function findNewestRun(store: SessionDriver, rootId: string): Promise<StoredRun | undefined> {
  const query = { sessionId: rootId, limit: 1 };
  for (
    let page = await store.runs(query);
    ;
    page = await store.runs({ ...query, limit: RUN_PAGE_SIZE, before: page.at(-1)!.run })
  ) {
    const startedRun = page.find(({ run }) => run.queueLease === null);
    if (startedRun || page.length === 0) return startedRun;
  }
}

/** The plan of a session's agent: its latest todo list. Only results after the last query are read again. */
class Plan {
  readonly #rootId: string;
  readonly #store: SessionDriver;
  #cachedPlan: { rewindCount: number; seq: number; entries: readonly PlanEntry[] } = {
    rewindCount: 0,
    seq: 0,
    entries: [],
  };

  constructor(rootId: string, store: SessionDriver) {
    this.#rootId = rootId;
    this.#store = store;
  }

  /** Reads the plan after the chain's last `seq`. A changed number of rewinds makes the cached plan void. */
  async readAt(rewindCount: number, seq: number): Promise<readonly PlanEntry[]> {
    const cachedPlan =
      this.#cachedPlan.rewindCount === rewindCount ? this.#cachedPlan : { rewindCount, seq: 0, entries: [] };
    if (cachedPlan.seq >= seq) return cachedPlan.entries;
    const entries = (await this.#readNewest(cachedPlan.seq, seq + 1)) ?? cachedPlan.entries;
    this.#cachedPlan = { rewindCount, seq, entries };
    return entries;
  }

  /** Reads the newest plan in a range of `seq`; undefined if the range contains none. */
  async #readNewest(after: number, before: number): Promise<PlanEntry[] | undefined> {
    const resultQuery = { scope: "chain", tool: PLAN_TOOL } as const;
    if (after > 0) return readPlan(await this.#store.messages(this.#rootId, { ...resultQuery, after, before }));
    // Read from the newest result, because each call writes the complete list.
    for (let beforeSeq = before; ;) {
      const page = await this.#store.messages(this.#rootId, {
        ...resultQuery,
        before: beforeSeq,
        limit: RESULT_PAGE_SIZE,
      });
      const plan = readPlan(page);
      if (plan || page.length < RESULT_PAGE_SIZE) return plan;
      beforeSeq = page[0]?.seq ?? 0;
    }
  }
}

const readPlan = (results: readonly Message[]): PlanEntry[] | undefined => findStoredPlan(collectState(results));
