import { lastCharacters } from "../base/last-characters.js";
import type { StoredChange } from "../conversation/recorder.js";
import type { Message } from "../ports/message.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { SessionState, WatchEvent } from "../ports/watch.js";
import { notifierOf } from "../sessions/polling-notifier.js";
import { ChangeSignal } from "./change-signal.js";
import { getPositionChange, MessagePages, PAGE_SIZE, RunMessages, type Page } from "./message-pages.js";
import type { Presence } from "./presence.js";
import type { StreamPosition, PositionChange } from "./stream-position.js";

/** Poll interval for a run in another process, in ms. Dead processes send no notifications. */
const POLL_INTERVAL_MS = 1000;
/**
 * Minimum interval between two updates of watchers, in ms; faster changes are combined. The interval is longer for runs
 * in other processes, because each update needs several store queries.
 */
const LOCAL_UPDATE_INTERVAL_MS = 100;
const REMOTE_UPDATE_INTERVAL_MS = 250;

/** Maximum cached characters of a running tool's output, for slow watchers. */
const MAX_PROGRESS_CHARACTERS = 64 * 1024;

type StateEvent = Extract<WatchEvent, { type: "state" }>;

/** Used by the run of this process that has the chain's lease, to update the tail. */
export interface TailWriter {
  /** Reports a stored change of the run. */
  reportChange: (change: StoredChange) => void;
  /** Reports that the run no longer has the lease. */
  end: () => void;
}

/**
 * The end of a chain, shared by all its watchers in one process. Watchers pull: each has a cursor and no queue, so that
 * a slow watcher costs nothing and loses nothing. For runs in this process the tail is updated directly, without
 * reading the store.
 */
export class SessionTail {
  readonly rootId: string;
  readonly #store: SessionDriver;
  readonly #loadState: () => Promise<SessionState | undefined>;
  readonly #changeSignal = new ChangeSignal(() =>
    this.hasLocalWriter ? LOCAL_UPDATE_INTERVAL_MS : REMOTE_UPDATE_INTERVAL_MS,
  );
  readonly #runMessages = new RunMessages();
  /** Number of rewinds of the session when the current run started. */
  #rewindCount = 0;
  /** Output of the running tools by call id: its total length, and its last characters. */
  readonly #outputsByCallId = new Map<string, { length: number; text: string }>();
  readonly #pages: MessagePages;
  /** The state of the session, until it may have changed. */
  #state: Promise<StateEvent | undefined> | undefined;
  /** The last reported state, with its JSON. An equal state is not reported again. */
  #reportedState: { text: string; event: StateEvent } | undefined;
  #watcherCount = 0;
  /** Writer of the run that has the chain's lease. A previous writer may report its end after the next has started. */
  #writer: TailWriter | undefined;
  /** Whether a run was active at the last query. */
  #isRunning = false;
  #unsubscribe: (() => void) | undefined;
  #pollTimer: NodeJS.Timeout | undefined;
  readonly #presence: Presence;

  /** `loadState` reads the session's state from the store; undefined if the session was deleted. */
  constructor(
    rootId: string,
    store: SessionDriver,
    presence: Presence,
    loadState: () => Promise<SessionState | undefined>,
  ) {
    this.#presence = presence;
    this.rootId = rootId;
    this.#store = store;
    this.#loadState = loadState;
    this.#pages = new MessagePages(rootId, store);
  }

  /** Incremented with each change. */
  get version(): number {
    return this.#changeSignal.version;
  }

  /** Whether a run of this process has the chain's lease. */
  get hasLocalWriter(): boolean {
    return this.#writer !== undefined;
  }

  get watcherCount(): number {
    return this.#watcherCount;
  }

  /**
   * Registers the run of this process that has the chain's lease, until it calls `end`. No other process writes
   * messages meanwhile. `rewindCount`: number of the session's rewinds when the lease was taken.
   */
  openWriter(rewindCount: number): TailWriter {
    this.#rewindCount = rewindCount;
    const writer: TailWriter = {
      reportChange: (change) => {
        if (this.#writer === writer) this.#applyChange(change);
        // A late change of a previous run belongs before the next run's messages, which are already cached.
        else this.reportMessageChange();
      },
      end: () => {
        if (this.#writer !== writer) return;
        this.#writer = undefined;
        this.#outputsByCallId.clear();
        this.reportMessageChange();
      },
    };
    this.#writer = writer;
    this.#outputsByCallId.clear();
    this.reportMessageChange();
    return writer;
  }

  /** Applies a change that the current run has stored. */
  #applyChange(change: StoredChange): void {
    const { add = [], append = [], finish = [], set } = change;
    // Text appended to a message changes nothing else, and is stored ten times a second.
    if (append.length === 0 || add.length + finish.length > 0 || set) this.#state = undefined;
    this.#runMessages.apply(change);
    for (const { toolCallId } of [...add, ...finish]) this.#outputsByCallId.delete(toolCallId);
    this.#changeSignal.increment();
  }

  /** Drops cached data for a new watcher, which may have newer information. */
  refresh(): void {
    this.#state = undefined;
    this.#pages.clear();
  }

  /** Reports a change of the chain: cached messages are void. */
  reportMessageChange(): void {
    this.#runMessages.clear();
    this.reportStateChange();
  }

  /** Reports a change that does not affect messages. */
  reportStateChange(): void {
    this.#state = undefined;
    this.#changeSignal.increment();
  }

  /** Appends output of a running tool. */
  appendProgress(callId: string, text: string): void {
    const output = this.#outputsByCallId.get(callId) ?? { length: 0, text: "" };
    this.#outputsByCallId.set(callId, {
      length: output.length + text.length,
      text: lastCharacters(output.text + text, MAX_PROGRESS_CHARACTERS),
    });
    this.#changeSignal.increment();
  }

  /** Returns the output of running tools after the lengths in `reportedLengths`, and updates these lengths. */
  takeProgress(reportedLengths: Map<string, number>): { callId: string; text: string }[] {
    const newOutputs: { callId: string; text: string }[] = [];
    for (const callId of reportedLengths.keys()) if (!this.#outputsByCallId.has(callId)) reportedLengths.delete(callId);
    for (const [callId, { length, text }] of this.#outputsByCallId) {
      const unreportedCharacters = Math.min(length - (reportedLengths.get(callId) ?? 0), text.length);
      if (unreportedCharacters > 0) newOutputs.push({ callId, text: text.slice(text.length - unreportedCharacters) });
      reportedLengths.set(callId, length);
    }
    return newOutputs;
  }

  /** Reads the session's state; returns the same object while it is equal. Undefined if the session was deleted. */
  readState(): Promise<StateEvent | undefined> {
    if (this.#state) return this.#state;
    const query = this.#loadState().then((state) => {
      const { state: runState = "finished" } = state?.run ?? {};
      // If an older query finishes after a newer one, its result is outdated.
      if (this.#state === query) this.#isRunning = runState === "running" || runState === "waiting";
      if (!state) return undefined;
      const stateJson = JSON.stringify(state);
      if (stateJson !== this.#reportedState?.text)
        this.#reportedState = { text: stateJson, event: { type: "state", state } };
      return this.#reportedState.event;
    });
    // After a failure the next call queries again.
    query.catch(() => this.#state === query && (this.#state = undefined));
    return (this.#state = query);
  }

  /** Returns the change for a reader at a position, from a message of a page. Cached for readers at that position. */
  getChange(position: StreamPosition, message: Message, page: Page): PositionChange {
    const isGrowing = this.hasLocalWriter && this.#runMessages.includesFrom(message.seq);
    return getPositionChange(position, message, page, isGrowing);
  }

  /**
   * Reads the message with this `seq` and the following ones, at most a page. `rewindCount`: number of the session's
   * rewinds that the caller knows.
   */
  async readPage(seq: number, rewindCount: number): Promise<Page> {
    // The lease is released shortly before the run reports it. Messages that another process has rewound since then are
    // still cached here.
    if (this.#runMessages.includesFrom(seq) && rewindCount === this.#rewindCount)
      return { ...this.#runMessages.readPage(seq, PAGE_SIZE), changes: this.#pages.getRunChanges(this.version) };
    // Query after the state, so that the page is never older than the rewinds in the state.
    return this.#pages.read(seq, this.version, this.readState());
  }

  /** Resolves when a change after `version` exists and the minimum interval has passed, or when the signal aborts. */
  waitForChange(version: number, signal: AbortSignal): Promise<void> {
    return this.#changeSignal.waitForChange(version, signal);
  }

  /** Whether a client can now answer requests of this session, whichever session it shows. */
  get isAttended(): boolean {
    return this.#presence.canAnswer(this.rootId);
  }

  /** Whether a client that shows this session can now answer its requests. */
  get isShown(): boolean {
    return this.#presence.isShown(this.rootId);
  }

  /**
   * Connects a client that shows this session. With `true` the client answers requests of any session, with a function
   * only those of this session. The returned function disconnects the client.
   */
  addResponder(canAnswer: true | (() => boolean)): () => void {
    const client = canAnswer === true ? () => true : (rootId: string) => rootId === this.rootId && canAnswer();
    return this.#presence.connect(client, this.rootId);
  }

  /** Adds a watcher. The returned function removes it. */
  addWatcher(): () => void {
    this.#watcherCount += 1;
    const onNotification = () => (this.hasLocalWriter ? this.reportStateChange() : this.reportMessageChange());
    this.#unsubscribe ??= notifierOf(this.#store).subscribe(this.rootId, onNotification);
    // The timer keeps the process alive while a watcher waits.
    this.#pollTimer ??= setInterval(
      () => this.#isRunning && !this.hasLocalWriter && this.reportMessageChange(),
      POLL_INTERVAL_MS,
    );
    let isWatching = true;
    return () => {
      if (!isWatching) return;
      isWatching = false;
      this.#watcherCount -= 1;
      if (this.#watcherCount > 0) return;
      this.#unsubscribe?.();
      clearInterval(this.#pollTimer);
      this.#changeSignal.stopTimer();
      this.#unsubscribe = undefined;
      this.#pollTimer = undefined;
    };
  }
}
