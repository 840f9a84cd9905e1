import { StoreError } from "gantry";
import type { Connections } from "./connections.js";
import { unavailable } from "./errors.js";
import type { Part } from "./rows.js";

/** A call that may go in one statement with others, for `calls` of the database. */
export interface Call {
  /** Its fields as JSON, without the braces. */
  readonly text: string;
  /** Whether the disk must have it when it is answered. */
  readonly sync: boolean;
  /** Whether it changes nothing. */
  readonly reads: boolean;
  /** Whether it goes with what is under way, which would be lost: it waits also for a server that has been away for a while. */
  readonly patient?: boolean;
}

/** Longest that a statement may take that carries or tells much, in seconds. */
export const LONG_STATEMENT_SECONDS = 300;

interface Waiting extends Call {
  /** When it came, in ms. */
  readonly since: number;
  resolve(parts: Part[]): void;
  reject(error: unknown): void;
}

/** Most statements of a lane at the same time: what comes meanwhile goes together in the next. */
const STATEMENTS = 3;
/** Most calls of a statement, and most characters; a longer one goes alone. */
const GROUP = { calls: 32, size: 200_000 };
/** Whoever has waited so long, in ms, when a statement fails for want of a server is told so as well. */
const PATIENCE_MS = 1000;
/** What may wait to be sent; beyond it calls are refused at once. */
const WAITING = { calls: 2000, size: 64 * 1024 * 1024 };

/**
 * The short calls of which a turn is made. While a few statements are under way, calls of different chains that come
 * meanwhile share the next one, and so a round trip and a commit; with little to do each goes at once and alone. What is
 * to be on the disk has a lane of its own: nothing else waits for that.
 */
export class CallBatcher {
  readonly #connections: Connections;
  readonly #sql: string;
  readonly #lanes = [new Lane(), new Lane()] as const;

  constructor(connections: Connections, sql: string) {
    this.#connections = connections;
    this.#sql = sql;
    connections.whenAway = (error) => {
      for (const lane of this.#lanes) for (const call of lane.takeImpatient()) call.reject(error);
    };
  }

  /** What the call tells. Rejects as `Connections.query`. */
  add(call: Call): Promise<Part[]> {
    const lane = this.#lanes[call.sync ? 1 : 0];
    // Behind those that wait it would wait too.
    if (!call.patient && this.#connections.isAway) return this.#ask([call]).then(([own = []]) => own);
    return new Promise((resolve, reject) => {
      if (lane.isFull(call.text.length)) {
        reject(unavailable(this.#connections.address.where, "too many calls wait for it"));
        return;
      }
      lane.push({ ...call, since: Date.now(), resolve, reject });
      this.#send(lane);
    });
  }

  #send(lane: Lane): void {
    while (lane.underWay < STATEMENTS && lane.length > 0) {
      lane.underWay++;
      // Never rejects: each call hears of its own failure.
      void this.#together(lane, lane.take()).then(() => {
        lane.underWay--;
        this.#send(lane);
      });
    }
  }

  async #together(lane: Lane, group: readonly Waiting[]): Promise<void> {
    try {
      const parts = await this.#ask(group);
      group.forEach((call, at) => call.resolve(parts[at] ?? []));
    } catch (error) {
      if (error instanceof StoreError) {
        // Where nothing can be reached the same would be told to all who wait, one group after the other, each after a wait
        // of its own. Where one statement alone was too long nobody waits.
        for (const call of [...group, ...lane.takeOlder(Date.now() - PATIENCE_MS)]) call.reject(error);
      } else if (group.length === 1) group[0]?.reject(error);
      // One of them was refused, or its chain is taken for long: nothing was done, and alone each has its own answer.
      else for (const call of group) this.#ask([call]).then(([own = []]) => call.resolve(own), call.reject);
    }
  }

  async #ask(group: readonly Call[]): Promise<Part[][]> {
    const text = `[${group.map((call, n) => `{"n":${n},${call.text}}`).join()}]`;
    // A copy of a long conversation may take its time.
    const seconds = text.length > 1_000_000 ? LONG_STATEMENT_SECONDS : undefined;
    const again = group.every(({ reads }) => reads) ? "read" : "once";
    const patient = group.some((call) => call.patient);
    const asking = { seconds, patient };
    const rows = await this.#connections.query<Part & { n: number }>(this.#sql, [text], again, asking);
    const parts = group.map((): Part[] => []);
    for (const row of rows) parts[row.n]?.push(row);
    return parts;
  }
}

/** What waits to be sent, first come, first served. */
class Lane {
  #waiting: Waiting[] = [];
  #size = 0;
  underWay = 0;

  get length(): number {
    return this.#waiting.length;
  }

  isFull(size: number): boolean {
    return this.length >= WAITING.calls || (this.length > 0 && this.#size + size > WAITING.size);
  }

  push(call: Waiting): void {
    this.#waiting.push(call);
    this.#size += call.text.length;
  }

  /** Those that go next. */
  take(): Waiting[] {
    let size = 0;
    let count = 0;
    while (count < Math.min(this.length, GROUP.calls)) {
      size += this.#waiting[count]?.text.length ?? 0;
      if (count > 0 && size > GROUP.size) break;
      count++;
    }
    return this.#took(this.#waiting.splice(0, count));
  }

  /** Those that came before a time. */
  takeOlder(time: number): Waiting[] {
    const younger = this.#waiting.findIndex(({ since }) => since > time);
    return this.#took(this.#waiting.splice(0, younger < 0 ? this.length : younger));
  }

  /** Those that wait for no server that is away. */
  takeImpatient(): Waiting[] {
    const taken = this.#waiting.filter(({ patient }) => !patient);
    this.#waiting = this.#waiting.filter(({ patient }) => patient);
    return this.#took(taken);
  }

  #took(calls: Waiting[]): Waiting[] {
    for (const { text } of calls) this.#size -= text.length;
    return calls;
  }
}
