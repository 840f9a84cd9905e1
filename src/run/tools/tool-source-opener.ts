import { abortable, createDeadline, settlesWithin } from "../../base/abort.js";
import { TaskSet } from "../../base/task-set.js";
import { InputError } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { Tool } from "../../ports/tool.js";
import type { OpenTools, ToolSession, ToolSource } from "../../ports/tool-source.js";
import { checkAndSortTools } from "../input/input-checks.js";

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
const NOT_NEEDED_ERROR = new Error("no session needs it any more");

/** A source that is being opened for a session. */
export interface SourceOpening {
  readonly source: ToolSource;
  /** Rejects with the reason why the source is unavailable. `ToolSourceOpener` handles the rejection. */
  readonly openTools: Promise<OpenTools>;
  readonly startedAtMs: number;
  /** Whether a run has continued without the source. */
  isLate: boolean;
  cancel(): void;
}

/** Opens and closes tool sources for sessions, with a time limit for each step. */
export class ToolSourceOpener {
  readonly #logger: Logger;
  readonly #openTimeoutMs: number;
  readonly #startTimeoutMs: number;
  /** Number of sessions that continued without a source that is still being opened for them. */
  readonly #lateSessionCounts = new Map<ToolSource, number>();
  readonly #pendingTasks = new TaskSet();

  constructor(
    logger: Logger,
    {
      openTimeoutMs = OPEN_TIMEOUT_MS,
      startTimeoutMs = START_TIMEOUT_MS,
    }: { openTimeoutMs?: number; startTimeoutMs?: number } = {},
  ) {
    this.#logger = logger;
    this.#openTimeoutMs = openTimeoutMs;
    this.#startTimeoutMs = startTimeoutMs;
  }

  /**
   * Starts to open a source. `onSettled` is called once, with the opened tools, or with undefined if the source is
   * unavailable. A source that opens after a cancel is closed at once.
   */
  startOpening(
    source: ToolSource,
    { sessionId, projectDir }: ToolSession,
    onSettled: (tools?: OpenTools) => void,
  ): SourceOpening {
    const controller = new AbortController();
    // The timer does not keep the process alive; a waiting run does.
    const timer = setTimeout(
      () => controller.abort(createTimeoutError(this.#startTimeoutMs)),
      this.#startTimeoutMs,
    ).unref();
    const openPromise = (async () => source.open({ sessionId, projectDir }, controller.signal))();
    const opening: SourceOpening = {
      source,
      openTools: this.#pendingTasks.add(checkOpenTools(openPromise, controller.signal)),
      startedAtMs: Date.now(),
      isLate: false,
      cancel: () => controller.abort(NOT_NEEDED_ERROR),
    };
    const fields = { source: source.name, session: sessionId };
    const isCancelled = () => controller.signal.reason === NOT_NEEDED_ERROR;
    const finish = (log: () => void): void => {
      clearTimeout(timer);
      if (!opening.isLate) return;
      this.#countLate(source, -1);
      if (!isCancelled()) log();
    };
    opening.openTools.then(
      (tools) => {
        if (isCancelled()) this.close(source, tools);
        onSettled(isCancelled() ? undefined : tools);
        finish(() =>
          this.#logger.info("tool source opened late; its tools are available to the session's next run", fields),
        );
      },
      (error: unknown) => {
        // The source may still open after the time limit.
        void this.#pendingTasks.add(openPromise.then((openTools) => this.#close(source, openTools)));
        onSettled();
        finish(() => this.#logger.warn("tool source could not be opened", { ...fields, error }));
      },
    );
    return opening;
  }

  /**
   * Waits for a source within the time limit of a run. With `isPersistent` the opening continues afterwards, even if
   * the run is cancelled. Rejects with the reason why the source is unavailable, or with the signal's reason.
   */
  async waitForTools(opening: SourceOpening, isPersistent: boolean, signal: AbortSignal): Promise<OpenTools> {
    const timeoutMs = this.#lateSessionCounts.has(opening.source) ? LATE_SOURCE_WAIT_MS : this.#openTimeoutMs;
    const remainingMs = opening.startedAtMs + timeoutMs - Date.now();
    const timeLimit = createDeadline(Math.max(remainingMs, Math.min(LATE_SOURCE_WAIT_MS, this.#openTimeoutMs)), signal);
    try {
      return await abortable(opening.openTools, timeLimit.signal);
    } catch (error) {
      if (!isPersistent) opening.cancel();
      else if (timeLimit.hasExpired && !opening.isLate) {
        opening.isLate = true;
        this.#countLate(opening.source, 1);
      }
      throw timeLimit.hasExpired ? createTimeoutError(this.#openTimeoutMs) : error;
    } finally {
      timeLimit.clear();
    }
  }

  /** Closes a source in the background. Logs a failure or a timeout. */
  close(source: ToolSource, openTools: OpenTools): void {
    void this.#pendingTasks.add(this.#close(source, openTools));
  }

  /** Resolves when all sources are opened or abandoned, and closed. Takes at most the time limit of a close. */
  async settled(): Promise<void> {
    await this.#pendingTasks.settled(CLOSE_TIMEOUT_MS);
  }

  /** Closes a source; abandons it after the time limit. Never rejects. */
  async #close(source: ToolSource, openTools: OpenTools): Promise<void> {
    const fields = { source: source.name };
    const closePromise = (async () => openTools.close())().catch((error: unknown) =>
      this.#logger.warn("tool source failed to close", { ...fields, error }),
    );
    if (!(await settlesWithin(closePromise, CLOSE_TIMEOUT_MS)))
      this.#logger.warn("tool source did not close in time; abandoned", fields);
  }

  /** Counts a session that continued without the source, or removes it from the count. */
  #countLate(source: ToolSource, change: 1 | -1): void {
    const sessionCount = (this.#lateSessionCounts.get(source) ?? 0) + change;
    if (sessionCount > 0) this.#lateSessionCounts.set(source, sessionCount);
    else this.#lateSessionCounts.delete(source);
  }
}

function createTimeoutError(timeoutMs: number): Error {
  return new DOMException(`it was not ready within ${timeoutMs / 1000} s`, "TimeoutError");
}

/**
 * Returns the tools that a source has opened. Rejects if the value is invalid, and with the signal's reason. The source
 * may still open after a rejection.
 */
async function checkOpenTools(openPromise: Promise<OpenTools>, signal: AbortSignal): Promise<OpenTools> {
  const openTools: Partial<OpenTools> | undefined = await abortable(openPromise, signal);
  if (typeof openTools?.close !== "function") throw new InputError("open", "an object with tools and close");
  return openTools as OpenTools;
}

/** Adds the tools of a source, sorted by name. Throws the source's error, or `InputError` for invalid tools. */
export function addSourceTools(
  allTools: readonly Tool[],
  source: ToolSource,
  result: PromiseSettledResult<readonly Tool[] | undefined>,
): readonly Tool[] {
  if (result.status === "rejected") throw result.reason;
  if (result.value === undefined) throw new Error("it has no tools");
  const field = `tools of ${source.name}`;
  const sourceTools = checkAndSortTools(field, result.value);
  // A name that the provider rejects would fail every call of the run.
  const invalidTool = sourceTools.find(({ name }) => !/^[a-zA-Z0-9_-]{1,64}$/.test(name));
  if (invalidTool)
    throw new InputError(field, `names of 1 to 64 letters, digits, _ and -, got ${JSON.stringify(invalidTool.name)}`);
  return checkAndSortTools(field, [...allTools, ...sourceTools]);
}
