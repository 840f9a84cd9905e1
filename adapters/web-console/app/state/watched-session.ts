import { batch, computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import {
  ApiError,
  NotFoundError,
  SessionMirror,
  type ApiAsk,
  type GantryClient,
  type ApiMessage,
  type ApiPlanEntry,
  type ApiProcessState,
  type ApiRun,
  type ApiSession,
  type ApiSessionChange,
  type ConnectionState,
  type ApiSessionState,
  type WatchedEvent,
} from "gantry/client";
import type { Drafts } from "../drafts.js";
import { KnownFiles } from "../preview/known-files.js";
import type { ConsoleOutbox } from "./console-outbox.js";
import type { LiveSource } from "./live-source.js";
import { MessageJump } from "./message-jump.js";
import { TimelineRows, type Row } from "./rows.js";
import { SessionOutbox } from "./session-outbox.js";
import { ToolOutputs } from "./tool-outputs.js";

/** Number of messages that are loaded at first, and with each older page. */
const FIRST_PAGE_SIZE = 50;
const OLDER_PAGE_SIZE = 200;
const MAX_SUBAGENTS = 100;
/** Larger than any `seq`. */
const MAX_SEQ = Number.MAX_SAFE_INTEGER;
const LOAD_RETRY_DELAY_MS = 1_000;

/** Functions of the page that an open session uses. */
export interface SessionHost {
  client: GantryClient;
  outbox: ConsoleOutbox;
  drafts: Drafts;
  /** Watches sessions. */
  events: Pick<LiveSource, "watch">;
  reportError(error: unknown): void;
  /** Called with the session's state each time it changes. */
  onState?(state: ApiSessionState): void;
  /** Called when the session was deleted or does not exist. */
  onDeleted?(id: string): void;
}

/** The open session: its messages, its state, and the event stream that updates both. */
export class WatchedSession {
  readonly id: string;
  readonly #host: SessionHost;
  readonly #mirror = new SessionMirror();
  readonly #rows = new TimelineRows(this.#mirror);
  readonly #closeController = new AbortController();
  readonly #connection = signal<ConnectionState>("connecting");
  readonly #isMissing = signal(false);
  readonly #state = signal<ApiSessionState | undefined>(undefined);
  /** The texts that the user has sent and that are in no message yet. */
  readonly outbox: SessionOutbox;
  readonly knownFiles = new KnownFiles(
    () => this.rows.peek(),
    (callId) => this.getResultSignal(callId).peek(),
  );
  readonly jump = new MessageJump(this, this.#mirror);
  readonly #toolOutputs = new ToolOutputs(this.#mirror);
  readonly #unfoldedSignalsByKey = new Map<string, Signal<boolean | undefined>>();
  readonly #hasOlder = signal(false);
  readonly #isLoaded = signal(false);
  #olderPageRequest: Promise<void> | undefined;
  readonly info = computed(() => this.#state.value?.session);
  /** Undefined until the server has sent the state, because messages are shown before it. */
  readonly projectDir = computed(() => this.info.value?.project_dir);
  readonly run: ReadonlySignal<ApiRun | null> = computed(() => this.#state.value?.run ?? null);
  readonly asks: ReadonlySignal<readonly ApiAsk[]> = computed(() => this.#state.value?.asks ?? []);
  readonly plan: ReadonlySignal<readonly ApiPlanEntry[]> = computed(() => this.#state.value?.plan ?? []);
  /** Running background commands. */
  readonly processes: ReadonlySignal<readonly ApiProcessState[]> = computed(() =>
    (this.#state.value?.processes ?? []).filter(({ state }) => state === "running"),
  );
  readonly isBusy = computed(() => isActive(this.run.value));
  /** Whether no run is active. False until the server has sent the state, because messages are shown before it. */
  readonly isIdle = computed(() => this.#state.value !== undefined && !this.isBusy.value);

  constructor(id: string, host: SessionHost) {
    this.id = id;
    this.#host = host;
    const { signal: closeSignal } = this.#closeController;
    const { client, outbox, drafts } = host;
    this.outbox = new SessionOutbox({ sessionId: id, client, mirror: this.#mirror, outbox, drafts, closeSignal });
    void this.#load();
  }

  get connection(): ReadonlySignal<ConnectionState> {
    return this.#connection;
  }

  /** Whether the session does not exist or was deleted. */
  get isMissing(): ReadonlySignal<boolean> {
    return this.#isMissing;
  }

  /** Whether the first messages are loaded. */
  get isLoaded(): ReadonlySignal<boolean> {
    return this.#isLoaded;
  }

  /** Whether messages older than those in `rows` exist. */
  get hasOlder(): ReadonlySignal<boolean> {
    return this.#hasOlder;
  }

  get rows(): ReadonlySignal<readonly Row[]> {
    return this.#rows.rows;
  }

  /** The result of a tool call; undefined before the tool has ended. */
  getResultSignal(callId: string): ReadonlySignal<ApiMessage | undefined> {
    return this.#rows.getResultSignal(callId);
  }

  getOutputSignal(callId: string): ReadonlySignal<string> {
    return this.#toolOutputs.getSignal(callId);
  }

  /** Sessions of the subagents that a call started. Empty if the sessions cannot be loaded. */
  async loadSubagents(callId: string): Promise<readonly ApiSession[]> {
    try {
      const { signal } = this.#closeController;
      const query = { spawnedBy: this.id, size: MAX_SUBAGENTS };
      const { sessions } = await this.#host.client.sessions.list(query, { signal });
      return sessions.filter(({ spawned_by }) => spawned_by?.call_id === callId);
    } catch {
      return [];
    }
  }

  /**
   * The user's choice whether an item is unfolded; undefined before a choice. The choice is stored while the item is
   * scrolled out of view.
   */
  getUnfoldedSignal(itemKey: string): Signal<boolean | undefined> {
    let unfoldedSignal = this.#unfoldedSignalsByKey.get(itemKey);
    if (!unfoldedSignal) this.#unfoldedSignalsByKey.set(itemKey, (unfoldedSignal = signal<boolean | undefined>()));
    return unfoldedSignal;
  }

  /** Loads messages before the first row. */
  loadOlder(size = OLDER_PAGE_SIZE): Promise<void> {
    if (!this.#hasOlder.peek() || this.#isMissing.peek()) return Promise.resolve();
    return (this.#olderPageRequest ??= this.#loadOlder(size).finally(() => (this.#olderPageRequest = undefined)));
  }

  /** Changes title, model, effort or mode. An error becomes a notice. */
  async update(change: ApiSessionChange): Promise<void> {
    await this.#attempt(() => this.#host.client.sessions.update(this.id, change));
  }

  /** Cancels the queued prompts of this browser and the current run. An error becomes a notice. */
  async stop(): Promise<void> {
    // A queued prompt would start as soon as the run has ended.
    await this.#attempt(() => this.outbox.holdQueue());
    await this.#attempt(() => this.#host.client.sessions.cancel(this.id));
  }

  /** Moves the command of a running call to the background. An error becomes a notice. */
  async moveToBackground(toolCallId: string): Promise<void> {
    await this.#attempt(() => this.#host.client.sessions.moveToBackground(this.id, { toolCallId }));
  }

  /** Starts a run that summarizes the conversation. An error becomes a notice. */
  async compact(): Promise<void> {
    await this.#attempt(() => this.#host.client.start({ session_id: this.id, message: "", compact: true }));
  }

  /** Continues the last run, which did not finish, without a new prompt. An error becomes a notice. */
  async retry(): Promise<void> {
    const input = { session_id: this.id, message: "", retry: true, can_answer: true };
    await this.#attempt(() => this.#host.client.start(input));
  }

  /** Answers a question. An error becomes a notice, for example if another client answered first. */
  async answerAsk(ask: ApiAsk, reply: { choice: string } | { text: string }): Promise<void> {
    await this.#attempt(() => this.#host.client.asks.answer(ask.id, reply));
  }

  /** Ends the stream. The object cannot be used afterwards. */
  close(): void {
    this.#closeController.abort();
  }

  async #load(): Promise<void> {
    try {
      const messages = await this.#host.client.sessions.messages(
        this.id,
        { before: MAX_SEQ, limit: FIRST_PAGE_SIZE },
        { signal: this.#closeController.signal },
      );
      this.#mirror.add(messages);
      batch(() => {
        this.#hasOlder.value = messages.length === FIRST_PAGE_SIZE;
        this.#rows.rebuild();
        this.#isLoaded.value = true;
      });
      // The stream sends unfinished messages again from their start: begin before the first unfinished message.
      const startSeq = (messages.find(({ finished }) => finished === false)?.seq ?? 1) - 1;
      const lastFinishedSeq = messages.findLast(({ finished }) => finished !== false)?.seq ?? 0;
      await this.#follow(startSeq > 0 ? startSeq : lastFinishedSeq);
    } catch (error) {
      if (this.#closeController.signal.aborted) return;
      if (error instanceof NotFoundError) this.#handleDeletion();
      else if (error instanceof ApiError && (error.status === 0 || error.status >= 500)) await this.#retryLoad();
      else this.#host.reportError(error);
    }
  }

  /** Loads the session again after a delay, because the server is unavailable. */
  async #retryLoad(): Promise<void> {
    this.#connection.value = "lost";
    await new Promise((resolve) => setTimeout(resolve, LOAD_RETRY_DELAY_MS));
    if (!this.#closeController.signal.aborted) await this.#load();
  }

  /** Follows the events after the mirror's cursor, or after `afterSeq` while the mirror has no cursor. */
  async #follow(afterSeq: number): Promise<void> {
    const { signal } = this.#closeController;
    const events = this.#host.events.watch(this.id, {
      after: this.#mirror.cursor,
      afterSeq,
      signal,
      onConnection: (state) => {
        if (!signal.aborted)
          this.#connection.value = state === "connecting" && this.#connection.peek() === "lost" ? "lost" : state;
      },
    });
    for await (const event of events) this.#apply(event);
    if (this.#mirror.deleted) this.#handleDeletion();
  }

  #apply(event: WatchedEvent): void {
    this.#mirror.apply(event);
    if (event.type === "state" || event.type === "message") void this.outbox.settle();
    switch (event.type) {
      case "state": {
        const { state } = this.#mirror;
        if (!state) break;
        // Show messages that precede the state before the state itself.
        this.#rows.flush();
        this.#state.value = state;
        this.#host.onState?.(state);
        break;
      }
      case "tool_progress":
        this.#toolOutputs.append(event.tool_call_id, event.content);
        break;
      case "deleted":
        break;
      default:
        this.#rows.scheduleUpdate(event);
    }
  }

  async #loadOlder(size: number): Promise<void> {
    const [firstMessage] = this.#mirror.messages;
    if (!firstMessage) return;
    await this.#attempt(async () => {
      const messages = await this.#host.client.sessions.messages(
        this.id,
        { before: firstMessage.seq, limit: size },
        { signal: this.#closeController.signal },
      );
      this.#mirror.add(messages);
      batch(() => {
        this.#hasOlder.value = messages.length === size;
        this.#rows.rebuild();
      });
    });
  }

  #handleDeletion(): void {
    this.#isMissing.value = true;
    this.#host.onDeleted?.(this.id);
  }

  async #attempt(action: () => Promise<unknown>): Promise<void> {
    try {
      await action();
    } catch (error) {
      if (!this.#closeController.signal.aborted) this.#host.reportError(error);
    }
  }
}

/** Whether a run has not ended. */
export function isActive(run: Pick<ApiRun, "state"> | null | undefined): boolean {
  return run?.state === "queued" || run?.state === "running" || run?.state === "waiting";
}
