import { createHash, randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ChainListeners } from "gantry/plugin";
import type { Logger } from "gantry";
import type { Notifier } from "gantry/plugin";
import type { Address } from "./address.js";
import type { Connections } from "./connections.js";
import { reason } from "./errors.js";
import { Connection } from "./connection.js";
import { LOOK_MS as ROOM_MS, readServerCapacity, type ServerCapacity } from "./server-capacity.js";

/** Between two statements that tell others, in ms: what comes meanwhile goes with the next. */
const BATCH_MS = 50;
/** Chains of one message, of which a server takes no more than 8,000 bytes; more are told as "any". */
const MOST = 400;
const ANY = "*";
/** A message may be lost with its sender or on its way, so the chains are looked at so often, in ms; more often while no message can be heard. */
const LOOK_MS = 1000;
const DEAF_MS = 250;
/** When a chain is looked at first, in ms. */
const SOON_MS = 200;
/** How long a connection that nobody needs is kept, longest attempt to have one, longest pause between two; in ms. */
const REST_MS = 10_000;
const ATTEMPT_MS = 5000;
const PAUSE_MS = 5000;
/** Longest that a close takes to tell what is to be told, in ms. */
const GOODBYE_MS = 1000;

/** Where and how a notifier listens. */
export interface ListenOptions {
  /** Of the server itself, where the others are of a pooler. */
  address: Address;
  /** What changes with each of these chains, by its original's id, in one statement; nothing for a chain that is not there. */
  states: (rootIds: readonly string[]) => Promise<ReadonlyMap<string, string>>;
  logger?: Logger | undefined;
}

/** A chain of which somebody wants to hear. */
interface Watched {
  readonly rootId: string;
  subscribers: number;
  /** How it was when it was looked at last; undefined before that, null when it was not there. */
  state?: string | null;
}

/**
 * Tells other processes by the database what this one changed, and hears them by a connection of its own, which is there
 * while somebody wants to know. What was not heard it sees: once a second it looks whether the chains that somebody wants to
 * hear of are as they were, all in one statement; four times a second behind a pooler that gives each statement to another
 * connection, through which nothing can be heard.
 */
export class PostgresNotifier implements Notifier {
  readonly #connections: Connections;
  readonly #channel: string;
  readonly #address: Address;
  readonly #logger: Logger | undefined;
  /** Both by short names of chains. */
  readonly #hints = new ChainListeners();
  readonly #watched = new Map<string, Watched>();
  readonly #states: ListenOptions["states"];
  #looking: Promise<void> | undefined;
  #soon: NodeJS.Timeout | undefined;
  readonly #me = randomBytes(6).toString("base64url");
  #life: AbortController | undefined = new AbortController();
  readonly #news = new Set<string>();
  #telling: Promise<void> | undefined;
  #pause: NodeJS.Timeout | undefined;
  #link: Connection | undefined;
  #dialing: Promise<void> | undefined;
  #failures = 0;
  #retry: NodeJS.Timeout | undefined;
  #tick: NodeJS.Timeout | undefined;
  #rest: NodeJS.Timeout | undefined;
  /** Whether there is a connection to listen at; behind a pooler there is none. */
  #room: ServerCapacity = "enough";
  #roomCheck: NodeJS.Timeout | undefined;

  /** Opens nothing. `channel` is at most 63 bytes. */
  constructor(connections: Connections, channel: string, { address, states, logger }: ListenOptions) {
    this.#connections = connections;
    this.#channel = channel;
    this.#address = address;
    this.#states = states;
    this.#logger = logger;
  }

  publish(rootId: string): void {
    if (!this.#life) return;
    this.#news.add(this.#news.size < MOST ? nameOf(rootId) : ANY);
    if (this.#telling) return;
    // There is something to be told: a process with nothing else to do ends when it is.
    if (this.#pause) this.#pause.ref();
    else this.#telling = this.#tell();
  }

  subscribe(rootId: string, hint: () => void): () => void {
    const name = nameOf(rootId);
    const end = this.#hints.subscribe(name, hint);
    const watched = this.#watched.get(name) ?? { rootId, subscribers: 0 };
    this.#watched.set(name, watched);
    watched.subscribers++;
    clearTimeout(this.#rest);
    this.#listen();
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      end();
      if (--watched.subscribers === 0) this.#watched.delete(name);
      if (this.#watched.size > 0) return;
      clearInterval(this.#tick);
      this.#tick = undefined;
      this.#rest = setTimeout(() => this.#link?.destroy(), REST_MS).unref();
    };
  }

  /** What was published is told, unless that takes long, and nobody listens any more. Never rejects. `open` undoes it. */
  async close(): Promise<void> {
    if (!this.#life) return;
    this.#life.abort();
    this.#life = undefined;
    for (const timer of [this.#pause, this.#retry, this.#tick, this.#soon, this.#rest, this.#roomCheck])
      clearTimeout(timer);
    this.#pause = this.#retry = this.#tick = this.#soon = this.#rest = undefined;
    const told = async (): Promise<void> => {
      await this.#telling;
      if (this.#news.size > 0) await this.#tell();
    };
    await Promise.race([told(), sleep(GOODBYE_MS, undefined, { ref: false })]);
    await Promise.all([this.#dialing, this.#link?.end()]);
  }

  /** Only after a close. */
  open(): void {
    this.#life ??= new AbortController();
    if (this.#watched.size > 0) this.#listen();
  }

  /** Tell all that is to be told, at once. What cannot be told others find within the second. */
  async #tell(): Promise<void> {
    const names = this.#news.has(ANY) ? ANY : [...this.#news].join();
    this.#news.clear();
    try {
      // A commit of its own, beside which no other one waits; nothing of it must outlive a crash.
      await this.#connections.query(
        "SELECT pg_notify($1, $2), set_config('synchronous_commit', 'off', true)",
        [this.#channel, `${this.#me}:${names}`],
        "read",
      );
    } catch (error) {
      this.#logger?.debug("others were not told what changed", { reason: reason(error).why });
    }
    this.#telling = undefined;
    if (!this.#life) return;
    const next = (): void => {
      this.#pause = undefined;
      if (this.#news.size > 0) this.#telling = this.#tell();
    };
    this.#pause = setTimeout(next, BATCH_MS);
    if (this.#news.size === 0) this.#pause.unref();
  }

  #listen(): void {
    if (!this.#life) return;
    this.#tick ??= this.#ticks();
    // A chain that somebody wants to hear of from now on: what was said of it before was not heard.
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.#look(true);
    }, SOON_MS).unref();
    if (this.#link || this.#dialing || this.#retry || this.#room === "pooled") return;
    this.#dialing = this.#dial(this.#life.signal).finally(() => (this.#dialing = undefined));
  }

  #ticks(): NodeJS.Timeout {
    return setInterval(() => this.#look(), this.#room === "enough" ? LOOK_MS : DEAF_MS).unref();
  }

  #look(onlyNew = false): void {
    if (!this.#life || this.#looking) return;
    const all = [...this.#watched].filter(([, { state }]) => !onlyNew || state === undefined);
    if (all.length > 0) this.#looking = this.#compare(all).finally(() => (this.#looking = undefined));
  }

  /** Hint of what is not as it was. Never rejects: whoever reads the store hears why it cannot be read. */
  async #compare(all: readonly (readonly [name: string, watched: Watched])[]): Promise<void> {
    try {
      const states = await this.#states(all.map(([, { rootId }]) => rootId));
      for (const [name, watched] of this.#life ? all : []) {
        const state = states.get(watched.rootId) ?? null;
        if (state === watched.state) continue;
        watched.state = state;
        this.#hints.notify(name);
      }
    } catch (error) {
      this.#logger?.debug("what other processes changed cannot be seen", { reason: reason(error).why });
    }
  }

  /** Never rejects. */
  async #dial(signal: AbortSignal): Promise<void> {
    let link: Connection | undefined;
    try {
      link = await Connection.dial(this.#address, ATTEMPT_MS, signal, false);
      if (!(await this.#mayListen(link))) return;
      link.whenNotified = (payload) => this.#heard(payload);
      await link.run(`LISTEN "${this.#channel.replaceAll('"', '""')}"`, [], ATTEMPT_MS / 1000);
      signal.throwIfAborted();
      link.whenLost = () => this.#lost();
      this.#link = link;
      this.#failures = 0;
      this.#makeRoomLater();
    } catch (error) {
      link?.destroy();
      this.#logger?.debug("what other processes change cannot be heard", { reason: reason(error).why });
      this.#later();
    }
  }

  /** Only where enough connections are left for those who work. Ends it otherwise. */
  async #mayListen(link: Connection): Promise<boolean> {
    const before = this.#room;
    this.#room = await readServerCapacity(link);
    if (this.#room !== before && this.#tick) {
      clearInterval(this.#tick);
      this.#tick = this.#ticks();
    }
    if (this.#room === "enough") return true;
    if (this.#room === "pooled")
      this.#logger?.warn(
        "the session store is behind a pooler, through which no news can be heard: it is looked at four times a second; " +
          "name the server itself in session.pool.listen_url",
        { store: this.#address.where },
      );
    await link.end();
    if (this.#link !== link) this.#later();
    return false;
  }

  /** Whether others lack the connection that this one has: they cannot say so. */
  #makeRoomLater(): void {
    const look = (): void => {
      const link = this.#link;
      if (!link) return;
      this.#mayListen(link).then(
        (may) => may && this.#makeRoomLater(),
        () => link.destroy(),
      );
    };
    clearTimeout(this.#roomCheck);
    this.#roomCheck = setTimeout(look, ROOM_MS).unref();
  }

  #lost(): void {
    this.#link = undefined;
    this.#look();
    this.#later();
  }

  /** Listen again after a while; what is not heard meanwhile the hints for nothing make good. */
  #later(): void {
    if (!this.#life || this.#retry || this.#watched.size === 0 || this.#room === "pooled") return;
    const pause = this.#room === "scarce" ? PAUSE_MS : Math.min(PAUSE_MS, 100 * 2 ** this.#failures++);
    const again = (): void => {
      this.#retry = undefined;
      if (this.#watched.size > 0) this.#listen();
    };
    this.#retry = setTimeout(again, pause * (0.5 + Math.random() / 2)).unref();
  }

  /** Its own words come back as well. */
  #heard(payload: string): void {
    const [, sender, names = ""] = /^([^:]*):(.*)$/.exec(payload) ?? [];
    if (sender === undefined || sender === this.#me) return;
    if (names === ANY) this.#look();
    else for (const name of names.split(",")) this.#hints.notify(name);
  }
}

/** Short, of one length, and nobody's words. Two chains may have the same one: a hint may come for nothing. */
function nameOf(rootId: string): string {
  return createHash("sha256").update(rootId).digest("base64url").slice(0, 16);
}
