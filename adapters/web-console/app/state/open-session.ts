import { batch, computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import {
  ApiError,
  NotFoundError,
  PendingSteers,
  SessionMirror,
  type ApiAsk,
  type GantryClient,
  type ApiMessage,
  type PendingSteer,
  type ApiPlanEntry,
  type ApiProcessState,
  type ApiRun,
  type ApiSession,
  type ApiSessionChange,
  type ConnectionState,
  type ApiSessionState,
  type WatchedEvent,
} from "gantry/client";
import { Rows, type Row } from "./rows.js";
import { storedSteers, storeSteers } from "./stored-steers.js";

/** Number of messages that are loaded at first, and with each older page. */
const FIRST_PAGE_SIZE = 50;
const OLDER_PAGE_SIZE = 200;
/** Larger than any `seq`. */
const END = Number.MAX_SAFE_INTEGER;
/** Maximum characters of a running tool's output that are shown; its end is kept. */
const MAX_OUTPUT_CHARACTERS = 64 * 1024;
/** Time after which a hidden page closes its connection, in ms: a browser allows six for a host. */
const HIDDEN_PAGE_MS = 5000;

/** Functions of the page that an open session uses. */
export interface SessionHost {
  client: GantryClient;
  fail(error: unknown): void;
  /** Called with the session's state each time it changes. */
  state?(state: ApiSessionState): void;
  gone?(id: string): void;
}

/** The open session: its messages, its state, and the event stream that updates both. */
export class WatchedSession {
  readonly id: string;
  readonly #host: SessionHost;
  readonly #page = new SessionMirror();
  readonly #rows = new Rows(this.#page);
  readonly #closing = new AbortController();
  readonly #connection = signal<ConnectionState>("connecting");
  readonly #missing = signal(false);
  readonly #state = signal<ApiSessionState | undefined>(undefined);
  readonly #steers: PendingSteers;
  readonly #pending = signal<readonly PendingSteer[]>([]);
  readonly #returned = signal<readonly string[]>([]);
  readonly #printed = new Map<string, Signal<string>>();
  readonly #unfolded = new Map<string, Signal<boolean | undefined>>();
  /** Whether messages before the first one may still be loaded. */
  readonly #hasOlder = signal(false);
  readonly #loaded = signal(false);
  #stream = new AbortController();
  #unseen: ReturnType<typeof setTimeout> | undefined;
  #loading: Promise<void> | undefined;
  #canAnswer = false;
  #wake: (() => void) | undefined;
  readonly info = computed(() => this.#state.value?.session);
  readonly run: ReadonlySignal<ApiRun | null> = computed(() => this.#state.value?.run ?? null);
  readonly asks: ReadonlySignal<readonly ApiAsk[]> = computed(() => this.#state.value?.asks ?? []);
  readonly plan: ReadonlySignal<readonly ApiPlanEntry[]> = computed(() => this.#state.value?.plan ?? []);
  /** Running background commands. */
  readonly processes: ReadonlySignal<readonly ApiProcessState[]> = computed(() =>
    (this.#state.value?.processes ?? []).filter(({ state }) => state === "running"),
  );
  readonly busy = computed(() => isActive(this.run.value));

  constructor(id: string, host: SessionHost) {
    this.id = id;
    this.#host = host;
    this.#steers = new PendingSteers(host.client, storedSteers(id));
    this.#pending.value = this.#steers.all;
    document.addEventListener("visibilitychange", this.#onVisibility, { signal: this.#closing.signal });
    void this.#open();
  }

  get connection(): ReadonlySignal<ConnectionState> {
    return this.#connection;
  }

  /** Whether the session does not exist or was deleted. */
  get missing(): ReadonlySignal<boolean> {
    return this.#missing;
  }

  /** Whether the first messages are loaded. */
  get loaded(): ReadonlySignal<boolean> {
    return this.#loaded;
  }

  /** Whether messages older than those in `rows` exist. */
  get hasOlder(): ReadonlySignal<boolean> {
    return this.#hasOlder;
  }

  get rows(): ReadonlySignal<readonly Row[]> {
    return this.#rows.rows;
  }

  /** The result of a tool call; undefined before the tool has ended. */
  result(callId: string): ReadonlySignal<ApiMessage | undefined> {
    return this.#rows.result(callId);
  }

  /** The current output of a running tool. */
  progress(callId: string): ReadonlySignal<string> {
    const outputSignal = this.#printed.get(callId);
    if (outputSignal) return outputSignal;
    const made = signal(this.#page.progress.get(callId)?.slice(-MAX_OUTPUT_CHARACTERS) ?? "");
    this.#printed.set(callId, made);
    return made;
  }

  /** Sessions of the subagents that a call started, at most one page of 100. Empty if they cannot be loaded. */
  async subagentsOf(callId: string): Promise<readonly ApiSession[]> {
    try {
      const { signal } = this.#closing;
      const { sessions } = await this.#host.client.sessions.list({ spawnedBy: this.id, size: 100 }, { signal });
      return sessions.filter(({ spawned_by }) => spawned_by?.call_id === callId);
    } catch {
      // The links are optional; the row is complete without them.
      return [];
    }
  }

  /**
   * Whether an item is unfolded, as the user chose; undefined before a choice. The choice is kept while the item is
   * scrolled out of view.
   */
  unfolded(name: string): Signal<boolean | undefined> {
    let unfoldedSignal = this.#unfolded.get(name);
    if (!unfoldedSignal) this.#unfolded.set(name, (unfoldedSignal = signal<boolean | undefined>(undefined)));
    return unfoldedSignal;
  }

  /** Loads messages before the first row. */
  loadOlder(): Promise<void> {
    if (!this.#hasOlder.peek() || this.#missing.peek()) return Promise.resolve();
    return (this.#loading ??= this.#loadOlder().finally(() => (this.#loading = undefined)));
  }

  /** Changes title, model, effort or mode. An error becomes a notice. */
  async change(change: ApiSessionChange): Promise<void> {
    await this.#attempt(() => this.#host.client.sessions.update(this.id, change));
  }

  /** Stops the current run. */
  async stop(): Promise<void> {
    await this.#attempt(() => this.#host.client.sessions.cancel(this.id));
  }

  /** Summarizes the conversation, as a normal run. */
  async compact(): Promise<void> {
    await this.#attempt(() => this.#host.client.start({ session_id: this.id, message: "", compact: true }));
  }

  /** Sends an instruction to the current run. Throws the client's errors. */
  async steer(text: string): Promise<void> {
    await this.#steers.send(this.id, text, this.#page);
    void this.#settle();
  }

  /** Instructions that the run has not read yet, oldest first. */
  get pending(): ReadonlySignal<readonly PendingSteer[]> {
    return this.#pending;
  }

  /** Texts that a stopped run did not read. */
  get returned(): ReadonlySignal<readonly string[]> {
    return this.#returned;
  }

  /** Returns the returned texts and removes them from `returned`. */
  takeReturned(): readonly string[] {
    const texts = this.#returned.peek();
    if (texts.length > 0) this.#returned.value = [];
    return texts;
  }

  async #settle(): Promise<void> {
    const settled = this.#steers.settle(this.#page, { signal: this.#closing.signal });
    this.#keepSteers();
    const texts = await settled;
    this.#keepSteers();
    if (texts.length > 0) this.#returned.value = [...this.#returned.peek(), ...texts];
  }

  #keepSteers(): void {
    if (this.#pending.peek() === this.#steers.all) return;
    this.#pending.value = this.#steers.all;
    storeSteers(this.id, this.#steers.all);
  }

  /** Answers a question. An error, for example that another client answered first, becomes a notice. */
  async answer(ask: ApiAsk, reply: { choice: string } | { text: string }): Promise<void> {
    await this.#attempt(() => this.#host.client.asks.answer(ask.id, reply));
  }

  /** Ends the stream. The object cannot be used afterwards. */
  close(): void {
    clearTimeout(this.#unseen);
    this.#closing.abort();
    this.#stream.abort();
  }

  async #open(): Promise<void> {
    try {
      const messages = await this.#host.client.sessions.messages(
        this.id,
        { before: END, limit: FIRST_PAGE_SIZE },
        { signal: this.#closing.signal },
      );
      this.#page.add(messages);
      batch(() => {
        this.#hasOlder.value = messages.length === FIRST_PAGE_SIZE;
        this.#rows.rebuild();
        this.#loaded.value = true;
      });
      // The stream sends unfinished messages again from their start: begin before the first of them.
      const finishedMessages = messages.filter(({ finished }) => finished !== false);
      const grows =
        messages.length > finishedMessages.length
          ? Math.min(...messages.filter(unfinished).map(({ seq }) => seq)) - 1
          : 0;
      await this.#watch(grows > 0 ? grows : (finishedMessages.at(-1)?.seq ?? 0));
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      if (error instanceof NotFoundError) this.#gone();
      else if (error instanceof ApiError && (error.status === 0 || error.status >= 500)) await this.#reopen();
      else this.#host.fail(error);
    }
  }

  /** The server is unavailable: tries again after a second. */
  async #reopen(): Promise<void> {
    this.#connection.value = "lost";
    await new Promise((resolve) => setTimeout(resolve, 1000));
    if (!this.#closing.signal.aborted) await this.#open();
  }

  /** Follows events after this sequence number, or after the page's position. */
  async #watch(behind: number): Promise<void> {
    while (!this.#closing.signal.aborted) {
      const { signal } = this.#stream;
      if (!signal.aborted) await this.#follow(behind, signal);
      if (this.#missing.peek() || this.#closing.signal.aborted) return;
      // The stream was replaced, or paused until the page is visible again.
      if (this.#stream.signal.aborted) await this.#woken();
    }
  }

  async #follow(behind: number, signal: AbortSignal): Promise<void> {
    this.#canAnswer = document.visibilityState === "visible";
    const events = this.#host.client.sessions.watch(this.id, {
      after: this.#page.cursor,
      afterSeq: behind,
      canAnswer: this.#canAnswer,
      signal,
      onConnection: (state) => {
        if (!signal.aborted)
          this.#connection.value = state === "connecting" && this.#connection.peek() === "lost" ? "lost" : state;
      },
    });
    for await (const event of events) this.#apply(event);
    if (this.#page.deleted) this.#gone();
  }

  #apply(event: WatchedEvent): void {
    this.#page.apply(event);
    if (event.type === "state" || event.type === "message") void this.#settle();
    switch (event.type) {
      case "state": {
        const { state } = this.#page;
        if (!state) break;
        // Show messages that precede the state before the state itself.
        this.#rows.flush();
        this.#state.value = state;
        this.#host.state?.(state);
        break;
      }
      case "tool_progress": {
        const printed = this.#printed.get(event.tool_call_id);
        if (printed) printed.value = (printed.peek() + event.content).slice(-MAX_OUTPUT_CHARACTERS);
        break;
      }
      case "deleted":
        break;
      default:
        this.#rows.changed(event);
    }
  }

  async #loadOlder(): Promise<void> {
    const [first] = this.#page.messages;
    if (!first) return;
    await this.#attempt(async () => {
      const messages = await this.#host.client.sessions.messages(
        this.id,
        { before: first.seq, limit: OLDER_PAGE_SIZE },
        { signal: this.#closing.signal },
      );
      this.#page.add(messages);
      batch(() => {
        this.#hasOlder.value = messages.length === OLDER_PAGE_SIZE;
        this.#rows.rebuild();
      });
    });
  }

  #gone(): void {
    this.#missing.value = true;
    this.#host.gone?.(this.id);
  }

  /**
   * Closes the connection of a hidden page if no run is active. During a run the connection stays open, so that a user
   * who returns can still answer its questions.
   */
  readonly #onVisibility = () => {
    clearTimeout(this.#unseen);
    if (document.visibilityState === "visible") {
      if (this.#canAnswer && !this.#stream.signal.aborted) return;
      this.#stream.abort();
      this.#stream = new AbortController();
      this.#wake?.();
      return;
    }
    this.#unseen = setTimeout(() => {
      if (!this.busy.peek()) this.#stream.abort();
    }, HIDDEN_PAGE_MS);
  };

  /** Resolves when there is a stream to follow again, or when the session is closed. */
  #woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#closing.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  async #attempt(action: () => Promise<unknown>): Promise<void> {
    try {
      await action();
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#host.fail(error);
    }
  }
}

/** Whether a run has not ended. */
export function isActive(run: Pick<ApiRun, "state"> | null | undefined): boolean {
  return run?.state === "queued" || run?.state === "running" || run?.state === "waiting";
}

function unfinished(message: ApiMessage): boolean {
  return message.finished === false;
}
