import { NotFoundError, type GantryClient, type ApiMessage, type ApiRunState, type SessionMirror } from "gantry/client";

/** End states of a run that never reads its remaining steers. */
const STOPPED_STATES: ReadonlySet<ApiRunState> = new Set(["cancelled", "interrupted"]);
const ACTIVE_STATES: ReadonlySet<ApiRunState> = new Set(["queued", "running", "waiting"]);
/** Time that the server has to start a run with the steers that arrived too late for a run, in ms. */
const LATE_RUN_DELAY_MS = 2_000;
/** Number of the newest runs that are searched for an active run. */
const RECENT_RUNS = 10;

/** A text that the user has sent. It stays in the outbox until it is a message or returns to the prompt. */
export interface SentText {
  /** The idempotency key of the request. */
  readonly id: string;
  readonly kind: "prompt" | "steer";
  readonly text: string;
  /** `seq` of the newest message when the text was sent; 0 if there was none. */
  readonly afterSeq: number;
  /** Whether the prompt waits in the queue until another run ends. */
  readonly isQueued: boolean;
  /** The body of a prompt's request as JSON; "" for a steer. A repeated request with the same body uses `id` again. */
  readonly requestJson: string;
  /** Id of the run that has the text. Undefined until the server answers. */
  readonly runId?: string;
}

/** Texts of one session that no message contains. */
export interface UnsentTexts {
  /** The text in the prompt. */
  readonly draft: string;
  readonly entries: readonly SentText[];
}

/** Texts that were sent to a session and that no message of the session contains yet. */
export class TerminalOutbox {
  readonly #client: GantryClient;
  readonly #onChange: () => void;
  /** Times at which the session of a late steer was first seen without an active run, by entry id. */
  readonly #idleSinceMs = new Map<string, number>();
  #entries: readonly SentText[] = [];

  constructor(client: GantryClient, onChange: () => void) {
    this.#client = client;
    this.#onChange = onChange;
  }

  /** Oldest first. The array stays the same object until an entry changes. */
  get entries(): readonly SentText[] {
    return this.#entries;
  }

  add(...entries: readonly SentText[]): void {
    this.#replace([...this.#entries, ...entries]);
  }

  /** Records the run that has accepted the text. */
  accept(id: string, runId: string): void {
    this.#replace(this.#entries.map((entry) => (entry.id === id ? { ...entry, runId } : entry)));
  }

  remove(id: string): void {
    this.#replace(this.#entries.filter((entry) => entry.id !== id));
  }

  /** Removes the texts that these messages contain. Each part of a message counts for one text. */
  removeRead(messages: readonly ApiMessage[]): void {
    if (this.#entries.length === 0) return;
    const userMessages = messages
      .filter(({ role }) => role === "user")
      .map((message) => ({ seq: message.seq, text: `\n\n${getUserText(message)}\n\n` }));
    const unread = this.#entries.filter(({ text, afterSeq }) => {
      // The server joins several late steers with an empty line between two steers.
      const match = userMessages.find((message) => message.seq > afterSeq && message.text.includes(`\n\n${text}\n\n`));
      if (match) match.text = match.text.replace(`\n\n${text}\n\n`, () => "\n\n\n\n");
      return !match;
    });
    if (unread.length < this.#entries.length) this.#replace(unread);
  }

  /**
   * Removes the texts that the session contains as messages. Resolves with the texts that no run will read. Never
   * rejects: an entry whose run is unavailable is checked again at the next call.
   */
  async findUnread(sessionId: string, mirror: SessionMirror, signal: AbortSignal): Promise<SentText[]> {
    this.removeRead(mirror.messages);
    const unread: SentText[] = [];
    for (const entry of this.#entries) {
      if (entry.runId === undefined || !this.#entries.includes(entry)) continue;
      try {
        if (!(await this.#hasEnded(entry, entry.runId, sessionId, mirror, signal))) continue;
        // The event stream may be behind the state of the run: read the stored messages.
        this.removeRead(await this.#client.sessions.messages(sessionId, { after: entry.afterSeq }, { signal }));
      } catch (error) {
        // A session that was deleted has no messages.
        if (!(error instanceof NotFoundError)) continue;
      }
      unread.push(entry);
    }
    return unread;
  }

  /** Whether no run will read the text any more. */
  async #hasEnded(
    { id, kind }: SentText,
    runId: string,
    sessionId: string,
    { state }: SessionMirror,
    signal: AbortSignal,
  ): Promise<boolean> {
    const runState =
      state?.run?.id === runId ? state.run.state : (await this.#client.runs.get(runId, { signal })).state;
    if (ACTIVE_STATES.has(runState)) return false;
    if (kind === "prompt" || STOPPED_STATES.has(runState)) return true;
    // The server starts a run with the steers that arrived too late, shortly after the end of the run.
    const runs = await this.#client.runs.list({ sessionId, size: RECENT_RUNS }, { signal });
    const idleSinceMs = this.#idleSinceMs.get(id) ?? performance.now();
    if (runs.some((run) => ACTIVE_STATES.has(run.state))) this.#idleSinceMs.delete(id);
    else this.#idleSinceMs.set(id, idleSinceMs);
    return this.#idleSinceMs.has(id) && performance.now() - idleSinceMs >= LATE_RUN_DELAY_MS;
  }

  #replace(entries: readonly SentText[]): void {
    this.#entries = entries;
    this.#onChange();
  }
}

/** Returns the text of a user's message without its files. */
export function getUserText({ content }: ApiMessage): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? part.text : "")).join("");
}
