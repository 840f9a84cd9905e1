import { onAbort } from "../base/abort.js";
import { newId, now } from "../base/ids.js";
import { AskClosedError, AskNotFoundError, InputError } from "../ports/errors.js";
import type { Ask, AskReply } from "../ports/ask.js";
import type { AskQuery, SessionDriver } from "../ports/session-driver.js";
import type { RunContext } from "./run-context.js";
import type { Running } from "./runs.js";

/** So often, in ms, it is looked whether those who were there to answer still are. */
const THERE_MS = 1000;

/** Asks of a list that asks for no number. */
const PAGE = 50;

/** A question as a run puts it. */
export type Asked = Pick<
  Ask,
  "callId" | "kind" | "tool" | "toolKind" | "title" | "input" | "locations" | "diff" | "reason" | "choices" | "freeText"
>;

/** Whether somebody is there who may answer what a run asks. */
export function isAttended({ ask, tail }: RunContext): boolean {
  return ask !== undefined || tail.isAttended;
}

/**
 * Put a question to whoever is there, stored, so that any door may answer it; `here` asks the person at the run's own
 * door. Resolves with the first answer; undefined when nobody answered. Rejects with the signal's reason.
 */
export async function askPeople(
  run: RunContext,
  asked: Asked,
  here: ((signal: AbortSignal) => Promise<AskReply>) | undefined,
): Promise<Ask | undefined> {
  const { recorder, inbox, store, signal, bus, logger } = run;
  const names = { runId: run.id, sessionId: run.sessionId };
  // Who is there takes their time; whoever may come is waited for so long.
  const patience = isAttended(run) ? undefined : run.agent.asking.timeoutMs;
  const ask: Ask = {
    ...asked,
    ...names,
    id: newId(),
    createdAt: now(),
    deadline: patience === undefined ? "" : new Date(Date.now() + patience).toISOString(),
    state: "open",
    reply: null,
    answeredBy: "",
    closedAt: "",
  };
  const [answer, forget] = inbox.answerOf(ask.id);
  const decided = new AbortController();
  const untie = onAbort(signal, () => decided.abort(signal.reason));
  let timer: NodeJS.Timeout | undefined;
  let looking: NodeJS.Timeout | undefined;
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
    const outcomes: Promise<Ask | undefined>[] = [
      answer,
      new Promise((_, reject) => onAbort(signal, () => reject(signal.reason as Error))),
    ];
    const wait = (ms: number) =>
      new Promise<undefined>((resolve) => (timer = setTimeout(() => resolve(undefined), ms)));
    if (patience !== undefined) outcomes.push(wait(patience));
    else
      outcomes.push(
        new Promise((resolve) => {
          // Who went, or answers nobody any more, must not be waited for.
          looking = setInterval(() => {
            if (isHere || run.tail.isAttended) return;
            clearInterval(looking);
            const { unattended, timeoutMs } = run.agent.asking;
            resolve(unattended === "wait" ? wait(timeoutMs) : undefined);
          }, THERE_MS);
        }),
      );
    if (said)
      outcomes.push(
        said.then(
          async (reply) => {
            const told = await store.answer(ask.id, { reply, answeredBy: run.askedAt, closedAt: now() });
            return told?.ask;
          },
          (error: unknown) => {
            if (!decided.signal.aborted) logger.warn("nobody could be asked at the run's own door", { error });
            // Somebody else may still answer.
            return run.tail.isAttended ? answer : undefined;
          },
        ),
      );
    closed = (await Promise.race(outcomes)) ?? ask;
    return closed.state === "answered" ? closed : undefined;
  } finally {
    clearTimeout(timer);
    clearInterval(looking);
    untie();
    forget();
    decided.abort();
    run.asking.delete(ask.id);
    const state = run.asking.size > 0 ? "waiting" : "running";
    // One that has ended meanwhile has no clock to go on.
    if (state === "running" && !signal.aborted) run.clock?.go();
    if (closed.state === "open") closed = { ...ask, state: "withdrawn", closedAt: now() };
    const withdrawn = closed.state === "withdrawn" ? { asks: [closed] } : {};
    await recorder.write({ sync: false, ...withdrawn, run: { state } }).catch((error: unknown) => {
      logger.debug("the end of a question was not stored", { error });
    });
    bus.emit("ask.closed", { ...names, ask: closed });
  }
}

/** What `Asks` needs of the agent that it belongs to. */
export interface AsksOptions {
  store: () => Promise<SessionDriver>;
  /** The run of a chain in this process. */
  running: (rootId: string) => Running | undefined;
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
    return store.ask(id);
  }

  /** Newest first; without `limit` 50 of them. `sessionId` is any id of a chain. Rejects with `InputError` or `StoreError`. */
  async list(query: Partial<AskQuery> = {}): Promise<Ask[]> {
    const { limit = PAGE } = query;
    if (!Number.isSafeInteger(limit) || limit < 0) throw new InputError("limit", "a whole number, at least 0");
    const store = await this.#options.store();
    return store.asks({ ...query, limit });
  }

  /**
   * Answer what a run asks, whichever process it runs in. `by` names the door. Resolves with the ask as it is stored
   * then. Rejects with `InputError` (no such choice), `AskNotFoundError`, `AskClosedError` (somebody was faster, or
   * nobody waits any more) or `StoreError`.
   */
  async answer(id: string, { choice = "", text = "" }: Partial<AskReply>, by = "sdk"): Promise<Ask> {
    const store = await this.#options.store();
    const ask = await store.ask(id);
    if (!ask) throw new AskNotFoundError(id);
    if (ask.state !== "open") throw new AskClosedError(ask);
    checkReply(ask, { choice, text });
    const told = await store.answer(id, { reply: { choice, text }, answeredBy: by, closedAt: now() });
    if (!told) throw new AskNotFoundError(id);
    if (!told.counts) throw new AskClosedError(told.ask);
    const { sessionId, runId } = told.ask;
    const running = this.#options.running(sessionId);
    if (running?.id === runId) running.inbox.answered(told.ask);
    this.#options.changed(sessionId);
    return told.ask;
  }
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
