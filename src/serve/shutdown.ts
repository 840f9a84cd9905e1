import { onAbort, settlesWithin } from "../base/abort.js";
import type { Logger } from "../ports/logger.js";

/** A started part of a server. */
export interface StartedPart {
  /** Name for the log. */
  readonly name: string;
  stop(signal: AbortSignal): Promise<void>;
}

/**
 * Stops parts in reverse order, each after the one that was started later. After `grace` aborts, the remaining parts
 * are stopped at once, in the same order.
 *
 * Never rejects. A part that has not stopped at `by` (ms since the epoch) is logged and abandoned.
 */
export async function stopInReverse(
  started: readonly StartedPart[],
  grace: AbortSignal,
  by: number,
  logger: Logger,
): Promise<void> {
  const hurry = new Promise<void>((resolve) => void onAbort(grace, resolve));
  const stopping: Promise<void>[] = [];
  for (const { name, stop } of [...started].reverse()) {
    const down = stopWithin(
      () => name,
      async () => stop(grace),
      by,
      logger,
    );
    stopping.push(down);
    await Promise.race([down, hurry]);
  }
  await Promise.all(stopping);
}

/** Stops a part and waits until `by` (ms since the epoch) at most. Failures are logged. Never rejects. */
export async function stopWithin(
  name: () => string,
  stop: () => Promise<void>,
  by: number,
  logger: Logger,
): Promise<void> {
  const stopped = stop().catch((error: unknown) => logger.error(`${name()} failed to stop`, { error }));
  if (!(await settlesWithin(stopped, Math.max(0, by - Date.now()))))
    logger.error(`${name()} did not stop in time; abandoned`);
}

/** Tracks which parts are being closed. Their owner calls `close`. */
export class CloseTracker {
  readonly #closing = new Set<string>();

  /** Tracks the `close` of a part. */
  watch<T extends { close(): Promise<void> }>(name: string, part: T): T {
    const close = part.close.bind(part);
    const watched = async (): Promise<void> => {
      this.#closing.add(name);
      try {
        await close();
      } finally {
        this.#closing.delete(name);
      }
    };
    // A frozen part cannot be tracked.
    Reflect.defineProperty(part, "close", { configurable: true, writable: true, value: watched });
    return part;
  }

  /** Names of the parts whose `close` has not settled. */
  get names(): string[] {
    return [...this.#closing];
  }
}
