import { onAbort, settlesWithin } from "../base/abort.js";
import type { Logger } from "../ports/logger.js";

/** A started part of a server. */
export interface StartedPart {
  /** Name for the log. */
  readonly name: string;
  stop(signal: AbortSignal): Promise<void>;
}

/**
 * Stops parts in reverse order of their start. Each part is stopped when the previous part has stopped. After
 * `graceSignal` aborts, the remaining parts are stopped at once.
 *
 * Never rejects. A part that has not stopped at `deadlineMs` (ms since the epoch) is logged and abandoned.
 */
export async function stopInReverse(
  startedParts: readonly StartedPart[],
  graceSignal: AbortSignal,
  deadlineMs: number,
  logger: Logger,
): Promise<void> {
  const graceEnd = new Promise<void>((resolve) => void onAbort(graceSignal, resolve));
  const stopPromises: Promise<void>[] = [];
  for (const { name, stop } of [...startedParts].reverse()) {
    const stopPromise = stopWithin(
      () => name,
      async () => stop(graceSignal),
      deadlineMs,
      logger,
    );
    stopPromises.push(stopPromise);
    await Promise.race([stopPromise, graceEnd]);
  }
  await Promise.all(stopPromises);
}

/**
 * Calls `stop` and waits at most until `deadlineMs` (ms since the epoch). Logs failures with `getName`. Never rejects.
 */
export async function stopWithin(
  getName: () => string,
  stop: () => Promise<void>,
  deadlineMs: number,
  logger: Logger,
): Promise<void> {
  const stopPromise = stop().catch((error: unknown) => logger.error(`${getName()} failed to stop`, { error }));
  if (!(await settlesWithin(stopPromise, Math.max(0, deadlineMs - Date.now()))))
    logger.error(`${getName()} did not stop in time; abandoned`);
}

/** Tracks which parts are being closed, for the log. */
export class CloseTracker {
  readonly #closingNames = new Set<string>();

  /** Replaces `close` of the part with a tracked `close`. Returns the part. */
  track<T extends { close(): Promise<void> }>(name: string, part: T): T {
    const close = part.close.bind(part);
    const trackedClose = async (): Promise<void> => {
      this.#closingNames.add(name);
      try {
        await close();
      } finally {
        this.#closingNames.delete(name);
      }
    };
    // A frozen part cannot be tracked.
    Reflect.defineProperty(part, "close", { configurable: true, writable: true, value: trackedClose });
    return part;
  }

  /** Names of the parts whose `close` has not settled. */
  get closingNames(): string[] {
    return [...this.#closingNames];
  }
}
