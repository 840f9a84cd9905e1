import type { Logger } from "gantry";

/** A server that was not reached for so long, in ms, is away: whoever can come again is told so at once. */
const AWAY_MS = 2000;

/** What is known of a server that cannot be reached. */
export class Outage {
  readonly #where: string;
  readonly #logger: Logger | undefined;
  /** Since when, in ms, and why not last. */
  #now: { since: number; told: boolean; why: string; passing: boolean } | undefined;

  constructor(where: string, logger?: Logger) {
    this.#where = where;
    this.#logger = logger;
  }

  get why(): string | undefined {
    return this.#now?.why;
  }

  /** Whether it lasts for a while, and may pass by itself. */
  get isLong(): boolean {
    return this.#now !== undefined && this.#now.passing && Date.now() - this.#now.since >= AWAY_MS;
  }

  /** An attempt failed, which began at `begun`. With `tell` the log is told, once. */
  missed(begun: number, { why, passing }: { why: string; passing: boolean }, tell: boolean): void {
    this.#now = { since: begun, told: false, ...this.#now, why, passing };
    if (!tell || this.#now.told) return;
    this.#now.told = true;
    this.#logger?.warn("the session store cannot be reached", { store: this.#where, reason: why });
  }

  /** It is over. */
  reached(): void {
    if (this.#now?.told)
      this.#logger?.info("the session store is reached again", {
        store: this.#where,
        seconds: Math.round((Date.now() - this.#now.since) / 1000),
      });
    this.#now = undefined;
  }

  /** Nobody asks any more. */
  forget(): void {
    this.#now = undefined;
  }
}
