import { collectState } from "../conversation/conversation.js";
import type { Message } from "../ports/message.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { PlanEntry } from "../ports/watch.js";
import { PLAN_TOOL, findStoredPlan } from "../tools/agent/todo.js";

/** Tool results per query. More than one, because the result of a failed call contains no list. */
const PAGE_SIZE = 10;

/** The plan of a session's agent: its latest todo list. Only results after the last query are read again. */
export class Plan {
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
      const page = await this.#store.messages(this.#rootId, { ...resultQuery, before: beforeSeq, limit: PAGE_SIZE });
      const plan = readPlan(page);
      if (plan || page.length < PAGE_SIZE) return plan;
      beforeSeq = page[0]?.seq ?? 0;
    }
  }
}

const readPlan = (results: readonly Message[]): PlanEntry[] | undefined => findStoredPlan(collectState(results));
