import {
  ApiError,
  PendingSteers,
  SessionMirror,
  type ApiAsk,
  type ConnectionState,
  type Effort,
  type GantryClient,
  type ApiMessage,
  type ApiSessionChange,
  type WatchedEvent,
} from "gantry/client";
import type { PendingPrompt } from "./transcript.js";

/** Number of messages that are loaded when a session opens, and with each older page. */
export const MESSAGE_BATCH_SIZE = 50;
/** Larger than any sequence number. */
const MAX_SEQ = Number.MAX_SAFE_INTEGER;
const ACTIVE_STATES: ReadonlySet<string> = new Set(["queued", "running", "waiting"]);

/** Settings of a session that does not exist yet. */
export interface NewSessionOptions {
  provider?: string;
  model?: string;
  mode?: "auto" | "ask" | "plan";
  reasoning_effort?: Effort;
}

/** Callbacks of a conversation to the terminal that shows it. */
export interface ConversationListener {
  /** The conversation has changed and must be redrawn. */
  reportChange(): void;
  /** Shows a line to the user. `isError`: whether to show the line as an error; default false. */
  showNotice(text: string, isError?: boolean): void;
  /** Puts steers that the stopped run did not read back into the prompt. */
  restoreTexts(texts: readonly string[]): void;
}

/**
 * One session as a terminal shows it: its last messages, older ones on request, and all new events from any client.
 * Without a session, the first prompt creates one.
 */
export class TerminalConversation {
  readonly mirror = new SessionMirror();
  readonly #client: GantryClient;
  readonly #listener: ConversationListener;
  readonly #closeController = new AbortController();
  readonly #watches: Promise<void>[] = [];
  readonly #steers: PendingSteers;
  /** Settings for a session that the first prompt creates. */
  readonly newSessionOptions: NewSessionOptions;
  id: string | undefined;
  connection: ConnectionState = "connecting";
  /** Whether messages before the first loaded message exist. */
  hasOlder = false;
  isLoading = false;
  #isRunStarting = false;
  /** Whether the user has stopped the run, perhaps before the server returned the session's id. */
  #isStopRequested = false;
  /** The last prompt request without an answer, and its idempotency key. */
  #lastRequest: { requestJson: string; key: string } | undefined;
  /** The prompt from Enter until the server sends it as a message or rejects it, or the user stops the run. */
  pendingPrompt: PendingPrompt | undefined;

  constructor(client: GantryClient, listener: ConversationListener, newSessionOptions: NewSessionOptions = {}) {
    this.#client = client;
    this.#steers = new PendingSteers(client);
    this.#listener = listener;
    this.newSessionOptions = newSessionOptions;
  }

  /** Shows an existing session. Rejects with `ApiError` and shows nothing if it cannot be read. */
  async open(id: string): Promise<void> {
    await this.#client.sessions.get(id, this.#abortOptions);
    this.id = id;
    this.isLoading = true;
    this.#listener.reportChange();
    try {
      await this.#loadLastMessages(id);
    } finally {
      this.isLoading = false;
    }
    this.#watch(id, this.#getLastFinalSeq());
    this.#listener.reportChange();
  }

  get isRunning(): boolean {
    return this.#isRunStarting || ACTIVE_STATES.has(this.mirror.state?.run?.state ?? "");
  }

  /** Texts of steers that the run has not read yet, oldest first. */
  get pendingSteers(): readonly string[] {
    return this.#steers.all.map(({ text }) => text);
  }

  /** Open questions, oldest first. */
  get asks(): readonly ApiAsk[] {
    return this.mirror.state?.asks ?? [];
  }

  get effort(): string {
    return this.mirror.state?.session.reasoning_effort ?? this.newSessionOptions.reasoning_effort ?? "";
  }

  get mode(): string {
    return this.mirror.state?.session.mode ?? this.newSessionOptions.mode ?? "";
  }

  /** Provider and model; "" if neither is set. */
  get model(): string {
    const { provider = "", model = "" } = this.mirror.state?.session ?? this.newSessionOptions;
    return [provider, model].filter((name) => name !== "").join("/");
  }

  /** Loads the messages before the first loaded message. Resolves with the number of messages loaded. */
  async loadOlder(): Promise<number> {
    const [firstMessage] = this.mirror.messages;
    const { id } = this;
    if (id === undefined || !firstMessage || !this.hasOlder || this.isLoading) return 0;
    this.isLoading = true;
    this.#listener.reportChange();
    try {
      const olderMessages = await this.#client.sessions.messages(
        id,
        { before: firstMessage.seq, limit: MESSAGE_BATCH_SIZE },
        this.#abortOptions,
      );
      // A rewind may have replaced these messages in the meantime.
      if (this.mirror.at(firstMessage.seq)) this.mirror.add(olderMessages);
      this.hasOlder = olderMessages.length === MESSAGE_BATCH_SIZE && (olderMessages[0]?.seq ?? 1) > 1;
      return olderMessages.length;
    } finally {
      this.isLoading = false;
      this.#listener.reportChange();
    }
  }

  /**
   * Sends a steer to the current run, or a prompt if there is no run. A message with files or a command always becomes
   * a prompt, which waits in the queue until the current run ends.
   */
  async send(message: string, files: readonly string[] = [], isCommand = false): Promise<void> {
    const { id } = this;
    if (id !== undefined && this.isRunning && files.length === 0 && !isCommand) {
      try {
        await this.#steers.send(id, message, this.mirror, this.#abortOptions);
        return void this.#settleSteers();
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "no_run") throw error;
      }
    }
    this.#isRunStarting = true;
    this.#isStopRequested = false;
    this.pendingPrompt = { text: message, afterSeq: this.mirror.messages.at(-1)?.seq ?? 0 };
    this.#listener.reportChange();
    const request = {
      message,
      // This client watches the session as soon as it knows the id.
      can_answer: true,
      ...(message.startsWith("/") && { commands: true }),
      ...(files.length > 0 && { files: [...files] }),
      ...(id === undefined ? this.newSessionOptions : { session_id: id, queue: true }),
    };
    // A retry of an unanswered request uses the same key, so that the server executes it once.
    const requestJson = JSON.stringify(request);
    const { key } = (this.#lastRequest =
      this.#lastRequest?.requestJson === requestJson ? this.#lastRequest : { requestJson, key: crypto.randomUUID() });
    try {
      const { session_id } = await this.#client.start(request, { key, ...this.#abortOptions });
      this.#lastRequest = undefined;
      if (id === undefined) {
        this.id = session_id;
        this.#watch(session_id, undefined);
      }
      if (this.#isStopRequested) await this.stop();
    } catch (error) {
      this.#isRunStarting = false;
      this.pendingPrompt = undefined;
      throw error;
    } finally {
      this.#listener.reportChange();
    }
  }

  /**
   * Summarizes the conversation. `instructions`: what the summary keeps. Resolves with the number of messages that the
   * model sees now; 0 if there was too little to compact; undefined if the run failed (see the session's state).
   */
  async compact(instructions: string): Promise<number | undefined> {
    const { id } = this;
    if (id === undefined) return 0;
    const stream = await this.#client.stream(
      { session_id: id, message: instructions, compact: true },
      this.#abortOptions,
    );
    let messageCount = 0;
    try {
      for await (const event of stream) if (event.type === "compaction") messageCount = event.messages;
    } catch {
      return undefined;
    }
    return messageCount;
  }

  /** Stops the current run and the queued runs of this session. */
  async stop(): Promise<void> {
    this.#isStopRequested = true;
    if (this.id !== undefined) await this.#client.sessions.cancel(this.id, this.#abortOptions);
  }

  /**
   * Changes model, effort, mode or title. Without a session, the change applies when the session is created; a title is
   * then ignored.
   */
  async change(change: ApiSessionChange): Promise<void> {
    if (this.id !== undefined) {
      await this.#client.sessions.update(this.id, change, this.#abortOptions);
      return;
    }
    const { provider, model, mode, reasoning_effort: effort } = change;
    if (provider !== undefined) this.newSessionOptions.provider = provider;
    if (model !== undefined) this.newSessionOptions.model = model;
    if (mode !== undefined && mode !== "") this.newSessionOptions.mode = mode;
    if (effort !== undefined) this.newSessionOptions.reasoning_effort = effort;
  }

  /** Answers a question of a run. */
  async answer(ask: ApiAsk, reply: { choice: string } | { text: string }): Promise<void> {
    await this.#client.asks.answer(ask.id, reply, this.#abortOptions);
  }

  /** Stops watching. A run continues. */
  async close(): Promise<void> {
    this.#closeController.abort();
    await Promise.all(this.#watches);
  }

  #settlePrompt(event: WatchedEvent): void {
    const { afterSeq = Infinity } = this.pendingPrompt ?? {};
    const isSent = event.type === "message" && event.message.role === "user" && event.message.seq > afterSeq;
    if (isSent || (this.#isStopRequested && !this.isRunning)) this.pendingPrompt = undefined;
  }

  async #settleSteers(): Promise<void> {
    const texts = await this.#steers.settle(this.mirror, this.#abortOptions);
    if (this.#closeController.signal.aborted) return;
    if (texts.length > 0) this.#listener.restoreTexts(texts);
    else this.#listener.reportChange();
  }

  get #abortOptions(): { signal: AbortSignal } {
    return { signal: this.#closeController.signal };
  }

  async #loadLastMessages(id: string): Promise<void> {
    const lastMessages = await this.#client.sessions.messages(
      id,
      { before: MAX_SEQ, limit: MESSAGE_BATCH_SIZE },
      this.#abortOptions,
    );
    this.mirror.add(lastMessages);
    this.hasOlder = (lastMessages[0]?.seq ?? 1) > 1;
  }

  /**
   * Returns the `seq` before the last message, because that message may still change and must be sent again. Undefined
   * if no message precedes the last one.
   */
  #getLastFinalSeq(): number | undefined {
    const lastMessage = this.mirror.messages.at(-1);
    return lastMessage && lastMessage.seq > 1 ? lastMessage.seq - 1 : undefined;
  }

  #watch(id: string, afterSeq: number | undefined): void {
    this.#watches.push(this.#readEvents(id, afterSeq));
  }

  async #readEvents(id: string, afterSeq: number | undefined): Promise<void> {
    const { signal } = this.#closeController;
    const options = {
      signal,
      afterSeq,
      canAnswer: true,
      onConnection: (state: ConnectionState) => {
        this.connection = state;
        this.#listener.reportChange();
      },
    };
    try {
      for await (const event of this.#client.sessions.watch(id, options)) {
        const previousRun = this.mirror.state?.run;
        this.mirror.apply(event);
        if (event.type === "state") {
          this.#isRunStarting = false;
          const { run } = event;
          const hasNewError = run && run.error && (previousRun?.id !== run.id || previousRun.state !== run.state);
          // Report the end only if this client saw the run before or stopped it.
          if (hasNewError && (previousRun !== undefined || this.#isStopRequested))
            this.#listener.showNotice(describeFailure(run.state, run.error), run.state === "failed");
          if (run && previousRun?.id === run.id && previousRun.state !== run.state && run.ended_by === "budget")
            this.#listener.showNotice("The run ended: budget exceeded.");
          if (run && previousRun?.id === run.id && previousRun.state !== run.state && run.ended_by === "max_iterations")
            this.#listener.showNotice("The run ended: iteration limit reached.");
        }
        this.#settlePrompt(event);
        if (event.type === "state" || event.type === "message") void this.#settleSteers();
        if (event.type === "rewind" && this.mirror.messages.length === 0 && event.after > 0)
          await this.#loadLastMessages(id);
        this.#listener.reportChange();
      }
    } catch (error) {
      if (signal.aborted) return;
      this.connection = "lost";
      this.#listener.showNotice(error instanceof Error ? error.message : String(error), true);
    }
  }
}

function describeFailure(state: string, error: { message: string } | null): string {
  if (state === "cancelled") return "Stopped.";
  if (state === "interrupted") return "The run's process exited unexpectedly.";
  return error?.message ?? "The run failed.";
}

/** Returns the texts of the user's prompts, oldest first. */
export function getPromptTexts(messages: readonly ApiMessage[]): string[] {
  return messages
    .filter(({ role }) => role === "user")
    .map(({ content }) =>
      typeof content === "string" ? content : content.map((part) => (part.type === "text" ? part.text : "")).join(""),
    );
}
