import { abortable, deadline, settlesWithin } from "../../base/abort.js";
import { TaskSet } from "../../base/task-set.js";
import { InputError } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { OpenTools, ToolSession, ToolSource } from "../../ports/tool-source.js";

/** Maximum wait of a run until a source opens, and until it closes, in ms. */
const OPEN_TIMEOUT_MS = 30_000;
const CLOSE_TIMEOUT_MS = 2_500;
/**
 * Time limit for opening a source that no run waits for, in ms. A program may download files for minutes before it
 * starts.
 */
const START_TIMEOUT_MS = 300_000;
/** Maximum wait of a run for a source that was already late for another run, in ms. */
const LATE_SOURCE_WAIT_MS = 250;
/** Abort reason for a source that no session needs any more. */
const NOT_NEEDED = new Error("no session needs it any more");

/** A source that is being opened for a session. */
export interface Opening {
  readonly source: ToolSource;
  /** Rejects with the reason why the source is unavailable. `OpenToolSources` handles the rejection. */
  readonly opened: Promise<OpenTools>;
  /** Start time in ms since 1970. */
  readonly startedAtMs: number;
  /** Whether a run has continued without the source. */
  isLate: boolean;
  cancel(): void;
}

/** Opens and closes tool sources for sessions, with a time limit for each step. */
export class OpenToolSources {
  readonly #logger: Logger;
  readonly #openMs: number;
  readonly #startMs: number;
  /** Number of sessions that continued without a source that is still being opened for them. */
  readonly #lateSessions = new Map<ToolSource, number>();
  readonly #pendingTasks = new TaskSet();

  constructor(
    logger: Logger,
    { openMs = OPEN_TIMEOUT_MS, startMs = START_TIMEOUT_MS }: { openMs?: number; startMs?: number } = {},
  ) {
    this.#logger = logger;
    this.#openMs = openMs;
    this.#startMs = startMs;
  }

  /**
   * Starts to open a source. `settled` is called once, with the opened tools or without. A source that opens after a
   * cancel is closed here.
   */
  begin(source: ToolSource, { sessionId, projectDir }: ToolSession, settled: (tools?: OpenTools) => void): Opening {
    const end = new AbortController();
    // Does not keep the process alive; a waiting run does.
    const timer = setTimeout(() => end.abort(notReady(this.#startMs)), this.#startMs).unref();
    const opens = (async () => source.open({ sessionId, projectDir }, end.signal))();
    const opening: Opening = {
      source,
      opened: this.#pendingTasks.add(checkedOpen(opens, end.signal)),
      startedAtMs: Date.now(),
      isLate: false,
      cancel: () => end.abort(NOT_NEEDED),
    };
    const fields = { source: source.name, session: sessionId };
    const unwanted = () => end.signal.reason === NOT_NEEDED;
    const over = (tell: () => void): void => {
      clearTimeout(timer);
      if (!opening.isLate) return;
      this.#countLate(source, -1);
      if (!unwanted()) tell();
    };
    opening.opened.then(
      (tools) => {
        if (unwanted()) this.close(source, tools);
        settled(unwanted() ? undefined : tools);
        over(() =>
          this.#logger.info("tool source opened late; its tools are available to the session's next run", fields),
        );
      },
      (error: unknown) => {
        void this.#pendingTasks.add(opens.then((late) => this.#close(source, late)));
        settled();
        over(() => this.#logger.warn("tool source could not be opened", { ...fields, error }));
      },
    );
    return opening;
  }

  /**
   * Waits for a source within the time limit of a run. With `isPersistent` the opening continues afterwards, even if
   * the run is cancelled.
   */
  async waitFor(opening: Opening, isPersistent: boolean, signal: AbortSignal): Promise<OpenTools> {
    const patience = this.#lateSessions.has(opening.source) ? LATE_SOURCE_WAIT_MS : this.#openMs;
    const remainingMs = opening.startedAtMs + patience - Date.now();
    const time = deadline(Math.max(remainingMs, Math.min(LATE_SOURCE_WAIT_MS, this.#openMs)), signal);
    try {
      return await abortable(opening.opened, time.signal);
    } catch (error) {
      if (!isPersistent) opening.cancel();
      else if (time.expired && !opening.isLate) {
        opening.isLate = true;
        this.#countLate(opening.source, 1);
      }
      throw time.expired ? notReady(this.#openMs) : error;
    } finally {
      time.clear();
    }
  }

  /** Closes a source in the background. Logs a failure or a timeout. */
  close(source: ToolSource, opened: OpenTools): void {
    void this.#pendingTasks.add(this.#close(source, opened));
  }

  /** Resolves when all sources are opened or abandoned, and closed. Takes at most the time limit of a close. */
  async settled(): Promise<void> {
    await this.#pendingTasks.settled(CLOSE_TIMEOUT_MS);
  }

  /** Never rejects. */
  async #close(source: ToolSource, opened: OpenTools): Promise<void> {
    const fields = { source: source.name };
    const closing = (async () => opened.close())().catch((error: unknown) =>
      this.#logger.warn("tool source failed to close", { ...fields, error }),
    );
    if (!(await settlesWithin(closing, CLOSE_TIMEOUT_MS)))
      this.#logger.warn("tool source did not close in time; abandoned", fields);
  }

  #countLate(source: ToolSource, change: 1 | -1): void {
    const sessions = (this.#lateSessions.get(source) ?? 0) + change;
    if (sessions > 0) this.#lateSessions.set(source, sessions);
    else this.#lateSessions.delete(source);
  }
}

function notReady(ms: number): Error {
  return new DOMException(`it was not ready within ${ms / 1000} s`, "TimeoutError");
}

/**
 * The tools that a source has opened. Rejects if the value is invalid, and with the signal's reason; the source may
 * still open after that.
 */
async function checkedOpen(opening: Promise<OpenTools>, signal: AbortSignal): Promise<OpenTools> {
  const opened: Partial<OpenTools> | undefined = await abortable(opening, signal);
  if (typeof opened?.close !== "function") throw new InputError("open", "an object with tools and close");
  return opened as OpenTools;
}
