import type { Connection } from "./connection.js";

/** Maximum number of waiting calls, and of characters in their values. */
const MAX_QUEUE = { calls: 10_000, characters: 64 * 1024 * 1024 };

/** Loss of a connection: the reason, and a note for the error if no other connection is available. */
export interface ConnectionLoss {
  readonly reason: string;
  readonly note: string;
}

/** A call that waits for a connection. */
export interface WaitingCall {
  /** Whether the caller waits its full time even for a server that is known to be unreachable. */
  readonly isPatient: boolean;
  /** Undefined for a first attempt. */
  readonly loss: ConnectionLoss | undefined;
  /** Size of the call's values, in characters. */
  readonly size: number;
}

interface QueuedCall extends WaitingCall {
  readonly timer: NodeJS.Timeout;
  readonly accept: (connection: Connection) => void;
  readonly reject: (error: Error) => void;
}

/** Queue of the calls that wait for a connection, with a time limit for each call and a limit for the queue. */
export class WaitingCalls {
  readonly #calls: QueuedCall[] = [];
  #characters = 0;

  get count(): number {
    return this.#calls.length;
  }

  /** Whether the queue has no space for values of `size` characters. An empty queue has space for every call. */
  isFullFor(size: number): boolean {
    return this.count > 0 && (this.count >= MAX_QUEUE.calls || this.#characters + size > MAX_QUEUE.characters);
  }

  /**
   * Resolves with a connection. Rejects with the error of `toTimeoutError` at `deadlineMs` (ms since the epoch). A call
   * that has lost its connection goes first.
   */
  add(call: WaitingCall, deadlineMs: number, toTimeoutError: () => Error): Promise<Connection> {
    return new Promise((accept, reject) => {
      const endWait = (): void => {
        this.#calls.splice(this.#calls.indexOf(queuedCall), 1);
        this.#characters -= call.size;
        reject(toTimeoutError());
      };
      const timer = setTimeout(endWait, Math.max(0, deadlineMs - Date.now()));
      const queuedCall: QueuedCall = { ...call, timer, accept, reject };
      if (call.loss) this.#calls.unshift(queuedCall);
      else this.#calls.push(queuedCall);
      this.#characters += call.size;
    });
  }

  /** Gives a connection to the first call. Returns false if no call waits. */
  accept(connection: Connection): boolean {
    const call = this.#calls.shift();
    if (!call) return false;
    this.#characters -= call.size;
    clearTimeout(call.timer);
    call.accept(connection);
    return true;
  }

  /** Rejects the calls that `matches` selects. Default: all calls. */
  reject(toError: (call: WaitingCall) => Error, matches = (_: WaitingCall): boolean => true): void {
    const rejectedCalls = this.#calls.filter(matches);
    if (rejectedCalls.length === 0) return;
    const remainingCalls = this.#calls.filter((call) => !matches(call));
    this.#calls.splice(0, Infinity, ...remainingCalls);
    for (const call of rejectedCalls) {
      this.#characters -= call.size;
      clearTimeout(call.timer);
      call.reject(toError(call));
    }
  }
}
