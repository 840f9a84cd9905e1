import type { Message } from "../ports/message.js";
import type { SessionState, WatchEvent } from "../ports/watch.js";
import { lastCharacters } from "../base/last-characters.js";
import type { StoredChange } from "../conversation/recorder.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Presence } from "./presence.js";
import type { StreamPosition, PositionChange } from "./stream-position.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/** Messages per query. */
const PAGE_SIZE = 50;
/** Maximum cached pages for readers of the same messages. */
const MAX_CACHED_PAGES = 4;
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

/** Maximum cached changes for watchers at the same position. */
const MAX_CACHED_CHANGES = 64;

type StateEvent = Extract<WatchEvent, { type: "state" }>;

/** Data cached for one version. */
interface VersionCache {
  readonly version: number;
  readonly pages: Map<number, Promise<Message[]>>;
  readonly changes: Map<string, PositionChange>;
}

/** A page of messages at one version of the tail. */
export interface Page {
  readonly messages: readonly Message[];
  /** Whether more messages may follow. */
  readonly hasMore: boolean;
  /** Changes already computed for other readers. At another version the same position may need other changes. */
  readonly changes: Map<string, PositionChange>;
}

function createVersionCache(version: number): VersionCache {
  return { version, pages: new Map(), changes: new Map() };
}

/** Used by the run of this process that has the chain's lease, to update the tail. */
export interface TailWriter {
  /** Reports a stored change of the run. */
  reportChange: (change: StoredChange) => void;
  /** Reports that the run no longer has the lease. */
  end: () => void;
}

/** Output of a running tool. */
interface Progress {
  /** Total characters, including those that are no longer cached. */
  length: number;
  /** The last characters. */
  text: string;
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
  #version = 0;
  readonly #wakeCallbacks = new Set<() => void>();
  /** Wakes waiting watchers when the minimum interval has passed. */
  #wakeTimer: NodeJS.Timeout | undefined;
  #lastWakeAtMs = -REMOTE_UPDATE_INTERVAL_MS;
  /** All visible messages from this `seq` on are in `#messages`, as stored. */
  #cachedFromSeq = Infinity;
  #messages: Message[] = [];
  /** Number of rewinds of the session when the current run started. */
  #rewindCount = 0;
  readonly #progress = new Map<string, Progress>();
  /** Results of store queries at the current version, so that many watchers cause one query. */
  #cache: VersionCache = createVersionCache(-1);
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
  }

  /** Incremented with each change. */
  get version(): number {
    return this.#version;
  }

  /** Whether a run of this process has the chain's lease. */
  get hasLocalWriter(): boolean {
    return this.#writer !== undefined;
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
        this.#progress.clear();
        this.reportMessageChange();
      },
    };
    this.#writer = writer;
    this.#progress.clear();
    this.reportMessageChange();
    return writer;
  }

  /** Applies a change that the current run has stored. */
  #applyChange({ add = [], append = [], finish = [], set }: StoredChange): void {
    // Text appended to a message changes nothing else, and is stored ten times a second.
    if (append.length === 0 || add.length + finish.length > 0 || set) this.#state = undefined;
    for (const message of add) {
      if (this.#messages.length === 0) this.#cachedFromSeq = message.seq;
      this.#messages.push(
        message.finished ? message : { ...message, parts: message.parts.map((part) => ({ ...part })) },
      );
    }
    for (const { messageId, part, type, text } of append) {
      const parts = this.#messages.findLast(({ id }) => id === messageId)?.parts;
      const existingPart = parts?.[part];
      if (existingPart && "text" in existingPart) existingPart.text += text;
      else parts?.push({ type, text });
    }
    for (const finalMessage of finish) {
      const index = this.#messages.findLastIndex(({ id }) => id === finalMessage.id);
      const { seq, sessionId } = this.#messages[index] ?? finalMessage;
      if (index >= 0) this.#messages[index] = { ...finalMessage, seq, sessionId, finished: true };
      for (const id of this.#progress.keys()) if (finalMessage.toolCallId === id) this.#progress.delete(id);
    }
    for (const { toolCallId } of add) this.#progress.delete(toolCallId);
    this.#incrementVersion();
  }

  /** Drops cached data for a new watcher, which may have newer information. */
  refresh(): void {
    this.#state = undefined;
    this.#cache = createVersionCache(-1);
  }

  /** Reports a change of the chain: cached messages are void. */
  reportMessageChange(): void {
    this.#cachedFromSeq = Infinity;
    this.#messages = [];
    this.reportStateChange();
  }

  /** Reports a change that does not affect messages. */
  reportStateChange(): void {
    this.#state = undefined;
    this.#incrementVersion();
  }

  /** Appends output of a running tool. */
  appendProgress(callId: string, text: string): void {
    const { length, text: cachedText } = this.#progress.get(callId) ?? { length: 0, text: "" };
    this.#progress.set(callId, {
      length: length + text.length,
      text: lastCharacters(cachedText + text, MAX_PROGRESS_CHARACTERS),
    });
    this.#incrementVersion();
  }

  /** Returns the output of running tools after the lengths in `reportedLengths`, and updates these lengths. */
  takeProgress(reportedLengths: Map<string, number>): { callId: string; text: string }[] {
    const newOutputs: { callId: string; text: string }[] = [];
    for (const callId of reportedLengths.keys()) if (!this.#progress.has(callId)) reportedLengths.delete(callId);
    for (const [callId, { length, text }] of this.#progress) {
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
  getChange(position: StreamPosition, message: Message, { changes }: Page): PositionChange {
    const key = `${message.seq} ${position.key}`;
    let change = changes.get(key);
    if (!change) {
      if (changes.size >= MAX_CACHED_CHANGES) changes.clear();
      change = position.createEvents(message, this.hasLocalWriter && message.seq >= this.#cachedFromSeq);
      changes.set(key, change);
    }
    return change;
  }

  /**
   * Reads the message with this `seq` and the following ones, at most a page. `rewindCount`: number of the session's
   * rewinds that the caller knows.
   */
  async readPage(seq: number, rewindCount: number): Promise<Page> {
    const { pages, changes } = this.#getCache();
    // The lease is released shortly before the run reports it. Messages that another process has rewound since then are
    // still cached here.
    if (seq >= this.#cachedFromSeq && rewindCount === this.#rewindCount) {
      const index = this.#messages.findIndex((message) => message.seq >= seq);
      return {
        messages: index < 0 ? [] : this.#messages.slice(index, index + PAGE_SIZE),
        hasMore: index >= 0 && index + PAGE_SIZE < this.#messages.length,
        changes,
      };
    }
    // Query after the state, so that the page is never older than the rewinds in the state.
    const state = this.readState();
    const query = { scope: "chain", after: seq - 1, limit: PAGE_SIZE } as const;
    const page = pages.get(seq) ?? state.then(() => this.#store.messages(this.rootId, query));
    if (pages.size >= MAX_CACHED_PAGES) pages.clear();
    pages.set(seq, page);
    page.catch(() => pages.delete(seq));
    const messages = await page;
    return { messages, hasMore: messages.length === PAGE_SIZE, changes };
  }

  /** Resolves when a change after `version` exists and the minimum interval has passed, or when the signal aborts. */
  async waitForChange(version: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        signal.removeEventListener("abort", wake);
        this.#wakeCallbacks.delete(wake);
        resolve();
      };
      signal.addEventListener("abort", wake, { once: true });
      this.#wakeCallbacks.add(wake);
      if (this.#version !== version) this.#wakeSoon();
    });
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
      clearTimeout(this.#wakeTimer);
      this.#wakeTimer = undefined;
      this.#unsubscribe = undefined;
      this.#pollTimer = undefined;
    };
  }

  #getCache() {
    if (this.#cache.version !== this.#version) this.#cache = createVersionCache(this.#version);
    return this.#cache;
  }

  #incrementVersion(): void {
    this.#version += 1;
    if (this.#wakeCallbacks.size > 0) this.#wakeSoon();
  }

  /** Wakes the waiting watchers, now or when the minimum interval has passed. */
  #wakeSoon(): void {
    if (this.#wakeTimer) return;
    const wake = () => {
      this.#wakeTimer = undefined;
      this.#lastWakeAtMs = performance.now();
      for (const resume of [...this.#wakeCallbacks]) resume();
    };
    const remainingMs =
      this.#lastWakeAtMs +
      (this.hasLocalWriter ? LOCAL_UPDATE_INTERVAL_MS : REMOTE_UPDATE_INTERVAL_MS) -
      performance.now();
    if (remainingMs > 0) this.#wakeTimer = setTimeout(wake, remainingMs);
    else wake();
  }
}
