import { onAbort, settlesWithin } from "../base/abort.js";
import type { Logger } from "../ports/logger.js";

/** Something that was started. */
export interface Started {
  /** For the log. */
  readonly name: string;
  stop(signal: AbortSignal): Promise<void>;
}

/**
 * Stop what was started, the last first and each when the one after it is down. Once `grace` aborts there is no time
 * for that: the rest is told at once, in the same order. Never rejects; who is not down at `by` (ms since the epoch)
 * is named in the log and left.
 */
export async function stopInReverse(
  started: readonly Started[],
  grace: AbortSignal,
  by: number,
  logger: Logger,
): Promise<void> {
  const hurry = new Promise<void>((resolve) => void onAbort(grace, resolve));
  const stopping: Promise<void>[] = [];
  for (const { name, stop } of [...started].reverse()) {
    const down = within(
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

/** Waits for a part to stop, but not for ever. Never rejects. */
export async function within(name: () => string, stop: () => Promise<void>, by: number, logger: Logger): Promise<void> {
  const stopped = stop().catch((error: unknown) => logger.error(`${name()} failed while stopping`, { error }));
  if (!(await settlesWithin(stopped, Math.max(0, by - Date.now()))))
    logger.error(`${name()} did not stop in time and is left behind`);
}

/** Parts that somebody else closes, and who of them is at it now. */
export class Closing {
  readonly #under = new Set<string>();

  /** Watch the `close` of a part. */
  watch<T extends { close(): Promise<void> }>(name: string, part: T): T {
    const close = part.close.bind(part);
    const watched = async (): Promise<void> => {
      this.#under.add(name);
      try {
        await close();
      } finally {
        this.#under.delete(name);
      }
    };
    // Frozen parts stay as they are, and are not named.
    Reflect.defineProperty(part, "close", { configurable: true, writable: true, value: watched });
    return part;
  }

  /** Names of those that were told to close and have not. */
  get names(): string[] {
    return [...this.#under];
  }
}
