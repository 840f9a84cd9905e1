import type { Logger } from "gantry";

/** Duration of an outage after which callers that can retry are rejected at once. */
const MIN_OUTAGE_MS = 2000;

/** Records and logs whether the server is unreachable. */
export class Outage {
  readonly #location: string;
  readonly #logger: Logger | undefined;
  /** The current outage with the reason of its last failure. Undefined while the server is reachable. */
  #currentOutage: { startedAtMs: number; isLogged: boolean; reason: string; isTemporary: boolean } | undefined;

  constructor(location: string, logger?: Logger) {
    this.#location = location;
    this.#logger = logger;
  }

  get reason(): string | undefined {
    return this.#currentOutage?.reason;
  }

  /** Whether the server has been unreachable for `MIN_OUTAGE_MS` and the outage may end without intervention. */
  get isLong(): boolean {
    return (
      this.#currentOutage !== undefined &&
      this.#currentOutage.isTemporary &&
      Date.now() - this.#currentOutage.startedAtMs >= MIN_OUTAGE_MS
    );
  }

  /**
   * Records a failed attempt that started at `startedAtMs`. Logs the outage once, as soon as `isReportable` is true.
   */
  recordFailure(
    startedAtMs: number,
    { reason, isTemporary }: { reason: string; isTemporary: boolean },
    isReportable: boolean,
  ): void {
    this.#currentOutage = { startedAtMs, isLogged: false, ...this.#currentOutage, reason, isTemporary };
    if (!isReportable || this.#currentOutage.isLogged) return;
    this.#currentOutage.isLogged = true;
    this.#logger?.warn("session store unreachable", { store: this.#location, reason });
  }

  /** Records that the server is reachable again. */
  recordSuccess(): void {
    if (this.#currentOutage?.isLogged)
      this.#logger?.info("session store reachable again", {
        store: this.#location,
        seconds: Math.round((Date.now() - this.#currentOutage.startedAtMs) / 1000),
      });
    this.#currentOutage = undefined;
  }

  /** Clears the state when the pool is closed. */
  reset(): void {
    this.#currentOutage = undefined;
  }
}
