import type { Message } from "../ports/message.js";
import type { SessionState } from "../ports/watch.js";
import { endOf } from "../base/end-of.js";
import type { StoredChange } from "../conversation/recorder.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** Messages read from the store at a time. */
const PAGE = 50;
/** A watched session is looked at so often, in ms, whatever hints come: one may be lost, and the dead send none. */
const LOOK_MS = 1000;
/** Of a running tool's output so many characters are kept for watchers that are behind. */
const PROGRESS = 64 * 1024;

/** How a session stands, and the same as text, so that many watchers find out quickly that it is what they told. */
interface Told {
  readonly state: SessionState;
  readonly text: string;
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
  /** What was asked of the store, until something of it may be another. */
  #state: Promise<Told | undefined> | undefined;
  #version = 0;
  #wake: (() => void)[] = [];
  /** Every visible message from this `seq` on is in `#messages`, as it is stored. */
  #since = Infinity;
  #messages: Message[] = [];
  readonly #progress = new Map<string, Progress>();
  /** What was asked of the store at this version, so that many watchers ask once. */
  #asked = { version: -1, pages: new Map<number, Promise<Message[]>>() };
  #watchers = 0;
  #held = false;
  #attending = 0;
  #unsubscribe: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `stateOf` asks the store how the session stands; undefined when there is none any more. */
  constructor(rootId: string, store: SessionDriver, stateOf: () => Promise<SessionState | undefined>) {
    this.rootId = rootId;
    this.#store = store;
    this.#stateOf = stateOf;
  }

  /** Counts what changed. */
  get version(): number {
    return this.#version;
  }

  /** A run of this process has the chain's lease, until what is returned is called: nobody else writes messages meanwhile. */
  hold(): () => void {
    this.#held = true;
    this.changed();
    return () => {
      this.#held = false;
      this.#progress.clear();
      this.changed();
    };
  }

  /** The run that holds the chain stored something. */
  stored({ add = [], append = [], finish = [], set }: StoredChange): void {
    // Text that a message gains changes nothing else, and comes ten times a second.
    if (append.length === 0 || add.length + finish.length > 0 || set) this.#state = undefined;
    for (const message of this.#held ? add : []) {
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

  /** How the session stands; undefined when it was deleted. */
  state(): Promise<Told | undefined> {
    return (this.#state ??= this.#stateOf().then((state) => state && { state, text: JSON.stringify(state) }));
  }

  /** The message with this `seq` and those behind it, at most a page of them; whether there may be more. */
  async from(seq: number): Promise<{ messages: readonly Message[]; more: boolean }> {
    if (seq >= this.#since) {
      const at = this.#messages.findIndex((message) => message.seq >= seq);
      return {
        messages: at < 0 ? [] : this.#messages.slice(at, at + PAGE),
        more: at >= 0 && at + PAGE < this.#messages.length,
      };
    }
    if (this.#asked.version !== this.#version) this.#asked = { version: this.#version, pages: new Map() };
    const { pages } = this.#asked;
    const page = pages.get(seq) ?? this.#store.messages(this.rootId, { scope: "chain", after: seq - 1, limit: PAGE });
    pages.set(seq, page);
    const messages = await page;
    return { messages, more: messages.length === PAGE };
  }

  /** Resolves when something changed since `version`, or the signal aborts. */
  async next(version: number, signal: AbortSignal): Promise<void> {
    if (this.#version !== version || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        signal.removeEventListener("abort", wake);
        resolve();
      };
      signal.addEventListener("abort", wake, { once: true });
      this.#wake.push(wake);
    });
  }

  /** Whether somebody who watches answers questions too. */
  get isAttended(): boolean {
    return this.#attending > 0;
  }

  /** One more who answers questions; what is returned ends it. */
  attended(): () => void {
    this.#attending += 1;
    let here = true;
    return () => {
      if (here) this.#attending -= 1;
      here = false;
    };
  }

  /** One more watcher; what is returned ends it. */
  watched(): () => void {
    this.#watchers += 1;
    const look = () => (this.#held ? this.touched() : this.changed());
    this.#unsubscribe ??= this.#store.notifier.subscribe(this.rootId, look);
    // Whoever waits for what comes keeps the process.
    this.#timer ??= setInterval(look, LOOK_MS);
    let here = true;
    return () => {
      if (!here) return;
      here = false;
      this.#watchers -= 1;
      if (this.#watchers > 0) return;
      this.#unsubscribe?.();
      clearInterval(this.#timer);
      this.#unsubscribe = undefined;
      this.#timer = undefined;
    };
  }

  #bump(): void {
    this.#version += 1;
    const wake = this.#wake;
    this.#wake = [];
    for (const one of wake) one();
  }
}
