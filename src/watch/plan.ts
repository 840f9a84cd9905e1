import { collectState } from "../conversation/stored-state.js";
import type { Message } from "../ports/message.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { PlanEntry } from "../ports/watch.js";
import { PLAN_TOOL, planIn } from "../tools/agent/todo.js";

/** Tool results per query. The result of a failed call contains no list. */
const PAGE_SIZE = 10;

/** The plan of a session's agent: its latest todo list. Only results after the last query are read again. */
export class Plan {
  readonly #rootId: string;
  readonly #store: SessionDriver;
  #cachedPlan: { cuts: number; seq: number; entries: readonly PlanEntry[] } = { cuts: 0, seq: 0, entries: [] };

  constructor(rootId: string, store: SessionDriver) {
    this.#rootId = rootId;
    this.#store = store;
  }

  /** The plan at a `seq`, which is the chain's last one, and a number of rewinds. */
  async at(cuts: number, seq: number): Promise<readonly PlanEntry[]> {
    const cachedPlan = this.#cachedPlan.cuts === cuts ? this.#cachedPlan : { cuts, seq: 0, entries: [] };
    if (cachedPlan.seq >= seq) return cachedPlan.entries;
    const entries = (await this.#newest(cachedPlan.seq, seq + 1)) ?? cachedPlan.entries;
    this.#cachedPlan = { cuts, seq, entries };
    return entries;
  }

  async #newest(after: number, before: number): Promise<PlanEntry[] | undefined> {
    const results = { scope: "chain", tool: PLAN_TOOL } as const;
    if (after > 0) return listOf(await this.#store.messages(this.#rootId, { ...results, after, before }));
    // Backwards, because each call writes the complete list.
    for (let end = before; ;) {
      const page = await this.#store.messages(this.#rootId, { ...results, before: end, limit: PAGE_SIZE });
      const list = listOf(page);
      if (list || page.length < PAGE_SIZE) return list;
      end = page[0]?.seq ?? 0;
    }
  }
}

const listOf = (results: readonly Message[]): PlanEntry[] | undefined => planIn(collectState(results));
