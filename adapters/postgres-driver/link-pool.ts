import { StoreError, type Logger } from "gantry";
import type { Address } from "./address.js";
import { codeOf, reason, unavailable } from "./errors.js";
import { Link } from "./link.js";
import { LOOK_MS, SCARCE_MS, TURN_MS, roomAt, type Room } from "./room.js";

/** Times are in seconds. */
export interface PoolOptions {
  /** Most connections at the same time. */
  size: number;
  /** Longest that a call waits for a connection, with all attempts to get one again. */
  connectTimeout: number;
  /** How long an unused one is kept. */
  idleTimeout: number;
  /** Longest that a statement may take. */
  statementTimeout: number;
}

interface Waiter {
  /** Characters of what the call carries. */
  readonly size: number;
  take(link: Link): void;
  refuse(error: Error): void;
}

/** How somebody lost a connection: why, and what to tell beside where no other is to be had. */
export interface Loss {
  readonly why: string;
  readonly note: string;
}

/** What waits for a connection at the same time: calls, and characters of what they carry. Beyond it they are refused at once. */
const WAITING = { calls: 10_000, size: 64 * 1024 * 1024 };
/** Longest for one attempt to connect, and between two attempts while nothing is reached, in ms. */
const ATTEMPT_MS = 5000;
const PAUSE_MS = 1000;
/** How often connections that are not used are looked through, in ms. */
const SWEEP_MS = 1000;
/** How long a close waits for what is under way, in ms. */
const CLOSE_MS = 5000;
/** What a server keeps for a connection grows with what was asked on it, so none is kept for ever, in ms. */
const AGE_MS = 30 * 60_000;

/**
 * A few connections, which all calls share. What was lost is got again as soon as somebody asks. Where a server has not
 * enough for all of its processes each has one at a time, and not for long.
 */
export class LinkPool {
  readonly #address: Address;
  readonly #options: PoolOptions;
  readonly #logger: Logger | undefined;
  /** Those that are whole, also the idle ones. */
  readonly #links = new Set<Link>();
  /** The last one used is the next: the others may rest, and go. */
  readonly #idle: Link[] = [];
  readonly #attempts = new Set<Promise<void>>();
  readonly #goodbyes = new Set<Promise<void>>();
  readonly #waiting: Waiter[] = [];
  #waitingSize = 0;
  /** Attempts that failed since the last one that did not, and when the next may be. */
  #failures = 0;
  #retryAt = 0;
  #retry: NodeJS.Timeout | undefined;
  #sweep: NodeJS.Timeout | undefined;
  #turn: NodeJS.Timeout | undefined;
  #room: Room = "enough";
  #scarceUntil = 0;
  #lookedAt = 0;
  /** Why nothing was reached last, and since when. */
  #away: { why: string; since: number; told: boolean } | undefined;
  #life: AbortController | undefined;
  #whenGone: (() => void) | undefined;

  constructor(address: Address, options: PoolOptions, logger?: Logger) {
    this.#address = address;
    this.#options = options;
    this.#logger = logger;
  }

  /** Ends with `close`; opens nothing by itself. */
  open(): void {
    this.#life ??= new AbortController();
    this.#lookedAt = Date.now();
  }

  /**
   * A connection, until it is put back, at the latest at `until`. `size` is what the caller carries meanwhile, in
   * characters; whoever had one and lost it is first. Rejects with `StoreError`.
   */
  async take(until: number, size: number, lost?: Loss): Promise<Link> {
    if (!this.#life) throw new StoreError(`session store ${this.#address.where}: it is closed`);
    const idle = this.#idle.pop();
    if (idle) {
      idle.hold(true);
      return idle;
    }
    const full = this.#waiting.length >= WAITING.calls || this.#waitingSize + size > WAITING.size;
    if (full && this.#waiting.length > 0) throw this.#none("too many calls wait; ");
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        this.#waitingSize -= size;
        reject(this.#none("", lost));
      }, until - Date.now());
      const waiter: Waiter = {
        size,
        take: (link) => {
          clearTimeout(timer);
          resolve(link);
        },
        refuse: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      };
      if (lost) this.#waiting.unshift(waiter);
      else this.#waiting.push(waiter);
      this.#waitingSize += size;
      this.#grow();
    });
  }

  /** Done with it: to whoever waits, or aside. One that was lost is forgotten already. */
  put(link: Link, idleSince = Date.now()): void {
    if (link.lost) return;
    if (!this.#life || Date.now() - link.since > AGE_MS) {
      own(this.#goodbyes, link.end());
      return;
    }
    if (this.#room !== "pooled" && Date.now() - this.#lookedAt > LOOK_MS) {
      own(this.#goodbyes, this.#look(link, idleSince));
      return;
    }
    if (this.#room === "scarce" && Date.now() - link.since > TURN_MS) {
      // Whoever waits here waits with the processes that have none.
      this.#later(PAUSE_MS);
      own(this.#goodbyes, link.end());
      return;
    }
    const waiter = this.#next();
    link.hold(waiter !== undefined);
    if (waiter) {
      waiter.take(link);
      return;
    }
    link.idleSince = idleSince;
    this.#idle.push(link);
    if (this.#room !== "scarce") return;
    const over = (): void => {
      this.#turn = undefined;
      this.#rest();
    };
    this.#turn ??= setTimeout(over, TURN_MS).unref();
  }

  /** Whether all who want a connection get one: those who get none cannot say so. */
  async #look(link: Link, idleSince: number): Promise<void> {
    this.#lookedAt = Date.now();
    try {
      this.#see(await roomAt(link));
    } catch {
      // A server that tells nothing of itself has enough until it refuses; a connection that was lost is forgotten.
    }
    this.put(link, idleSince);
  }

  #see(room: Room): void {
    if (room === "scarce") this.#scarceUntil = Date.now() + SCARCE_MS;
    // What there is at one moment others take in the next.
    this.#room = room === "enough" && Date.now() < this.#scarceUntil ? "scarce" : room;
  }

  #later(ms: number): void {
    this.#failures = Math.max(1, this.#failures);
    // Not all replicas at the same moment.
    this.#retryAt = Date.now() + ms * (0.5 + Math.random() / 2);
  }

  /** Wait for what is under way, a while, and let go of it all. Never rejects. May be opened again. */
  async close(): Promise<void> {
    if (!this.#life) return;
    this.#life.abort();
    this.#life = undefined;
    for (const timer of [this.#retry, this.#sweep, this.#turn]) clearTimeout(timer);
    this.#retry = this.#sweep = this.#turn = undefined;
    this.#refuse(() => new StoreError(`session store ${this.#address.where}: it was closed`));
    for (const link of this.#idle.splice(0)) own(this.#goodbyes, link.end());
    if (this.#links.size > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#whenGone = resolve;
        timer = setTimeout(resolve, CLOSE_MS);
      });
      clearTimeout(timer);
      this.#whenGone = undefined;
      for (const link of this.#links) link.destroy();
    }
    await Promise.all([...this.#goodbyes, ...this.#attempts]);
    this.#failures = 0;
    this.#away = undefined;
  }

  #next(): Waiter | undefined {
    const waiter = this.#waiting.shift();
    if (waiter) this.#waitingSize -= waiter.size;
    return waiter;
  }

  #refuse(why: () => Error): void {
    for (let waiter = this.#next(); waiter; waiter = this.#next()) waiter.refuse(why());
  }

  /** Why there is no connection to be had. */
  #none(before = "", lost?: Loss): StoreError {
    const all = `all ${this.#links.size} connections are in use (session.pool.size)`;
    const why = this.#away?.why ?? lost?.why ?? (this.#links.size > 0 ? all : "the server does not answer");
    return unavailable(this.#address.where, `${before}${why}${lost?.note ?? ""}`);
  }

  /** Connections that nobody needed for long go; one of the others looks after those who have none. */
  #rest(): void {
    const ms = this.#room === "scarce" ? TURN_MS : this.#options.idleTimeout * 1000;
    const before = Date.now() - ms;
    while (this.#idle[0] && this.#idle[0].idleSince <= before) own(this.#goodbyes, this.#idle[0].end());
    const idle = this.#idle.pop();
    if (idle) this.put(idle, idle.idleSince);
    if (this.#links.size > 0) return;
    clearInterval(this.#sweep);
    this.#sweep = undefined;
  }

  /** As many as wait and as may be; while nothing is reached one at a time, so that a server that comes back is not run over. */
  #grow(): void {
    const attempts = this.#attempts;
    const most = this.#room === "scarce" ? 1 : this.#options.size;
    const wanted = (): boolean => attempts.size < this.#waiting.length && this.#links.size + attempts.size < most;
    if (!this.#life || !wanted()) return;
    if (this.#failures === 0) while (wanted()) own(attempts, this.#connect(this.#life.signal));
    else if (attempts.size === 0 && !this.#retry) {
      const again = (): void => {
        this.#retry = undefined;
        if (this.#life && wanted()) own(attempts, this.#connect(this.#life.signal));
      };
      this.#retry = setTimeout(again, Math.max(0, this.#retryAt - Date.now()));
    }
  }

  /** One attempt. What comes of it is told to whoever waits; it never rejects. */
  async #connect(signal: AbortSignal): Promise<void> {
    try {
      const link = await Link.dial(this.#address, ATTEMPT_MS, signal);
      this.#failures = 0;
      if (this.#away?.told)
        this.#logger?.info("the session store is reached again", {
          store: this.#address.where,
          seconds: Math.round((Date.now() - this.#away.since) / 1000),
        });
      this.#away = undefined;
      this.#links.add(link);
      link.whenLost = () => this.#forget(link);
      this.#sweep ??= setInterval(() => this.#rest(), SWEEP_MS).unref();
      this.put(link);
    } catch (error) {
      if (!signal.aborted) this.#missed(error);
    }
    // When this attempt is counted no more.
    setImmediate(() => this.#grow());
  }

  #missed(error: unknown): void {
    const { why, lasting } = reason(error);
    const isScarce = codeOf(error) === "53300";
    if (isScarce) this.#see("scarce");
    this.#later(Math.min(isScarce ? TURN_MS : PAUSE_MS, 50 * 2 ** this.#failures++));
    this.#away = { since: Date.now(), told: false, ...this.#away, why };
    // One failure is none yet: whoever waits may not notice it.
    if (this.#failures > 2 && !this.#away.told) {
      this.#away.told = true;
      this.#logger?.warn("the session store cannot be reached", { store: this.#address.where, reason: why });
    }
    if (lasting && this.#links.size === 0)
      this.#refuse(() => new StoreError(`session store ${this.#address.where}: ${why}`));
  }

  #forget(link: Link): void {
    this.#links.delete(link);
    const at = this.#idle.indexOf(link);
    if (at >= 0) this.#idle.splice(at, 1);
    if (this.#links.size === 0) this.#whenGone?.();
    this.#grow();
  }
}

/** Keep what runs by itself until it is done. */
function own(tasks: Set<Promise<void>>, task: Promise<void>): void {
  tasks.add(task);
  void task.finally(() => tasks.delete(task));
}
