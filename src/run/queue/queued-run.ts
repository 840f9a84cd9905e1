import { onAbort } from "../../base/abort.js";
import { hasCode } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { RunInput, RunRecord } from "../../ports/run.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import { thisHolder } from "../../sessions/holder.js";
import { LEASE_TTL_MS } from "../../sessions/lease.js";
import { ending, failed } from "../../sessions/run-record.js";
import { notifierOf } from "../../sessions/polling-notifier.js";

/** Whoever waits says so again so often, in ms; a process elsewhere that says so no more is believed as long as a lease. */
const RENEW_MS = 10_000;
const BELIEVED_MS = LEASE_TTL_MS;

/** What a run brings along from the line. */
export interface Turn {
  /** As it is stored. */
  readonly record: RunRecord;
  /** Aborts when somebody cancels it. */
  readonly signal: AbortSignal;
  /** To be called under the chain's lease, before the run is stored as begun: from then on the line writes no more of it. */
  readonly held: () => Promise<void>;
}

/** One run in line. */
export class Waiter<Run> {
  readonly record: RunRecord;
  /** What it becomes. */
  readonly run: Promise<Run>;
  isBeginning = false;
  readonly #driver: SessionDriver;
  readonly #input: RunInput;
  readonly #begin: (turn: Turn) => Promise<Run>;
  readonly #logger: Logger;
  readonly #cancel = new AbortController();
  #untie = (): void => undefined;
  #resolve: (run: Run) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;
  /** What was written last of it. */
  #writing: Promise<unknown> = Promise.resolve();
  #believedFrom = 0;
  /** Whether somebody else writes of it. */
  #held = false;
  #over = false;
  #ahead = -1;

  constructor(
    driver: SessionDriver,
    record: RunRecord,
    input: RunInput,
    begin: (turn: Turn) => Promise<Run>,
    logger: Logger,
  ) {
    this.#driver = driver;
    this.record = record;
    this.#input = input;
    this.#begin = begin;
    this.#logger = logger;
    this.run = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // It may end before anybody waits for it.
    this.run.catch(() => undefined);
  }

  /** Store it before anything can end it. Rejects as `SessionDriver.write`. */
  async enter(): Promise<void> {
    await this.store(true);
    const { signal } = this.#input;
    if (signal) this.#untie = onAbort(signal, () => this.cancel(signal.reason));
  }

  /** Write that it waits. Rejects as `SessionDriver.write`. */
  async store(sync: boolean): Promise<void> {
    if (this.#held || this.#over) return;
    this.#believedFrom = Date.now();
    this.record.line ??= { holder: thisHolder(this.record.id), until: "" };
    this.record.line.until = new Date(Date.now() + BELIEVED_MS).toISOString();
    await this.#write(sync);
  }

  /** Somebody took this process for dead, as after a suspend: it waits on, unless its key went to another. */
  async restore(): Promise<void> {
    try {
      await this.store(false);
    } catch (error) {
      if (!hasCode(error, "run_key_taken")) throw error;
      this.record.key = "";
      this.cancel(error);
    }
  }

  async renew(): Promise<void> {
    if (Date.now() - this.#believedFrom > RENEW_MS) await this.store(false);
  }

  tell(ahead: number): void {
    if (ahead === this.#ahead || this.#over) return;
    this.#ahead = ahead;
    try {
      this.#input.onQueued?.(ahead, structuredClone(this.record));
    } catch (error) {
      this.#logger.error("a listener failed", { error });
    }
  }

  /** It is its turn. */
  begin(): void {
    if (this.#over) return;
    this.isBeginning = true;
    const held = async () => {
      this.#held = true;
      await this.#writing;
    };
    const turn: Turn = { record: this.record, signal: this.#cancel.signal, held };
    const begun = (run: Run): void => {
      this.#over = true;
      this.#untie();
      this.#resolve(run);
    };
    const refused = async (error: unknown): Promise<void> => {
      this.#held = false;
      this.isBeginning = false;
      // Whoever had the session has not given it back yet, or somebody came between who asked for no place in line.
      if (!hasCode(error, "session_busy") || this.#cancel.signal.aborted) await this.#leave(error);
    };
    void this.#begin(turn).then(begun, refused);
  }

  /** End its waiting; a run that has begun is cancelled. */
  cancel(reason: unknown): void {
    this.#cancel.abort(reason);
    if (!this.isBeginning) void this.#leave(reason);
  }

  /** As `cancel`, and rejects with why. */
  end(reason: Error): Promise<Run> {
    this.cancel(reason);
    return this.run;
  }

  async #leave(error: unknown): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    this.#untie();
    const why = ending(error, this.#cancel.signal);
    Object.assign(this.record, failed(why));
    await this.#write(false).catch((unstored: unknown) =>
      this.#logger.debug("a run's end was not stored", { error: unstored }),
    );
    this.#reject(why);
  }

  /** One after the other: what is written last is what counts. */
  async #write(sync: boolean): Promise<void> {
    const { sessionId } = this.record;
    const write = async () => {
      await this.#driver.write(sessionId, { fence: null, sync, runs: [structuredClone(this.record)] });
      notifierOf(this.#driver).publish(sessionId);
    };
    const written = this.#writing.then(write);
    this.#writing = written.catch(() => undefined);
    await written;
  }
}
