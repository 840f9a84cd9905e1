import { StoreError } from "gantry";
import type { Connections } from "./connections.js";
import { unavailable } from "./errors.js";
import type { ReadRow } from "./rows.js";

/** A call that may share a statement with others; the database function `calls` runs it. */
export interface BatchedCall {
  /** Its fields as JSON, without the braces. */
  readonly text: string;
  /** Whether the change must be on disk when the call is answered. */
  readonly sync: boolean;
  /** Whether the call changes nothing. */
  readonly isReadOnly: boolean;
  /**
   * Whether the call belongs to active work that would be lost. Such a call also waits for a server that has been away
   * for a while.
   */
  readonly patient?: boolean;
}

/** Maximum time of a statement with much data, in seconds. */
export const LONG_STATEMENT_SECONDS = 300;

interface QueuedCall extends BatchedCall {
  /** Time of arrival, in ms since the epoch. */
  readonly since: number;
  resolve(parts: ReadRow[]): void;
  reject(error: unknown): void;
}

/** Maximum number of concurrent statements per lane. Calls that arrive meanwhile share the next statement. */
const MAX_CONCURRENT_STATEMENTS = 3;
/** Maximum number of calls and of characters per statement. A longer call is sent alone. */
const MAX_BATCH = { calls: 32, size: 200_000 };
/**
 * When a statement fails because the server is unreachable, calls that have waited longer than this, in ms, fail with
 * it.
 */
const MAX_WAIT_MS = 1000;
/** Maximum number of calls and of characters in the queue of a lane. Further calls are rejected at once. */
const MAX_QUEUE = { calls: 2000, size: 64 * 1024 * 1024 };

/**
 * Batches the short calls of a run. While a few statements are active, new calls of different chains share the next
 * one, which saves round trips and commits. Without load each call is sent at once, alone. Changes that must be on disk
 * have a separate lane, so that no other call waits for the disk.
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

  /** Resolves with the rows of the call. Rejects like `Connections.query`. */
  add(call: BatchedCall): Promise<ReadRow[]> {
    const lane = this.#lanes[call.sync ? 1 : 0];
    // Bypasses the queue, in which it would have to wait for the patient calls.
    if (!call.patient && this.#connections.isAway) return this.#ask([call]).then(([parts = []]) => parts);
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
    while (lane.activeStatements < MAX_CONCURRENT_STATEMENTS && lane.length > 0) {
      lane.activeStatements++;
      // Never rejects: each call gets its own error.
      void this.#sendBatch(lane, lane.take()).then(() => {
        lane.activeStatements--;
        this.#send(lane);
      });
    }
  }

  async #sendBatch(lane: Lane, group: readonly QueuedCall[]): Promise<void> {
    try {
      const parts = await this.#ask(group);
      group.forEach((call, at) => call.resolve(parts[at] ?? []));
    } catch (error) {
      if (error instanceof StoreError) {
        // An unreachable server would give all queued calls this error, one batch after the other, each after its own
        // wait. If only one statement exceeded its time, no call has waited that long.
        for (const call of [...group, ...lane.takeOlder(Date.now() - MAX_WAIT_MS)]) call.reject(error);
      } else if (group.length === 1) group[0]?.reject(error);
      // One call was rejected, or its chain is locked for long, and nothing was done. Alone, each call gets its own
      // result.
      else for (const call of group) this.#ask([call]).then(([parts = []]) => call.resolve(parts), call.reject);
    }
  }

  async #ask(group: readonly BatchedCall[]): Promise<ReadRow[][]> {
    const text = `[${group.map((call, n) => `{"n":${n},${call.text}}`).join()}]`;
    // Copying a long conversation may take longer.
    const seconds = text.length > 1_000_000 ? LONG_STATEMENT_SECONDS : undefined;
    const repeatable = group.every(({ isReadOnly }) => isReadOnly) ? "read" : "once";
    const patient = group.some((call) => call.patient);
    const options = { seconds, patient };
    const rows = await this.#connections.query<ReadRow & { n: number }>(this.#sql, [text], repeatable, options);
    const parts = group.map((): ReadRow[] => []);
    for (const row of rows) parts[row.n]?.push(row);
    return parts;
  }
}

/** Queue of unsent calls, first in, first out. */
class Lane {
  #waiting: QueuedCall[] = [];
  #size = 0;
  activeStatements = 0;

  get length(): number {
    return this.#waiting.length;
  }

  isFull(size: number): boolean {
    return this.length >= MAX_QUEUE.calls || (this.length > 0 && this.#size + size > MAX_QUEUE.size);
  }

  push(call: QueuedCall): void {
    this.#waiting.push(call);
    this.#size += call.text.length;
  }

  /** Removes and returns the calls of the next statement. */
  take(): QueuedCall[] {
    let size = 0;
    let count = 0;
    while (count < Math.min(this.length, MAX_BATCH.calls)) {
      size += this.#waiting[count]?.text.length ?? 0;
      if (count > 0 && size > MAX_BATCH.size) break;
      count++;
    }
    return this.#release(this.#waiting.splice(0, count));
  }

  /** Removes and returns the calls that arrived before a time. */
  takeOlder(time: number): QueuedCall[] {
    const younger = this.#waiting.findIndex(({ since }) => since > time);
    return this.#release(this.#waiting.splice(0, younger < 0 ? this.length : younger));
  }

  /** Removes and returns the calls that do not wait for an unreachable server. */
  takeImpatient(): QueuedCall[] {
    const taken = this.#waiting.filter(({ patient }) => !patient);
    this.#waiting = this.#waiting.filter(({ patient }) => patient);
    return this.#release(taken);
  }

  #release(calls: QueuedCall[]): QueuedCall[] {
    for (const { text } of calls) this.#size -= text.length;
    return calls;
  }
}
