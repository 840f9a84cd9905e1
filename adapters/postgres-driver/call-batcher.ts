import { StoreError } from "gantry";
import type { Connections } from "./connections.js";
import { toUnavailableError } from "./errors.js";
import type { ReadRow } from "./rows.js";

/** A call that may share a statement with other calls. The database function `calls` runs it. */
export interface BatchedCall {
  /** Fields of the call as a JSON object without the braces. */
  readonly json: string;
  /** Whether the change must be on disk when the call is answered. */
  readonly needsSync: boolean;
  /** Whether the call changes nothing. */
  readonly isReadOnly: boolean;
  /**
   * Whether the call belongs to active work that would be lost. Such a call also waits for a server that is known to be
   * unreachable. Default: false.
   */
  readonly isPatient?: boolean;
}

/** Maximum time of a statement with much data. */
export const LONG_STATEMENT_SECONDS = 300;

interface QueuedCall extends BatchedCall {
  readonly addedAtMs: number;
  resolve(rows: ReadRow[]): void;
  reject(error: unknown): void;
}

/** Maximum number of concurrent statements per lane. Calls that arrive meanwhile share the next statement. */
const MAX_CONCURRENT_STATEMENTS = 3;
/** Maximum number of calls and of their characters per statement. A longer call is sent alone. */
const MAX_BATCH = { calls: 32, characters: 200_000 };
/** A statement with more characters gets `LONG_STATEMENT_SECONDS`: the database may copy a long conversation. */
const LONG_STATEMENT_CHARACTERS = 1_000_000;
/** Waiting time after which a queued call fails together with a statement that did not reach the server. */
const MAX_WAIT_MS = 1000;
/** Maximum number of calls and of characters in the queue of a lane. Further calls are rejected at once. */
const MAX_QUEUE = { calls: 2000, characters: 64 * 1024 * 1024 };

/**
 * Batches the short calls of a run. While a few statements are active, new calls of different chains share the next
 * statement, which saves round trips and commits. Without load each call is sent at once, alone. Changes that must be
 * on disk have a separate lane, so that no other call waits for the disk.
 */
export class CallBatcher {
  readonly #connections: Connections;
  readonly #sql: string;
  /** The second lane is for calls that need a sync. */
  readonly #lanes = [new Lane(), new Lane()] as const;

  constructor(connections: Connections, sql: string) {
    this.#connections = connections;
    this.#sql = sql;
    connections.onAway = (error) => {
      for (const lane of this.#lanes) for (const call of lane.takeImpatient()) call.reject(error);
    };
  }

  /** Resolves with the rows of the call. Rejects like `Connections.query`. */
  add(call: BatchedCall): Promise<ReadRow[]> {
    const lane = this.#lanes[call.needsSync ? 1 : 0];
    // The call bypasses the queue, where it would wait for the patient calls.
    if (!call.isPatient && this.#connections.isAway) return this.#query([call]).then(([rows = []]) => rows);
    return new Promise((resolve, reject) => {
      if (lane.isFull(call.json.length)) {
        reject(toUnavailableError(this.#connections.address.location, "too many calls wait for it"));
        return;
      }
      lane.push({ ...call, addedAtMs: Date.now(), resolve, reject });
      this.#send(lane);
    });
  }

  #send(lane: Lane): void {
    while (lane.activeStatementCount < MAX_CONCURRENT_STATEMENTS && lane.length > 0) {
      lane.activeStatementCount++;
      // Never rejects: each call gets its own error.
      void this.#sendBatch(lane, lane.takeBatch()).then(() => {
        lane.activeStatementCount--;
        this.#send(lane);
      });
    }
  }

  async #sendBatch(lane: Lane, calls: readonly QueuedCall[]): Promise<void> {
    try {
      const rowsByCall = await this.#query(calls);
      calls.forEach((call, index) => call.resolve(rowsByCall[index] ?? []));
    } catch (error) {
      if (error instanceof StoreError) {
        // For an unreachable server each further batch would get this error only after its own wait. If only one
        // statement exceeded its time, no queued call has waited that long.
        for (const call of [...calls, ...lane.takeOlderThan(Date.now() - MAX_WAIT_MS)]) call.reject(error);
      } else if (calls.length === 1) calls[0]?.reject(error);
      // The statement had no effect, because one call was rejected or waited too long for a lock. Sent alone, each call
      // gets its own result.
      else for (const call of calls) this.#query([call]).then(([rows = []]) => call.resolve(rows), call.reject);
    }
  }

  async #query(calls: readonly BatchedCall[]): Promise<ReadRow[][]> {
    const json = `[${calls.map((call, n) => `{"n":${n},${call.json}}`).join()}]`;
    const timeoutSeconds = json.length > LONG_STATEMENT_CHARACTERS ? LONG_STATEMENT_SECONDS : undefined;
    const repetition = calls.every(({ isReadOnly }) => isReadOnly) ? "read" : "once";
    const isPatient = calls.some((call) => call.isPatient);
    const options = { timeoutSeconds, isPatient };
    const rows = await this.#connections.query<ReadRow & { n: number }>(this.#sql, [json], repetition, options);
    const rowsByCall = calls.map((): ReadRow[] => []);
    for (const row of rows) rowsByCall[row.n]?.push(row);
    return rowsByCall;
  }
}

/** A queue of unsent calls, first in, first out, with the number of its active statements. */
class Lane {
  #calls: QueuedCall[] = [];
  #characters = 0;
  activeStatementCount = 0;

  get length(): number {
    return this.#calls.length;
  }

  isFull(callCharacters: number): boolean {
    return (
      this.length >= MAX_QUEUE.calls || (this.length > 0 && this.#characters + callCharacters > MAX_QUEUE.characters)
    );
  }

  push(call: QueuedCall): void {
    this.#calls.push(call);
    this.#characters += call.json.length;
  }

  /** Removes and returns the calls of the next statement. */
  takeBatch(): QueuedCall[] {
    let batchCharacters = 0;
    let callCount = 0;
    while (callCount < Math.min(this.length, MAX_BATCH.calls)) {
      batchCharacters += this.#calls[callCount]?.json.length ?? 0;
      if (callCount > 0 && batchCharacters > MAX_BATCH.characters) break;
      callCount++;
    }
    return this.#subtractSizes(this.#calls.splice(0, callCount));
  }

  /** Removes and returns the calls that arrived before `timeMs`. */
  takeOlderThan(timeMs: number): QueuedCall[] {
    const firstYoungerIndex = this.#calls.findIndex(({ addedAtMs }) => addedAtMs > timeMs);
    return this.#subtractSizes(this.#calls.splice(0, firstYoungerIndex < 0 ? this.length : firstYoungerIndex));
  }

  /** Removes and returns the calls that do not wait for an unreachable server. */
  takeImpatient(): QueuedCall[] {
    const impatientCalls = this.#calls.filter(({ isPatient }) => !isPatient);
    this.#calls = this.#calls.filter(({ isPatient }) => isPatient);
    return this.#subtractSizes(impatientCalls);
  }

  #subtractSizes(calls: QueuedCall[]): QueuedCall[] {
    for (const { json } of calls) this.#characters -= json.length;
    return calls;
  }
}
