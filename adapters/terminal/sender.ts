import { ApiError, type GantryClient, type SessionMirror, type WatchedEvent } from "gantry/client";
import { TerminalOutbox, type SentText } from "./outbox.js";

/** Interval at which unread texts are checked beside the events of the session, in ms. */
const SETTLE_INTERVAL_MS = 1_000;

/** The conversation whose texts are sent. */
export interface SenderHost {
  /** Undefined before the first prompt. */
  readonly id: string | undefined;
  readonly isRunning: boolean;
  readonly mirror: SessionMirror;
  /** Fields of the request that creates the session. */
  readonly newSessionOptions: object;
  /** Called with the id of the session that the first prompt has created. */
  begin(id: string): void;
}

/** Callbacks to the terminal that shows the conversation. */
export interface SenderListener {
  /** The conversation has changed and must be redrawn. */
  reportChange(): void;
  /** Puts texts that no run has read or will read back into the prompt. `notice`: the reason; "" shows none. */
  restoreTexts(texts: readonly string[], notice: string): void;
  /**
   * Resolves when the texts of the prompt and of the outbox are on disk, or could not be stored. Undefined if nothing is
   * stored.
   */
  storeTexts(): Promise<void> | undefined;
}

/** Sends the user's texts to the runs of a session. A text that no run reads returns to the prompt. */
export class Sender {
  readonly outbox: TerminalOutbox;
  /** Whether a prompt was sent and the server has not reported a run since. */
  isStarting = false;
  /** Whether the user has stopped the run, perhaps before the server returned the session's id. */
  isStopRequested = false;
  readonly #client: GantryClient;
  readonly #host: SenderHost;
  readonly #listener: SenderListener;
  readonly #signal: AbortSignal;
  /** Idempotency keys of the requests without an answer, by the body of the request. */
  readonly #keysByRequest = new Map<string, string>();
  #settleTimer: NodeJS.Timeout | undefined;
  #settling: Promise<void> | undefined;

  /** The signal ends all requests when the conversation closes. */
  constructor(client: GantryClient, host: SenderHost, listener: SenderListener, signal: AbortSignal) {
    this.#client = client;
    this.#host = host;
    this.#listener = listener;
    this.#signal = signal;
    this.outbox = new TerminalOutbox(client, () => {
      this.#updateSettleTimer();
      listener.reportChange();
    });
  }

  /**
   * Sends a steer to the current run, or a prompt if there is no run. A message with files or a command always becomes
   * a prompt, which waits in the queue until the current run ends. If the request fails, the text returns to the prompt.
   */
  async send(message: string, files: readonly string[] = [], isCommand = false): Promise<void> {
    const { id, isRunning } = this.#host;
    let steerId: string | undefined;
    if (id !== undefined && isRunning && files.length === 0 && !isCommand) {
      const steer = this.#createEntry(message, "steer");
      if (await this.#sendSteer(id, steer)) return;
      steerId = steer.id;
    }
    const isQueued = this.#host.isRunning;
    this.isStarting = true;
    this.isStopRequested = false;
    const request = {
      message,
      // This client watches the session as soon as it knows the id.
      can_answer: true,
      ...(message.startsWith("/") && { commands: true }),
      ...(files.length > 0 && { files: [...files] }),
      ...(id === undefined ? this.#host.newSessionOptions : { session_id: id, queue: true }),
    };
    // A retry of an unanswered request uses the same key, so that the server executes it once.
    const requestJson = JSON.stringify(request);
    const key = this.#keysByRequest.get(requestJson) ?? crypto.randomUUID();
    this.#keysByRequest.set(requestJson, key);
    this.outbox.add({ ...this.#createEntry(message, "prompt"), id: key, isQueued, requestJson });
    // Removed after the prompt was added, so that the stored texts always contain one of the two.
    if (steerId !== undefined) this.outbox.remove(steerId);
    try {
      const storing = this.#listener.storeTexts();
      if (storing) await storing;
      const { session_id, run_id } = await this.#client.start(request, { key, signal: this.#signal });
      this.#keysByRequest.delete(requestJson);
      if (id === undefined) this.#host.begin(session_id);
      this.outbox.accept(key, run_id);
      if (this.isStopRequested) await this.stop();
    } catch (error) {
      this.isStarting = false;
      this.#returnEntry(key);
      throw error;
    } finally {
      this.#listener.reportChange();
    }
  }

  /**
   * Takes over texts that an earlier terminal has sent to this session. Call this after the messages are loaded. A
   * text of a request without an answer returns to the prompt, and sends the same idempotency key again.
   */
  adopt(entries: readonly SentText[]): void {
    if (entries.length === 0) return;
    this.outbox.add(...entries);
    this.outbox.removeRead(this.#host.mirror.messages);
    for (const { id, runId, requestJson } of this.outbox.entries) {
      if (runId !== undefined && this.#host.id !== undefined) continue;
      if (requestJson !== "") this.#keysByRequest.set(requestJson, id);
      this.#returnEntry(id, "An earlier terminal did not send this text; it is back in the prompt.");
    }
    void this.#settle();
  }

  /** Stops the current run, and the queued runs of this terminal. Their prompts return to the input. */
  async stop(): Promise<void> {
    this.isStopRequested = true;
    const { id } = this.#host;
    if (id === undefined) return;
    // The queued runs first: a queued run starts when the current run ends.
    for (const { kind, runId, isQueued } of this.outbox.entries)
      if (kind === "prompt" && isQueued && runId !== undefined)
        await this.#client.runs.cancel(runId, { signal: this.#signal });
    await this.#client.sessions.cancel(id, { signal: this.#signal });
    void this.#settle();
  }

  /** Call this after the mirror has applied the event. */
  applyEvent(event: WatchedEvent): void {
    if (event.type === "message") this.outbox.removeRead([event.message]);
    if (event.type === "state") void this.#settle();
  }

  /** Waits for the end of the requests, which the signal has aborted. */
  async close(): Promise<void> {
    this.#updateSettleTimer();
    await this.#settling;
  }

  /** Sends a text to the current run. Resolves with false if there is no run; the entry then stays in the outbox. */
  async #sendSteer(sessionId: string, entry: SentText): Promise<boolean> {
    this.outbox.add(entry);
    try {
      const storing = this.#listener.storeTexts();
      if (storing) await storing;
      const { run_id } = await this.#client.sessions.steer(sessionId, entry.text, { signal: this.#signal });
      this.outbox.accept(entry.id, run_id);
      void this.#settle();
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.code === "no_run") return false;
      this.#returnEntry(entry.id);
      throw error;
    }
  }

  #createEntry(text: string, kind: SentText["kind"]): SentText {
    const afterSeq = this.#host.mirror.messages.at(-1)?.seq ?? 0;
    return { id: crypto.randomUUID(), kind, text, afterSeq, isQueued: false, requestJson: "" };
  }

  /** Puts the text of a failed request back into the prompt, unless a message contains it already. */
  #returnEntry(id: string, notice = ""): void {
    const entry = this.outbox.entries.find((candidate) => candidate.id === id);
    // The entries of a closed conversation stay for the next time that its session opens.
    if (!entry || this.#signal.aborted) return;
    this.outbox.remove(id);
    this.#listener.restoreTexts([entry.text], notice);
  }

  /** Unread texts are also checked without an event, because a late steer causes none. */
  #updateSettleTimer(): void {
    if (this.outbox.entries.length === 0 || this.#signal.aborted) {
      clearInterval(this.#settleTimer);
      this.#settleTimer = undefined;
    } else this.#settleTimer ??= setInterval(() => void this.#settle(), SETTLE_INTERVAL_MS);
  }

  /** Removes read texts from the outbox, and puts texts that no run will read back into the prompt. Never rejects. */
  #settle(): Promise<void> {
    return (this.#settling ??= this.#settleOnce().finally(() => (this.#settling = undefined)));
  }

  async #settleOnce(): Promise<void> {
    const { id, mirror } = this.#host;
    if (id === undefined || this.outbox.entries.length === 0) return;
    const unread = await this.outbox.findUnread(id, mirror, this.#signal);
    const returned = unread.filter((entry) => this.outbox.entries.includes(entry));
    if (returned.length === 0 || this.#signal.aborted) return;
    for (const entry of returned) this.outbox.remove(entry.id);
    const notice = "The run did not read your last message; it is back in the prompt.";
    this.#listener.restoreTexts(
      returned.map(({ text }) => text),
      notice,
    );
  }
}
