import type { Logger } from "gantry";

/** Time in ms after which an unreachable server counts as away; callers that can retry are then rejected at once. */
const MIN_OUTAGE_MS = 2000;

/** State of a server that cannot be reached. */
export class Outage {
  readonly #where: string;
  readonly #logger: Logger | undefined;
  /** Start of the outage in ms since the epoch, and the last reason. */
  #now: { since: number; isLogged: boolean; why: string; passing: boolean } | undefined;

  constructor(where: string, logger?: Logger) {
    this.#where = where;
    this.#logger = logger;
  }

  get why(): string | undefined {
    return this.#now?.why;
  }

  /** Whether the server has been unreachable for two seconds and the outage may end without intervention. */
  get isLong(): boolean {
    return this.#now !== undefined && this.#now.passing && Date.now() - this.#now.since >= MIN_OUTAGE_MS;
  }

  /**
   * Records a failed attempt that started at `begun` (ms since the epoch). The outage is logged once, as soon as `tell`
   * is true.
   */
  attemptFailed(begun: number, { why, passing }: { why: string; passing: boolean }, tell: boolean): void {
    this.#now = { since: begun, isLogged: false, ...this.#now, why, passing };
    if (!tell || this.#now.isLogged) return;
    this.#now.isLogged = true;
    this.#logger?.warn("session store unreachable", { store: this.#where, reason: why });
  }

  /** Records that the server is reachable again. */
  reached(): void {
    if (this.#now?.isLogged)
      this.#logger?.info("session store reachable again", {
        store: this.#where,
        seconds: Math.round((Date.now() - this.#now.since) / 1000),
      });
    this.#now = undefined;
  }

  /** Clears the state when the pool is closed. */
  forget(): void {
    this.#now = undefined;
  }
}
