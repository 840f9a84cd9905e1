import {
  SessionMirror,
  type ApiAsk,
  type ConnectionState,
  type Effort,
  type GantryClient,
  type ApiMessage,
  type ApiSessionChange,
} from "gantry/client";
import { getUserText, type SentText } from "./outbox.js";
import { Sender, type SenderListener } from "./sender.js";

/** Number of messages that are loaded when a session opens, and with each older page. */
export const MESSAGE_BATCH_SIZE = 50;
/** Larger than any sequence number. */
const MAX_SEQ = Number.MAX_SAFE_INTEGER;
/** Permission modes in the order of Shift+Tab. */
const MODES = ["auto", "ask", "plan"] as const;
const ACTIVE_STATES: ReadonlySet<string> = new Set(["queued", "running", "waiting"]);

/** Settings of a session that does not exist yet. */
export interface NewSessionOptions {
  provider?: string;
  model?: string;
  mode?: "auto" | "ask" | "plan";
  reasoning_effort?: Effort;
  /** Whether the session works in a Git worktree of the project folder. */
  worktree?: boolean;
}

/** Callbacks of a conversation to the terminal that shows it. */
export interface ConversationListener extends SenderListener {
  /** Shows a line to the user. `isError`: whether to show the line as an error; default false. */
  showNotice(text: string, isError?: boolean): void;
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
  readonly sender: Sender;
  /** Settings for a session that the first prompt creates. */
  readonly newSessionOptions: NewSessionOptions;
  id: string | undefined;
  connection: ConnectionState = "connecting";
  /** Whether messages before the first loaded message exist. */
  hasOlder = false;
  isLoading = false;

  constructor(client: GantryClient, listener: ConversationListener, newSessionOptions: NewSessionOptions = {}) {
    this.#client = client;
    this.#listener = listener;
    this.sender = new Sender(client, this, listener, this.#closeController.signal);
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
    return this.sender.isStarting || ACTIVE_STATES.has(this.mirror.state?.run?.state ?? "");
  }

  /** The prompt from Enter until the server sends it as a message or rejects it. */
  get pendingPrompt(): SentText | undefined {
    return this.sender.outbox.entries.find(({ kind, isQueued }) => kind === "prompt" && !isQueued);
  }

  /** Texts that wait for a running run or for its end, oldest first. */
  get pendingTexts(): readonly SentText[] {
    return this.sender.outbox.entries.filter(({ kind, isQueued }) => kind === "steer" || isQueued);
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

  /** Moves the running commands of the current run to the background. Rejects with `ApiError` without a run. */
  async moveToBackground(): Promise<void> {
    if (this.id === undefined) throw new Error("no command is running");
    await this.#client.sessions.moveToBackground(this.id, {}, this.#abortOptions);
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

  /** Sets the permission mode after the current one. */
  async selectNextMode(): Promise<void> {
    const currentIndex = MODES.findIndex((mode) => mode === this.mode);
    await this.change({ mode: MODES[(currentIndex + 1) % MODES.length] ?? "auto" });
  }

  /** Starts to watch the session that the first prompt has created. */
  begin(id: string): void {
    this.id = id;
    this.#watch(id, undefined);
  }

  /** Answers a question of a run. */
  async answer(ask: ApiAsk, reply: { choice: string } | { text: string }): Promise<void> {
    await this.#client.asks.answer(ask.id, reply, this.#abortOptions);
  }

  /** Stops watching. A run continues. */
  async close(): Promise<void> {
    this.#closeController.abort();
    await Promise.all([...this.#watches, this.sender.close()]);
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
          this.sender.isStarting = false;
          const { run } = event;
          const hasNewError = run && run.error && (previousRun?.id !== run.id || previousRun.state !== run.state);
          // Report the end only if this client saw the run before or stopped it.
          if (hasNewError && (previousRun !== undefined || this.sender.isStopRequested))
            this.#listener.showNotice(describeFailure(run.state, run.error), run.state === "failed");
          if (run && previousRun?.id === run.id && previousRun.state !== run.state && run.ended_by === "budget")
            this.#listener.showNotice("The run ended: budget exceeded.");
          if (run && previousRun?.id === run.id && previousRun.state !== run.state && run.ended_by === "max_iterations")
            this.#listener.showNotice("The run ended: iteration limit reached.");
        }
        this.sender.applyEvent(event);
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
  return messages.filter(({ role }) => role === "user").map(getUserText);
}
