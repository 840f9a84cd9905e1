import { setTimeout as sleep } from "node:timers/promises";
import { StoreError, type Logger } from "gantry";
import type { Address } from "./address.js";
import { codeOf, reason, unavailable } from "./errors.js";
import { Connection } from "./connection.js";
import { Outage } from "./outage.js";
import { LOOK_MS, SCARCE_MS, TURN_MS, readServerCapacity, type ServerCapacity } from "./server-capacity.js";

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
  /** Whether it waits as long as it may, also for a server that is known to be away. */
  readonly patient: boolean;
  readonly lost: ConnectionLoss | undefined;
  /** Characters of what the call carries. */
  readonly size: number;
  take(link: Connection): void;
  refuse(error: Error): void;
}

/** How somebody lost a connection: why, and what to tell beside where no other is to be had. */
export interface ConnectionLoss {
  readonly why: string;
  readonly note: string;
}

/** How a connection is wanted. */
export interface ConnectionRequest {
  lost?: ConnectionLoss | undefined;
  patient?: boolean;
}

/** What waits for a connection at the same time: calls, and characters of what they carry. Beyond it they are refused at once. */
const WAITING = { calls: 10_000, size: 64 * 1024 * 1024 };
/** Longest for one attempt to connect, and between two attempts while nothing is reached, in ms. */
const ATTEMPT_MS = 5000;
const PAUSE_MS = 1000;
/** How long it takes to be refused, in ms. */
const REFUSE_MS = 10;
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
export class ConnectionPool {
  readonly #address: Address;
  readonly #options: PoolOptions;
  readonly #outage: Outage;
  /** Those that are whole, also the idle ones. */
  readonly #links = new Set<Connection>();
  /** The last one used is the next: the others may rest, and go. */
  readonly #idle: Connection[] = [];
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
  #room: ServerCapacity = "enough";
  #scarceUntil = 0;
  #lookedAt = 0;
  #life: AbortController | undefined;
  #whenGone: (() => void) | undefined;
  /** Called when the server is found to be away, after each attempt. */
  whenAway: ((error: StoreError) => void) | undefined;

  constructor(address: Address, options: PoolOptions, logger?: Logger) {
    this.#address = address;
    this.#options = options;
    this.#outage = new Outage(address.where, logger);
  }

  /** Ends with `close`; opens nothing by itself. */
  open(): void {
    this.#life ??= new AbortController();
    this.#lookedAt = Date.now();
  }

  /**
   * A connection, until it is put back, at the latest at `until`. `size` is what the caller carries meanwhile, in
   * characters; whoever had one and `lost` it is first. Who is not `patient` waits for no server that has been away for
   * two seconds. Rejects with `StoreError`.
   */
  async take(until: number, size: number, { lost, patient = false }: ConnectionRequest = {}): Promise<Connection> {
    if (!this.#life) throw new StoreError(`session store ${this.#address.where}: it is closed`);
    const idle = this.#idle.pop();
    if (idle) {
      idle.hold(true);
      return idle;
    }
    if (this.isAway && !patient) {
      this.#grow();
      // Whoever asks again and again, and nothing else, must leave others their turn.
      await sleep(REFUSE_MS);
      throw this.#none("", lost);
    }
    const full = this.#waiting.length >= WAITING.calls || this.#waitingSize + size > WAITING.size;
    if (full && this.#waiting.length > 0) throw this.#none("too many calls wait; ");
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => {
          this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
          this.#waitingSize -= size;
          reject(this.#none("", lost));
        },
        Math.max(0, until - Date.now()),
      );
      const waiter: Waiter = {
        size,
        patient,
        lost,
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
  put(link: Connection, idleSince = Date.now()): void {
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
  async #look(link: Connection, idleSince: number): Promise<void> {
    this.#lookedAt = Date.now();
    try {
      this.#see(await readServerCapacity(link));
    } catch {
      // A server that tells nothing of itself has enough until it refuses; a connection that was lost is forgotten.
    }
    this.put(link, idleSince);
  }

  #see(room: ServerCapacity): void {
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
    this.#outage.forget();
  }

  #next(): Waiter | undefined {
    const waiter = this.#waiting.shift();
    if (waiter) this.#waitingSize -= waiter.size;
    return waiter;
  }

  /** Whether nothing has been reached for a while, and one attempt after the other goes on. */
  get isAway(): boolean {
    return this.#links.size === 0 && this.#outage.isLong;
  }

  /** Those who wait for a connection are told why there is none; the patient ones too, unless others are asked for. */
  #refuse(why: (waiter: Waiter) => Error, which = (_: Waiter): boolean => true): void {
    const refused = this.#waiting.filter(which);
    if (refused.length === 0) return;
    const left = this.#waiting.filter((waiter) => !which(waiter));
    this.#waiting.splice(0, Infinity, ...left);
    for (const waiter of refused) {
      this.#waitingSize -= waiter.size;
      waiter.refuse(why(waiter));
    }
  }

  /** Why there is no connection to be had. */
  #none(before = "", lost?: ConnectionLoss): StoreError {
    const all = `all ${this.#links.size} connections are in use (session.pool.size)`;
    const why = this.#outage.why ?? lost?.why ?? (this.#links.size > 0 ? all : "the server does not answer");
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
    // Somebody must find out that it is back, as nobody waits for that.
    const wanted = (): boolean => {
      const calls = Math.max(this.#waiting.length, this.isAway ? 1 : 0);
      return attempts.size < calls && this.#links.size + attempts.size < most;
    };
    if (!this.#life || !wanted()) return;
    if (this.#failures === 0) while (wanted()) own(attempts, this.#connect(this.#life.signal));
    else if (attempts.size === 0 && !this.#retry) {
      const again = (): void => {
        this.#retry = undefined;
        if (this.#life && wanted()) own(attempts, this.#connect(this.#life.signal));
      };
      // Whoever waits has a timer of its own.
      this.#retry = setTimeout(again, Math.max(0, this.#retryAt - Date.now())).unref();
    }
  }

  /** One attempt. What comes of it is told to whoever waits; it never rejects. */
  async #connect(signal: AbortSignal): Promise<void> {
    const begun = Date.now();
    try {
      const link = await Connection.dial(this.#address, ATTEMPT_MS, signal, this.#waiting.length > 0);
      this.#failures = 0;
      this.#outage.reached();
      this.#links.add(link);
      link.whenLost = () => this.#forget(link);
      this.#sweep ??= setInterval(() => this.#rest(), SWEEP_MS).unref();
      this.put(link);
    } catch (error) {
      if (!signal.aborted) this.#missed(error, begun);
    }
    // When this attempt is counted no more.
    setImmediate(() => this.#grow());
  }

  #missed(error: unknown, begun: number): void {
    const { why, lasting } = reason(error);
    const isScarce = codeOf(error) === "53300";
    if (isScarce) this.#see("scarce");
    this.#later(Math.min(isScarce ? TURN_MS : PAUSE_MS, 50 * 2 ** this.#failures++));
    // One failure is none yet: whoever waits may not notice it.
    this.#outage.missed(begun, { why, passing: !lasting && !isScarce }, this.#failures > 2);
    if (lasting && this.#links.size === 0)
      this.#refuse(() => new StoreError(`session store ${this.#address.where}: ${why}`));
    if (!this.isAway) return;
    this.#refuse(
      ({ lost }) => this.#none("", lost),
      ({ patient }) => !patient,
    );
    this.whenAway?.(this.#none());
  }

  #forget(link: Connection): void {
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
