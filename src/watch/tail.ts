import type { Message } from "../ports/message.js";
import type { SessionState, WatchEvent } from "../ports/watch.js";
import { endOf } from "../base/last-characters.js";
import type { StoredChange } from "../conversation/recorder.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Presence } from "./presence.js";
import type { Place, Step } from "./stream-position.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/** Messages read from the store at a time. */
const PAGE = 50;
/** Of these so many are kept for others who read the same. */
const PAGES = 4;
/** A run that goes on elsewhere is looked at so often, in ms: the dead send no hints. */
const LOOK_MS = 1000;
/**
 * Watchers are told what is new at most so often, in ms: what comes faster comes together. Of what goes on elsewhere each
 * time is several calls to the store.
 */
const GAP_MS = 100;
const FAR_GAP_MS = 250;
/** Of a running tool's output so many characters are kept for watchers that are behind. */
const PROGRESS = 64 * 1024;

/** Of what watchers are told next so much is kept for others at the same place. */
const STEPS = 64;

type StateEvent = Extract<WatchEvent, { type: "state" }>;

/** What is known at one version. */
interface Asked {
  readonly version: number;
  readonly pages: Map<number, Promise<Message[]>>;
  readonly steps: Map<string, Step>;
}

/** Messages of one moment. */
export interface Page {
  readonly messages: readonly Message[];
  /** Whether there may be more behind them. */
  readonly more: boolean;
  /** What was made of them for others: of another moment's the same place may lack something else. */
  readonly steps: Map<string, Step>;
}

function asked(version: number): Asked {
  return { version, pages: new Map(), steps: new Map() };
}

/** That a run of this process has a chain's lease. */
export interface TailHold {
  /** The run stored something. */
  stored: (change: StoredChange) => void;
  /** It has the lease no more. */
  end: () => void;
}

/** What a running tool printed. */
interface Progress {
  /** Characters in all, those that are not kept any more too. */
  length: number;
  /** The last of them. */
  text: string;
}

/**
 * The end of a chain, shared by all who watch it in one process. Watchers pull: each has a cursor and no queue, so that a
 * slow one costs nothing and loses nothing. Of a run of this process the tail knows what was stored without asking.
 */
export class Tail {
  readonly rootId: string;
  readonly #store: SessionDriver;
  readonly #stateOf: () => Promise<SessionState | undefined>;
  #version = 0;
  readonly #waiting = new Set<() => void>();
  /** Of those who wait, when it is too early to tell them. */
  #wakes: NodeJS.Timeout | undefined;
  #woken = -FAR_GAP_MS;
  /** Every visible message from this `seq` on is in `#messages`, as it is stored. */
  #since = Infinity;
  #messages: Message[] = [];
  /** How often the session had been cut when the run that holds it began. */
  #cuts = 0;
  readonly #progress = new Map<string, Progress>();
  /** What was asked of the store at this version, and what was made of it, so that many watchers ask once. */
  #asked: Asked = asked(-1);
  /** How the session stands, until something of that may be another. */
  #state: Promise<StateEvent | undefined> | undefined;
  /** As JSON the state that was told last: one that says the same is the same. */
  #told: { text: string; event: StateEvent } | undefined;
  #watchers = 0;
  /** Of the run that has the chain's lease; one that gave it back may still say so when the next has begun. */
  #holder: TailHold | undefined;
  /** Whether a run went on when the store was asked last. */
  #isRunning = false;
  #unsubscribe: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  readonly #presence: Presence;

  /** `stateOf` asks the store how the session stands; undefined when there is none any more. */
  constructor(
    rootId: string,
    store: SessionDriver,
    presence: Presence,
    stateOf: () => Promise<SessionState | undefined>,
  ) {
    this.#presence = presence;
    this.rootId = rootId;
    this.#store = store;
    this.#stateOf = stateOf;
  }

  /** Counts what changed. */
  get version(): number {
    return this.#version;
  }

  /** Whether a run of this process has the chain's lease. */
  get isHeld(): boolean {
    return this.#holder !== undefined;
  }

  /**
   * A run of this process has the chain's lease, until it says that it has not: nobody else writes messages meanwhile. `cuts`:
   * of the session, as the lease found it.
   */
  hold(cuts: number): TailHold {
    this.#cuts = cuts;
    const mine: TailHold = {
      stored: (change) => {
        if (this.#holder === mine) this.#stored(change);
        // What the next run said is known already, and this comes before it.
        else this.changed();
      },
      end: () => {
        if (this.#holder !== mine) return;
        this.#holder = undefined;
        this.#progress.clear();
        this.changed();
      },
    };
    this.#holder = mine;
    this.#progress.clear();
    this.changed();
    return mine;
  }

  /** The run that holds the chain stored something. */
  #stored({ add = [], append = [], finish = [], set }: StoredChange): void {
    // Text that a message gains changes nothing else, and comes ten times a second.
    if (append.length === 0 || add.length + finish.length > 0 || set) this.#state = undefined;
    for (const message of add) {
      if (this.#messages.length === 0) this.#since = message.seq;
      this.#messages.push(
        message.finished ? message : { ...message, parts: message.parts.map((part) => ({ ...part })) },
      );
    }
    for (const { messageId, part, type, text } of append) {
      const parts = this.#messages.findLast(({ id }) => id === messageId)?.parts;
      const present = parts?.[part];
      if (present && "text" in present) present.text += text;
      else parts?.push({ type, text });
    }
    for (const final of finish) {
      const at = this.#messages.findLastIndex(({ id }) => id === final.id);
      const { seq, sessionId } = this.#messages[at] ?? final;
      if (at >= 0) this.#messages[at] = { ...final, seq, sessionId, finished: true };
      for (const id of this.#progress.keys()) if (final.toolCallId === id) this.#progress.delete(id);
    }
    for (const { toolCallId } of add) this.#progress.delete(toolCallId);
    this.#bump();
  }

  /** Somebody new watches, who may know more than was asked of the store before. */
  refresh(): void {
    this.#state = undefined;
    this.#asked = asked(-1);
  }

  /** Something of the chain is another now: what is known of its messages is void. */
  changed(): void {
    this.#since = Infinity;
    this.#messages = [];
    this.touched();
  }

  /** Something beside its messages is another now. */
  touched(): void {
    this.#state = undefined;
    this.#bump();
  }

  /** A running tool printed something. */
  printed(callId: string, text: string): void {
    const { length, text: before } = this.#progress.get(callId) ?? { length: 0, text: "" };
    this.#progress.set(callId, { length: length + text.length, text: endOf(before + text, PROGRESS) });
    this.#bump();
  }

  /** What running tools printed behind what `told` says of each, which is brought up to date. */
  progress(told: Map<string, number>): { callId: string; text: string }[] {
    const news: { callId: string; text: string }[] = [];
    for (const callId of told.keys()) if (!this.#progress.has(callId)) told.delete(callId);
    for (const [callId, { length, text }] of this.#progress) {
      const behind = Math.min(length - (told.get(callId) ?? 0), text.length);
      if (behind > 0) news.push({ callId, text: text.slice(text.length - behind) });
      told.set(callId, length);
    }
    return news;
  }

  /** How the session stands, the same object as long as it says the same; undefined when it was deleted. */
  state(): Promise<StateEvent | undefined> {
    if (this.#state) return this.#state;
    const asked = this.#stateOf().then((state) => {
      const { state: now = "finished" } = state?.run ?? {};
      // One that was asked for before another may come behind it, and says nothing of now.
      if (this.#state === asked) this.#isRunning = now === "running" || now === "waiting";
      if (!state) return undefined;
      const text = JSON.stringify(state);
      if (text !== this.#told?.text) this.#told = { text, event: { type: "state", state } };
      return this.#told.event;
    });
    // What could not be asked is asked again.
    asked.catch(() => this.#state === asked && (this.#state = undefined));
    return (this.#state = asked);
  }

  /** What a reader at a place lacks of a page's message; told to all who are there. */
  step(place: Place, message: Message, { steps }: Page): Step {
    const key = `${message.seq} ${place.key}`;
    let step = steps.get(key);
    if (!step) {
      if (steps.size >= STEPS) steps.clear();
      step = place.news(message, this.isHeld && message.seq >= this.#since);
      steps.set(key, step);
    }
    return step;
  }

  /**
   * The message with this `seq` and those behind it, at most a page of them; whether there may be more. `cuts`: of the
   * session, as who asks knows it.
   */
  async from(seq: number, cuts: number): Promise<Page> {
    const { pages, steps } = this.#now();
    // The lease is given back a moment before the run says so: what another process cut then is not there any more.
    if (seq >= this.#since && cuts === this.#cuts) {
      const at = this.#messages.findIndex((message) => message.seq >= seq);
      return {
        messages: at < 0 ? [] : this.#messages.slice(at, at + PAGE),
        more: at >= 0 && at + PAGE < this.#messages.length,
        steps,
      };
    }
    // Never older than the state, which says what of it was cut.
    const state = this.state();
    const query = { scope: "chain", after: seq - 1, limit: PAGE } as const;
    const page = pages.get(seq) ?? state.then(() => this.#store.messages(this.rootId, query));
    if (pages.size >= PAGES) pages.clear();
    pages.set(seq, page);
    page.catch(() => pages.delete(seq));
    const messages = await page;
    return { messages, more: messages.length === PAGE, steps };
  }

  /** Resolves when something changed since `version`, not too soon after it did last, or the signal aborts. */
  async next(version: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        signal.removeEventListener("abort", wake);
        this.#waiting.delete(wake);
        resolve();
      };
      signal.addEventListener("abort", wake, { once: true });
      this.#waiting.add(wake);
      if (this.#version !== version) this.#wakeSoon();
    });
  }

  /** Whether a client can answer this session's questions now, whichever session it shows. */
  get isAttended(): boolean {
    return this.#presence.answers(this.rootId);
  }

  /** Whether a client that shows this session answers its questions now. */
  get isShown(): boolean {
    return this.#presence.isShown(this.rootId);
  }

  /** A client shows this session: `true` answers questions of any session, a function those of this session alone. The returned function ends it. */
  attended(answers: true | (() => boolean)): () => void {
    const client = answers === true ? () => true : (rootId: string) => rootId === this.rootId && answers();
    return this.#presence.join(client, this.rootId);
  }

  /** One more watcher; what is returned ends it. */
  watched(): () => void {
    this.#watchers += 1;
    const hint = () => (this.isHeld ? this.touched() : this.changed());
    this.#unsubscribe ??= notifierOf(this.#store).subscribe(this.rootId, hint);
    // Whoever waits for what comes keeps the process.
    this.#timer ??= setInterval(() => this.#isRunning && !this.isHeld && this.changed(), LOOK_MS);
    let here = true;
    return () => {
      if (!here) return;
      here = false;
      this.#watchers -= 1;
      if (this.#watchers > 0) return;
      this.#unsubscribe?.();
      clearInterval(this.#timer);
      clearTimeout(this.#wakes);
      this.#wakes = undefined;
      this.#unsubscribe = undefined;
      this.#timer = undefined;
    };
  }

  #now() {
    if (this.#asked.version !== this.#version) this.#asked = asked(this.#version);
    return this.#asked;
  }

  #bump(): void {
    this.#version += 1;
    if (this.#waiting.size > 0) this.#wakeSoon();
  }

  #wakeSoon(): void {
    if (this.#wakes) return;
    const wake = () => {
      this.#wakes = undefined;
      this.#woken = performance.now();
      for (const one of [...this.#waiting]) one();
    };
    const early = this.#woken + (this.isHeld ? GAP_MS : FAR_GAP_MS) - performance.now();
    if (early > 0) this.#wakes = setTimeout(wake, early);
    else wake();
  }
}
