import type { Logger } from "gantry";

/** Time after which an unreachable server counts as away, in ms. Callers that can retry are then rejected at once. */
const MIN_OUTAGE_MS = 2000;

/** Records and logs whether the server is unreachable. */
export class Outage {
  readonly #location: string;
  readonly #logger: Logger | undefined;
  /** The current outage with the reason of its last failure. Undefined while the server is reachable. */
  #current: { startedAtMs: number; isLogged: boolean; reason: string; isTemporary: boolean } | undefined;

  constructor(location: string, logger?: Logger) {
    this.#location = location;
    this.#logger = logger;
  }

  get reason(): string | undefined {
    return this.#current?.reason;
  }

  /** Whether the server has been unreachable for two seconds and the outage may end without intervention. */
  get isLong(): boolean {
    return (
      this.#current !== undefined &&
      this.#current.isTemporary &&
      Date.now() - this.#current.startedAtMs >= MIN_OUTAGE_MS
    );
  }

  /** Records a failed attempt that started at `startedAtMs`. Logs the outage once, as soon as `isReportable` is true. */
  recordFailure(
    startedAtMs: number,
    { reason, isTemporary }: { reason: string; isTemporary: boolean },
    isReportable: boolean,
  ): void {
    this.#current = { startedAtMs, isLogged: false, ...this.#current, reason, isTemporary };
    if (!isReportable || this.#current.isLogged) return;
    this.#current.isLogged = true;
    this.#logger?.warn("session store unreachable", { store: this.#location, reason });
  }

  /** Records that the server is reachable again. */
  recordSuccess(): void {
    if (this.#current?.isLogged)
      this.#logger?.info("session store reachable again", {
        store: this.#location,
        seconds: Math.round((Date.now() - this.#current.startedAtMs) / 1000),
      });
    this.#current = undefined;
  }

  /** Clears the state when the pool is closed. */
  reset(): void {
    this.#current = undefined;
  }
}
