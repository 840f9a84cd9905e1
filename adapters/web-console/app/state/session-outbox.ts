import { computed, effect, untracked, type ReadonlySignal } from "@preact/signals";
import { NotFoundError, type ApiMessage, type ApiRunState, type GantryClient, type SessionMirror } from "gantry/client";
import type { Drafts } from "../drafts.js";
import { announce } from "./announce.js";
import type { ConsoleOutbox, OutboxEntry } from "./console-outbox.js";
import { findReadEntries } from "./read-entries.js";

const ACTIVE_STATES: ReadonlySet<ApiRunState> = new Set(["queued", "running", "waiting"]);
/** End states of a run that never reads its remaining instructions. */
const STOPPED_STATES: ReadonlySet<ApiRunState> = new Set(["cancelled", "interrupted"]);
/**
 * Time in which the server makes the unread instructions of an ended run the next prompt, in ms. Afterwards they are
 * returned to the user.
 */
const NEXT_PROMPT_DELAY_MS = 3_000;

interface SessionOutboxOptions {
  sessionId: string;
  client: GantryClient;
  mirror: SessionMirror;
  outbox: ConsoleOutbox;
  drafts: Drafts;
  /** Aborts when the page closes the session. */
  closeSignal: AbortSignal;
}

/**
 * The texts of a session that are in no message yet: unread instructions, queued prompts, and prompts whose run ended
 * before it read them.
 */
export class SessionOutbox {
  readonly #options: SessionOutboxOptions;
  readonly #entries: ReadonlySignal<readonly OutboxEntry[]>;
  /** Instructions that the run has not read yet, oldest first. */
  readonly unreadSteers: ReadonlySignal<readonly OutboxEntry[]>;
  /** Prompts that wait for the user's choice, oldest first. */
  readonly heldPrompts: ReadonlySignal<readonly OutboxEntry[]>;
  /** Ids of prompts that the user has withdrawn. */
  readonly #withdrawnIds = new Set<string>();
  /** Time at which the page first saw the end of an entry's run, by entry id. */
  readonly #endSeenAt = new Map<string, number>();
  #currentSettle: Promise<void> | undefined;
  #needsAnotherSettle = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: SessionOutboxOptions) {
    this.#options = options;
    this.#entries = computed(() => options.outbox.getEntries(options.sessionId));
    this.unreadSteers = computed(() => this.#entries.value.filter(({ kind, isHeld }) => kind === "steer" && !isHeld));
    this.heldPrompts = computed(() => this.#entries.value.filter(({ isHeld }) => isHeld));
    // The answer to a request may arrive after the events of its run.
    const stopSettling = effect(() => {
      if (this.#entries.value.length > 0) void untracked(() => this.settle());
    });
    const close = () => {
      stopSettling();
      clearTimeout(this.#timer);
    };
    options.closeSignal.addEventListener("abort", close, { once: true });
  }

  /** The sent text of a run; undefined if this browser did not send it. Subscribes the caller to changes. */
  findPrompt(runId: string): OutboxEntry | undefined {
    return this.#entries.value.find((entry) => entry.kind === "prompt" && entry.runId === runId);
  }

  /** Sends an instruction to the current run. Rejects with the client's errors. */
  async steer(text: string): Promise<void> {
    const { client, sessionId, outbox } = this.#options;
    const fields = { sessionId, kind: "steer", text, after: this.newestSeq } as const;
    await outbox.deliver(fields, () => client.sessions.steer(sessionId, text));
  }

  /** The `seq` of the newest message; 0 if there is none. The session's messages must be loaded. */
  get newestSeq(): number {
    return this.#options.mirror.messages.at(-1)?.seq ?? 0;
  }

  /** Cancels a queued prompt and returns its text to the prompt field. Rejects with the client's errors. */
  async withdraw(entry: OutboxEntry): Promise<void> {
    this.#withdrawnIds.add(entry.id);
    await this.#options.client.runs.cancel(entry.runId);
    await this.settle();
  }

  /** Cancels the queued prompts of this browser, the last one first. They become `heldPrompts`. */
  async holdQueue(): Promise<void> {
    const { client, sessionId } = this.#options;
    if (!this.#entries.peek().some(({ kind, isHeld }) => kind === "prompt" && !isHeld)) return;
    // The list has the newest run first.
    for (const { id } of await client.runs.list({ state: "queued", sessionId }))
      if (this.#entries.peek().some(({ runId }) => runId === id)) await client.runs.cancel(id);
  }

  /** Moves held prompts to the prompt field. */
  edit(entries: readonly OutboxEntry[]): void {
    this.#returnToField(entries.filter(({ id }) => this.#options.outbox.take(id)));
  }

  /**
   * Removes the texts that are in messages. Returns the texts of ended runs to the user. Never rejects: texts whose
   * state is unavailable are checked again at the next call.
   */
  settle(): Promise<void> {
    if (this.#currentSettle) this.#needsAnotherSettle = true;
    return (this.#currentSettle ??= this.#settleOnce()
      // The server is unavailable, or the page closes the session.
      .catch(() => undefined)
      .finally(() => {
        this.#currentSettle = undefined;
        if (!this.#needsAnotherSettle) return;
        this.#needsAnotherSettle = false;
        void this.settle();
      }));
  }

  async #settleOnce(): Promise<void> {
    const { mirror, closeSignal, outbox } = this.#options;
    if (this.#entries.peek().length === 0) return;
    this.#removeReadEntries(mirror.messages);
    for (const entry of this.#entries.peek()) {
      if (closeSignal.aborted) return;
      if (entry.isHeld && entry.runId === "") continue;
      if (entry.runId === "" && !outbox.isAbandoned(entry)) continue;
      if (entry.runId === "" && entry.request) await this.#repeatRequest(entry);
      else if (!entry.isHeld && (await this.#hasEnded(entry))) await this.#returnUnread(entry);
    }
  }

  #removeReadEntries(messages: readonly ApiMessage[]): void {
    for (const { id } of findReadEntries(this.#entries.peek(), messages)) this.#options.outbox.take(id);
  }

  /** Sends a request again whose answer a reload has lost. */
  async #repeatRequest(entry: OutboxEntry): Promise<void> {
    const { client, outbox } = this.#options;
    try {
      await outbox.repeat(client, entry);
    } catch {
      this.#returnToField([entry]);
    }
  }

  /** Whether no run can read the entry any more. */
  async #hasEnded(entry: OutboxEntry): Promise<boolean> {
    const state = entry.runId === "" ? "finished" : await this.#fetchRunState(entry.runId);
    if (ACTIVE_STATES.has(state)) return false;
    if (entry.kind === "prompt" && entry.runId !== "") return true;
    if (STOPPED_STATES.has(state)) return true;
    if (await this.#hasActiveRun()) {
      this.#endSeenAt.delete(entry.id);
      return false;
    }
    const seenAt = this.#endSeenAt.get(entry.id) ?? Date.now();
    this.#endSeenAt.set(entry.id, seenAt);
    if (Date.now() - seenAt >= NEXT_PROMPT_DELAY_MS) return true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.settle(), NEXT_PROMPT_DELAY_MS);
    return false;
  }

  async #fetchRunState(runId: string): Promise<ApiRunState> {
    const { client, mirror, closeSignal } = this.#options;
    if (mirror.state?.run?.id === runId) return mirror.state.run.state;
    try {
      return (await client.runs.get(runId, { signal: closeSignal })).state;
    } catch (error) {
      // A deleted run never reads its texts.
      if (error instanceof NotFoundError) return "interrupted";
      throw error;
    }
  }

  async #hasActiveRun(): Promise<boolean> {
    const { client, sessionId, mirror, closeSignal } = this.#options;
    const { run } = mirror.state ?? {};
    if (run && ACTIVE_STATES.has(run.state)) return true;
    const runs = await client.runs.list({ sessionId, size: 20 }, { signal: closeSignal });
    return runs.some(({ state }) => ACTIVE_STATES.has(state));
  }

  /** Returns the entry to the user, unless the server has its message. */
  async #returnUnread(entry: OutboxEntry): Promise<void> {
    const { client, sessionId, outbox, closeSignal } = this.#options;
    // Events of the message may still be on their way.
    const messages = await client.sessions.messages(sessionId, { after: entry.after }, { signal: closeSignal });
    this.#removeReadEntries(messages);
    if (!this.#entries.peek().some(({ id }) => id === entry.id)) return;
    if (entry.kind === "prompt" && !this.#withdrawnIds.has(entry.id)) outbox.hold(entry.id);
    else if (outbox.take(entry.id)) this.#returnToField([entry]);
  }

  #returnToField(entries: readonly OutboxEntry[]): void {
    const texts = entries.map(({ text }) => text);
    if (texts.length === 0) return;
    this.#options.drafts.returnTexts(this.#options.sessionId, texts);
    announce("A text that was not read is in the prompt field again.");
  }
}
