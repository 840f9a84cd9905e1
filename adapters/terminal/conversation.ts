import {
  GantryError,
  PendingSteers,
  SessionPage,
  type Ask,
  type ConnectionState,
  type Effort,
  type GantryClient,
  type Message,
  type SessionChange,
  type WatchedEvent,
} from "gantry/client";
import type { PendingPrompt } from "./transcript.js";

/** Messages that are shown when a session is opened, and that come each time its beginning is looked for. */
export const BATCH = 50;
/** Longer than any conversation. */
const END = Number.MAX_SAFE_INTEGER;
const UNDER_WAY: ReadonlySet<string> = new Set(["queued", "running", "waiting"]);

/** What a session that is not there yet shall have. */
export interface Wishes {
  provider?: string;
  model?: string;
  mode?: "auto" | "ask" | "plan";
  reasoning_effort?: Effort;
}

/** What a conversation tells the terminal that shows it. */
export interface Told {
  /** Something is to be shown anew. */
  changed(): void;
  /** A line for the person. */
  notice(text: string, isBad?: boolean): void;
  /** Texts that a stopped run did not read. */
  returned(texts: readonly string[]): void;
}

/**
 * One session as one terminal has it: its last messages, older ones as they are asked for, and what is said in it from
 * now on, whoever says it. One that has no session gets it with the first prompt.
 */
export class Conversation {
  readonly page = new SessionPage();
  readonly #client: GantryClient;
  readonly #told: Told;
  readonly #end = new AbortController();
  readonly #watching: Promise<void>[] = [];
  readonly #steers: PendingSteers;
  /** Of a session that begins with a prompt. */
  readonly wishes: Wishes;
  id: string | undefined;
  connection: ConnectionState = "connecting";
  /** Whether there is something before the first message. */
  hasOlder = false;
  isLoading = false;
  #begun = false;
  /** It was to be stopped before it was known what to stop. */
  #stopWanted = false;
  /** The prompt that was sent last, until it was answered. */
  #unanswered: { asked: string; key: string } | undefined;
  /** Set from Enter until the server sends the prompt as a message, refuses it, or the person stops the run. */
  pendingPrompt: PendingPrompt | undefined;

  constructor(client: GantryClient, told: Told, wishes: Wishes = {}) {
    this.#client = client;
    this.#steers = new PendingSteers(client);
    this.#told = told;
    this.wishes = wishes;
  }

  /** Show a session that is there. Rejects with `GantryError`, and nothing is shown then. */
  async open(id: string): Promise<void> {
    await this.#client.sessions.get(id, this.#until);
    this.id = id;
    this.isLoading = true;
    this.#told.changed();
    try {
      await this.#restore(id);
    } finally {
      this.isLoading = false;
    }
    this.#watch(id, this.#lastWhole());
    this.#told.changed();
  }

  get isRunning(): boolean {
    return this.#begun || UNDER_WAY.has(this.page.state?.run?.state ?? "");
  }

  /** Texts that the run has not read yet, oldest first. */
  get pendingSteers(): readonly string[] {
    return this.#steers.all.map(({ text }) => text);
  }

  /** The questions that wait for an answer, oldest first. */
  get asks(): readonly Ask[] {
    return this.page.state?.asks ?? [];
  }

  get effort(): string {
    return this.page.state?.session.reasoning_effort ?? this.wishes.reasoning_effort ?? "";
  }

  get mode(): string {
    return this.page.state?.session.mode ?? this.wishes.mode ?? "";
  }

  /** Provider and model; "" while nobody has said. */
  get model(): string {
    const { provider = "", model = "" } = this.page.state?.session ?? this.wishes;
    return [provider, model].filter((name) => name !== "").join("/");
  }

  /** The batch before the first message; resolves with how many there were. */
  async older(): Promise<number> {
    const [first] = this.page.messages;
    const { id } = this;
    if (id === undefined || !first || !this.hasOlder || this.isLoading) return 0;
    this.isLoading = true;
    this.#told.changed();
    try {
      const found = await this.#client.sessions.messages(id, { before: first.seq, limit: BATCH }, this.#until);
      // A cut may have come meanwhile, with others in their place.
      if (this.page.at(first.seq)) this.page.add(found);
      this.hasOlder = found.length === BATCH && (found[0]?.seq ?? 1) > 1;
      return found.length;
    } finally {
      this.isLoading = false;
      this.#told.changed();
    }
  }

  /** Say something: to the run under way, else as a prompt. What has files, or is a command, waits for the run's end, where there is one. */
  async say(message: string, files: readonly string[] = [], isCommand = false): Promise<void> {
    const { id } = this;
    if (id !== undefined && this.isRunning && files.length === 0 && !isCommand) {
      try {
        await this.#steers.send(id, message, this.page, this.#until);
        return void this.#settle();
      } catch (error) {
        if (!(error instanceof GantryError) || error.code !== "no_run") throw error;
      }
    }
    this.#begun = true;
    this.#stopWanted = false;
    this.pendingPrompt = { text: message, afterSeq: this.page.messages.at(-1)?.seq ?? 0 };
    this.#told.changed();
    const request = {
      message,
      // We watch as soon as it is known what.
      answers: true,
      ...(message.startsWith("/") && { commands: true }),
      ...(files.length > 0 && { files: [...files] }),
      ...(id === undefined ? this.wishes : { session_id: id, queue: true }),
    };
    // Whoever got no answer says the same again: it is done once.
    const asked = JSON.stringify(request);
    const { key } = (this.#unanswered =
      this.#unanswered?.asked === asked ? this.#unanswered : { asked, key: crypto.randomUUID() });
    try {
      const { session_id } = await this.#client.begin(request, { key, ...this.#until });
      this.#unanswered = undefined;
      if (id === undefined) {
        this.id = session_id;
        this.#watch(session_id, undefined);
      }
      if (this.#stopWanted) await this.stop();
    } catch (error) {
      this.#begun = false;
      this.pendingPrompt = undefined;
      throw error;
    } finally {
      this.#told.changed();
    }
  }

  /**
   * Have what was said summed up, `wanted` says what to keep. Resolves with how many messages its model sees now; 0: it was
   * not worth it; undefined: it failed, and the session's state tells why.
   */
  async compact(wanted: string): Promise<number | undefined> {
    const { id } = this;
    if (id === undefined) return 0;
    const stream = await this.#client.stream({ session_id: id, message: wanted, compact: true }, this.#until);
    let messages = 0;
    try {
      for await (const event of stream) if (event.type === "compaction") ({ messages } = event);
    } catch {
      return undefined;
    }
    return messages;
  }

  /** End the run under way, and those in line that this session has. */
  async stop(): Promise<void> {
    this.#stopWanted = true;
    if (this.id !== undefined) await this.#client.sessions.cancel(this.id, this.#until);
  }

  /** Another model, effort, mode or title; of a session that is not there yet when it begins. */
  async change(change: SessionChange): Promise<void> {
    if (this.id !== undefined) {
      await this.#client.sessions.update(this.id, change, this.#until);
      return;
    }
    const { provider, model, mode, reasoning_effort: effort } = change;
    if (provider !== undefined) this.wishes.provider = provider;
    if (model !== undefined) this.wishes.model = model;
    if (mode !== undefined && mode !== "") this.wishes.mode = mode;
    if (effort !== undefined) this.wishes.reasoning_effort = effort;
  }

  /** Answer what a run asks. */
  async answer(ask: Ask, reply: { choice: string } | { text: string }): Promise<void> {
    await this.#client.asks.answer(ask.id, reply, this.#until);
  }

  /** Leave it; a run goes on. */
  async close(): Promise<void> {
    this.#end.abort();
    await Promise.all(this.#watching);
  }

  #settlePrompt(event: WatchedEvent): void {
    const { afterSeq = Infinity } = this.pendingPrompt ?? {};
    const isSent = event.type === "message" && event.message.role === "user" && event.message.seq > afterSeq;
    if (isSent || (this.#stopWanted && !this.isRunning)) this.pendingPrompt = undefined;
  }

  async #settle(): Promise<void> {
    const texts = await this.#steers.settle(this.page, this.#until);
    if (this.#end.signal.aborted) return;
    if (texts.length > 0) this.#told.returned(texts);
    else this.#told.changed();
  }

  get #until(): { signal: AbortSignal } {
    return { signal: this.#end.signal };
  }

  async #restore(id: string): Promise<void> {
    const last = await this.#client.sessions.messages(id, { before: END, limit: BATCH }, this.#until);
    this.page.add(last);
    this.hasOlder = (last[0]?.seq ?? 1) > 1;
  }

  /** What is behind the last message that cannot change any more is told by the stream. */
  #lastWhole(): number | undefined {
    const last = this.page.messages.at(-1);
    return last && last.seq > 1 ? last.seq - 1 : undefined;
  }

  #watch(id: string, behind: number | undefined): void {
    this.#watching.push(this.#follow(id, behind));
  }

  async #follow(id: string, behind: number | undefined): Promise<void> {
    const { signal } = this.#end;
    const options = {
      signal,
      behind,
      answers: true,
      onConnection: (state: ConnectionState) => {
        this.connection = state;
        this.#told.changed();
      },
    };
    try {
      for await (const event of this.#client.sessions.watch(id, options)) {
        const before = this.page.state?.run;
        this.page.apply(event);
        if (event.type === "state") {
          this.#begun = false;
          const { run } = event;
          const ended = run && run.error && (before?.id !== run.id || before.state !== run.state);
          // What ended before we came is no news, unless we ended it.
          if (ended && (before !== undefined || this.#stopWanted))
            this.#told.notice(failure(run.state, run.error), run.state === "failed");
          if (run && before?.id === run.id && before.state !== run.state && run.ended_by === "budget")
            this.#told.notice("The run ended: its budget is used up.");
          if (run && before?.id === run.id && before.state !== run.state && run.ended_by === "max_iterations")
            this.#told.notice("The run ended: it asked its model as often as it may.");
        }
        this.#settlePrompt(event);
        if (event.type === "state" || event.type === "message") void this.#settle();
        if (event.type === "cut" && this.page.messages.length === 0 && event.after > 0) await this.#restore(id);
        this.#told.changed();
      }
    } catch (error) {
      if (signal.aborted) return;
      this.connection = "lost";
      this.#told.notice(error instanceof Error ? error.message : String(error), true);
    }
  }
}

function failure(state: string, error: { message: string } | null): string {
  if (state === "cancelled") return "Stopped.";
  if (state === "interrupted") return "The process of this run died.";
  return error?.message ?? "The run failed.";
}

/** What people said in it, oldest first. */
export function promptsOf(messages: readonly Message[]): string[] {
  return messages
    .filter(({ role }) => role === "user")
    .map(({ content }) =>
      typeof content === "string" ? content : content.map((part) => (part.type === "text" ? part.text : "")).join(""),
    );
}
