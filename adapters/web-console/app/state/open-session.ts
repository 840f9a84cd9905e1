import { batch, computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import {
  GantryError,
  NotFoundError,
  PendingSteers,
  SessionPage,
  type Ask,
  type GantryClient,
  type Message,
  type PendingSteer,
  type PlanEntry,
  type ProcessState,
  type Run,
  type Session,
  type SessionChange,
  type SessionState,
  type WatchedEvent,
} from "gantry/client";
import { Rows, type Row } from "./rows.js";
import { storedSteers, storeSteers } from "./stored-steers.js";

/** Messages that a session begins with, and that each look further back brings. */
const FIRST = 50;
const OLDER = 200;
/** Beyond every `seq`. */
const END = Number.MAX_SAFE_INTEGER;
/** Characters of what a running tool printed that are shown. */
const PRINTED = 64 * 1024;
/** Milliseconds after which a page that nobody sees gives its connection back: a browser has six for a host. */
const UNSEEN = 5000;

export type Connection = "connecting" | "open" | "lost";

/** The parts of a page that a session needs. */
export interface SessionHost {
  client: GantryClient;
  fail(error: unknown): void;
  /** Told how the session stands, each time it changes. */
  state?(state: SessionState): void;
  gone?(id: string): void;
}

/** The session that is open: its messages, how it stands, and the one stream that tells both. */
export class OpenSession {
  readonly id: string;
  readonly #host: SessionHost;
  readonly #page = new SessionPage();
  readonly #rows = new Rows(this.#page);
  readonly #closing = new AbortController();
  readonly #connection = signal<Connection>("connecting");
  readonly #missing = signal(false);
  readonly #state = signal<SessionState | undefined>(undefined);
  readonly #steers: PendingSteers;
  readonly #pending = signal<readonly PendingSteer[]>([]);
  readonly #returned = signal<readonly string[]>([]);
  readonly #printed = new Map<string, Signal<string>>();
  readonly #unfolded = new Map<string, Signal<boolean | undefined>>();
  /** Whether what is before the first message is still to be asked for. */
  readonly #before = signal(false);
  readonly #loaded = signal(false);
  #stream = new AbortController();
  #unseen: ReturnType<typeof setTimeout> | undefined;
  #loading: Promise<void> | undefined;
  #answers = false;
  #wake: (() => void) | undefined;
  readonly info = computed(() => this.#state.value?.session);
  readonly run: ReadonlySignal<Run | null> = computed(() => this.#state.value?.run ?? null);
  readonly asks: ReadonlySignal<readonly Ask[]> = computed(() => this.#state.value?.asks ?? []);
  readonly plan: ReadonlySignal<readonly PlanEntry[]> = computed(() => this.#state.value?.plan ?? []);
  /** Commands in the background that run. */
  readonly processes: ReadonlySignal<readonly ProcessState[]> = computed(() =>
    (this.#state.value?.processes ?? []).filter(({ state }) => state === "running"),
  );
  readonly busy = computed(() => isUnderWay(this.run.value));

  constructor(id: string, host: SessionHost) {
    this.id = id;
    this.#host = host;
    this.#steers = new PendingSteers(host.client, storedSteers(id));
    this.#pending.value = this.#steers.all;
    document.addEventListener("visibilitychange", this.#seen, { signal: this.#closing.signal });
    void this.#open();
  }

  get connection(): ReadonlySignal<Connection> {
    return this.#connection;
  }

  /** That there is no such session, or none any more. */
  get missing(): ReadonlySignal<boolean> {
    return this.#missing;
  }

  /** That the first messages are there. */
  get loaded(): ReadonlySignal<boolean> {
    return this.#loaded;
  }

  /** That there are older messages than those in `rows`. */
  get before(): ReadonlySignal<boolean> {
    return this.#before;
  }

  get rows(): ReadonlySignal<readonly Row[]> {
    return this.#rows.rows;
  }

  /** The answer of a tool to a call; undefined before. */
  result(callId: string): ReadonlySignal<Message | undefined> {
    return this.#rows.result(callId);
  }

  /** What a running tool printed until now. */
  progress(callId: string): ReadonlySignal<string> {
    const known = this.#printed.get(callId);
    if (known) return known;
    const made = signal(this.#page.progress.get(callId)?.slice(-PRINTED) ?? "");
    this.#printed.set(callId, made);
    return made;
  }

  /** The sessions of the helpers that a call asked for, as many as one page has; none where they cannot be had. */
  async helpersOf(callId: string): Promise<readonly Session[]> {
    try {
      const { signal } = this.#closing;
      const { sessions } = await this.#host.client.sessions.list({ spawnedBy: this.id, size: 100 }, { signal });
      return sessions.filter(({ spawned_by }) => spawned_by?.call_id === callId);
    } catch {
      // The row says as much without them.
      return [];
    }
  }

  /** Whether something is unfolded, as somebody chose; undefined before. It holds while what it is of is out of sight. */
  unfolded(name: string): Signal<boolean | undefined> {
    let known = this.#unfolded.get(name);
    if (!known) this.#unfolded.set(name, (known = signal<boolean | undefined>(undefined)));
    return known;
  }

  /** Load what was said before the first row. */
  older(): Promise<void> {
    if (!this.#before.peek() || this.#missing.peek()) return Promise.resolve();
    return (this.#loading ??= this.#loadOlder().finally(() => (this.#loading = undefined)));
  }

  /** Another title, model, effort or mode; what is refused becomes a notice. */
  async change(change: SessionChange): Promise<void> {
    await this.#tried(() => this.#host.client.sessions.update(this.id, change));
  }

  /** End the run under way. */
  async stop(): Promise<void> {
    await this.#tried(() => this.#host.client.sessions.cancel(this.id));
  }

  /** Have what was said summed up; a run as any other. */
  async compact(): Promise<void> {
    await this.#tried(() => this.#host.client.begin({ session_id: this.id, message: "", compact: true }));
  }

  /** Tell the run under way something. Throws what the client throws. */
  async steer(text: string): Promise<void> {
    await this.#steers.send(this.id, text, this.#page);
    void this.#settle();
  }

  /** Texts that the run has not read yet, oldest first. */
  get pending(): ReadonlySignal<readonly PendingSteer[]> {
    return this.#pending;
  }

  /** Texts that a stopped run did not read. */
  get returned(): ReadonlySignal<readonly string[]> {
    return this.#returned;
  }

  /** The returned texts, which are then no longer here. */
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

  /** Answer a question; that somebody was first becomes a notice. */
  async answer(ask: Ask, reply: { choice: string } | { text: string }): Promise<void> {
    await this.#tried(() => this.#host.client.asks.answer(ask.id, reply));
  }

  /** Nobody looks at it any more: its stream ends. */
  close(): void {
    clearTimeout(this.#unseen);
    this.#closing.abort();
    this.#stream.abort();
  }

  async #open(): Promise<void> {
    try {
      const messages = await this.#host.client.sessions.messages(
        this.id,
        { before: END, limit: FIRST },
        { signal: this.#closing.signal },
      );
      this.#page.add(messages);
      batch(() => {
        this.#before.value = messages.length === FIRST;
        this.#rows.renew();
        this.#loaded.value = true;
      });
      // The end of one that still grows is told from its begin again.
      const whole = messages.filter(({ finished }) => finished !== false);
      const grows =
        messages.length > whole.length ? Math.min(...messages.filter(unfinished).map(({ seq }) => seq)) - 1 : 0;
      await this.#watch(grows > 0 ? grows : (whole.at(-1)?.seq ?? 0));
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      if (error instanceof NotFoundError) this.#gone();
      else if (error instanceof GantryError && (error.status === 0 || error.status >= 500)) await this.#again();
      else this.#host.fail(error);
    }
  }

  /** The first messages could not be had: the server is away, and the page waits for it. */
  async #again(): Promise<void> {
    this.#connection.value = "lost";
    await new Promise((resolve) => setTimeout(resolve, 1000));
    if (!this.#closing.signal.aborted) await this.#open();
  }

  /** Follow what is said behind `behind`, or behind the place where the page is. */
  async #watch(behind: number): Promise<void> {
    while (!this.#closing.signal.aborted) {
      const { signal } = this.#stream;
      if (!signal.aborted) await this.#follow(behind, signal);
      if (this.#missing.peek() || this.#closing.signal.aborted) return;
      // Somebody asked for another stream, or for none until the page is seen again.
      if (this.#stream.signal.aborted) await this.#woken();
    }
  }

  async #follow(behind: number, signal: AbortSignal): Promise<void> {
    this.#answers = document.visibilityState === "visible";
    const events = this.#host.client.sessions.watch(this.id, {
      after: this.#page.cursor,
      afterSeq: behind,
      canAnswer: this.#answers,
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
        // What was said before how it stands is shown before it, too.
        this.#rows.flush();
        this.#state.value = state;
        this.#host.state?.(state);
        break;
      }
      case "tool_progress": {
        const printed = this.#printed.get(event.tool_call_id);
        if (printed) printed.value = (printed.peek() + event.content).slice(-PRINTED);
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
    await this.#tried(async () => {
      const messages = await this.#host.client.sessions.messages(
        this.id,
        { before: first.seq, limit: OLDER },
        { signal: this.#closing.signal },
      );
      this.#page.add(messages);
      batch(() => {
        this.#before.value = messages.length === OLDER;
        this.#rows.renew();
      });
    });
  }

  #gone(): void {
    this.#missing.value = true;
    this.#host.gone?.(this.id);
  }

  /**
   * A page that nobody sees gives its connection back where nothing goes on. Where a run goes on it stays, and may answer:
   * whoever looks at something else for a moment comes back to the question.
   */
  readonly #seen = () => {
    clearTimeout(this.#unseen);
    if (document.visibilityState === "visible") {
      if (this.#answers && !this.#stream.signal.aborted) return;
      this.#stream.abort();
      this.#stream = new AbortController();
      this.#wake?.();
      return;
    }
    this.#unseen = setTimeout(() => {
      if (!this.busy.peek()) this.#stream.abort();
    }, UNSEEN);
  };

  /** Until there is a stream to follow again, or none ever. */
  #woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#closing.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  async #tried(action: () => Promise<unknown>): Promise<void> {
    try {
      await action();
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#host.fail(error);
    }
  }
}

/** That a run has not ended. */
export function isUnderWay(run: Pick<Run, "state"> | null | undefined): boolean {
  return run?.state === "queued" || run?.state === "running" || run?.state === "waiting";
}

function unfinished(message: Message): boolean {
  return message.finished === false;
}
