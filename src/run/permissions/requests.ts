import { onAbort } from "../../base/abort.js";
import { newId, now } from "../../base/ids.js";
import { AskClosedError, AskNotFoundError, hasCode, InputError } from "../../ports/errors.js";
import type { Ask, AskReply } from "../../ports/ask.js";
import type { AnswerResult, AskQuery, SessionDriver } from "../../ports/session-driver.js";
import { asItIs, isOpen } from "../../sessions/stored-run.js";
import { isAttended } from "./modes.js";
import type { PermissionRun } from "./permission-run.js";
import type { Inbox } from "../queue/inbox.js";

/** Asks of a list that asks for no number. */
const PAGE = 50;

/** A question as a run puts it. */
export type Asked = Pick<
  Ask,
  "callId" | "kind" | "tool" | "toolKind" | "title" | "input" | "locations" | "diff" | "reason" | "choices" | "freeText"
>;

/** How a question ended without an answer: nobody can be asked, or nobody answered in time. */
export type NoAnswer = "nobody" | "late";

/** While a question is open it is looked so often, in ms, whether anybody is still there. */
const LOOK_MS = 1000;

/**
 * Put a question to whoever is there, stored, so that any door may answer it; `here` asks the person at the run's own
 * door. Resolves with the first answer. Rejects with the reason of `signal`, which is aborted with the run's at the latest.
 */
export async function askPeople(
  run: PermissionRun,
  asked: Asked,
  here: ((signal: AbortSignal) => Promise<AskReply>) | undefined,
  signal = run.signal,
): Promise<Ask | NoAnswer> {
  const { recorder, inbox, store, bus, logger } = run;
  const { timeoutMs, unattended } = run.agent.asking;
  const names = { runId: run.id, sessionId: run.sessionId };
  // Who is there takes their time; whoever may come is waited for so long.
  const isKnownLate = !isAttended(run);
  const ask: Ask = {
    ...asked,
    ...names,
    id: newId(),
    createdAt: now(),
    deadline: isKnownLate ? new Date(Date.now() + timeoutMs).toISOString() : "",
    state: "open",
    reply: null,
    answeredBy: "",
    closedAt: "",
  };
  const [answer, forget] = inbox.answerOf(ask.id);
  const decided = new AbortController();
  const untie = onAbort(signal, () => decided.abort(signal.reason));
  let timer: NodeJS.Timeout | undefined;
  let closed: Ask = ask;
  try {
    run.asking.add(ask.id);
    run.clock?.stand();
    // At once: whoever shows the call knows by this that it waits.
    const said = here?.(decided.signal);
    let isHere = said !== undefined;
    said?.catch(() => (isHere = false));
    await recorder.write({ sync: false, asks: [ask], run: { state: "waiting" } });
    bus.emit("ask.opened", { ...names, ask });
    const late = new Promise<NoAnswer>((resolve) => {
      let since = Date.now();
      const look = () => {
        // Who watched and went is waited for only where whoever may come is.
        const isThere = isHere || run.tail.isAttended;
        if (!isThere && unattended !== "wait") return resolve("nobody");
        if (isThere && !isKnownLate) since = Date.now();
        const left = since + timeoutMs - Date.now();
        if (left > 0) timer = setTimeout(look, isKnownLate ? left : Math.min(left, LOOK_MS));
        else resolve("late");
      };
      look();
    });
    const cancelled = new Promise<never>((_, reject) =>
      onAbort(decided.signal, () => reject(reasonOf(decided.signal))),
    );
    const outcomes: Promise<Ask | NoAnswer>[] = [answer, late, cancelled];
    if (said)
      outcomes.push(
        said.then<Ask | NoAnswer, Ask | NoAnswer>(
          async (reply) => {
            const answered = await answerAsk(store, ask, reply, run.askedAt);
            return answered?.ask ?? "nobody";
          },
          (error: unknown): NoAnswer | Promise<Ask> => {
            if (!decided.signal.aborted) logger.warn("nobody could be asked at the run's own door", { error });
            // Somebody else may still answer.
            return run.tail.isAttended || unattended === "wait" ? answer : "nobody";
          },
        ),
      );
    const outcome = await Promise.race(outcomes);
    if (typeof outcome !== "string") closed = outcome;
    else {
      closed = withdrawn(ask);
      await recorder.write({ sync: false, asks: [closed] });
      // Who answered until then was told that it counts.
      const [stored] = await store.asks({ id: ask.id, limit: 1 });
      closed = stored ?? closed;
    }
    if (closed.state === "answered") return closed;
    return typeof outcome === "string" ? outcome : "nobody";
  } finally {
    clearTimeout(timer);
    untie();
    forget();
    decided.abort();
    run.asking.delete(ask.id);
    const state = run.asking.size > 0 ? "waiting" : "running";
    // One that has ended meanwhile has no clock to go on.
    if (state === "running" && !run.signal.aborted) run.clock?.go();
    const left = closed.state === "open" ? { asks: [(closed = withdrawn(ask))] } : {};
    await recorder.write({ sync: false, ...left, run: { state } }).catch((error: unknown) => {
      logger.debug("the end of a question was not stored", { error });
    });
    bus.emit("ask.closed", { ...names, ask: closed });
  }
}

function withdrawn(ask: Ask): Ask {
  return { ...ask, state: "withdrawn", closedAt: now() };
}

function reasonOf(signal: AbortSignal): Error {
  return signal.reason as Error;
}

/** What `Asks` needs of the agent that it belongs to. */
export interface AsksOptions {
  store: () => Promise<SessionDriver>;
  /** The run of a chain in this process. */
  running: (rootId: string) => { id: string; inbox: Inbox } | undefined;
  /** Something of the chain is new. */
  changed: (rootId: string) => void;
}

/** What the runs of a store ask of people, those of other processes too. */
export class Asks {
  readonly #options: AsksOptions;

  constructor(options: AsksOptions) {
    this.#options = options;
  }

  /** By its id; undefined when there is none. Rejects with `StoreError`. */
  async get(id: string): Promise<Ask | undefined> {
    const store = await this.#options.store();
    return (await asTheyAre(store, await store.asks({ id, limit: 1 })))[0];
  }

  /** Newest first; without `limit` 50 of them. `sessionId` is any id of a chain. Rejects with `InputError` or `StoreError`. */
  async list(query: { [Key in keyof AskQuery]?: AskQuery[Key] | undefined } = {}): Promise<Ask[]> {
    const { limit = PAGE } = query;
    if (!Number.isSafeInteger(limit) || limit < 0) throw new InputError("limit", "a whole number, at least 0");
    const store = await this.#options.store();
    const asks = await asTheyAre(store, await store.asks({ ...query, limit }));
    return query.open === true ? asks.filter(({ state }) => state === "open") : asks;
  }

  /**
   * Answer what a run asks, whichever process it runs in. `by` names the door. Resolves with the ask as it is stored
   * then. Rejects with `InputError` (no such choice), `AskNotFoundError`, `AskClosedError` (somebody was faster, or
   * nobody waits any more) or `StoreError`.
   */
  async answer(
    id: string,
    { choice = "", text = "" }: { [Key in keyof AskReply]?: AskReply[Key] | undefined },
    by = "sdk",
  ): Promise<Ask> {
    const store = await this.#options.store();
    const ask = await this.get(id);
    if (!ask) throw new AskNotFoundError(id);
    if (ask.state !== "open") throw new AskClosedError(ask);
    checkReply(ask, { choice, text });
    const told = await answerAsk(store, ask, { choice, text }, by);
    if (!told) throw new AskNotFoundError(id);
    if (!told.counts) throw new AskClosedError(told.ask);
    const { sessionId, runId } = told.ask;
    const running = this.#options.running(sessionId);
    if (running?.id === runId) running.inbox.answered(told.ask);
    this.#options.changed(sessionId);
    return told.ask;
  }
}

/** Undefined where the ask was deleted with its session. Rejects with `StoreError`. */
async function answerAsk(
  store: SessionDriver,
  { id: askId, sessionId }: Ask,
  reply: AskReply,
  answeredBy: string,
): Promise<AnswerResult | undefined> {
  const answer = { askId, reply, answeredBy, closedAt: now() };
  try {
    return (await store.write(sessionId, { fence: null, sync: true, answer })).answer;
  } catch (error) {
    if (hasCode(error, "session_not_found")) return undefined;
    throw error;
  }
}

/** What a run asked that is dead nobody waits for, whatever the store says. */
async function asTheyAre(store: SessionDriver, asks: readonly Ask[]): Promise<Ask[]> {
  const open = [...new Set(asks.filter(({ state }) => state === "open").map(({ runId }) => runId))];
  const runs = await Promise.all(open.map((id) => store.runs({ id, limit: 1 })));
  const waiting = new Set(runs.flat().flatMap((stored) => (isOpen(asItIs(stored)) ? [stored.run.id] : [])));
  return asks.map((ask) =>
    ask.state === "open" && !waiting.has(ask.runId) ? { ...ask, state: "withdrawn", closedAt: ask.createdAt } : ask,
  );
}

/** Throws `InputError`. */
function checkReply({ choices, freeText }: Ask, { choice, text }: AskReply): void {
  if (typeof choice !== "string") throw new InputError("choice", "a string");
  if (typeof text !== "string") throw new InputError("text", "a string");
  const ids = choices.map(({ id }) => JSON.stringify(id)).join(", ");
  if (choice === "" && freeText && text.trim() !== "") return;
  if (!choices.some(({ id }) => id === choice))
    throw new InputError("choice", freeText ? `one of ${ids}, or a text` : `one of ${ids}`);
}
