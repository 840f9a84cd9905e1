import { abortable, deadline, settlesWithin } from "../../base/abort.js";
import { TaskSet } from "../../base/task-set.js";
import { InputError } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { OpenTools, ToolSession, ToolSource } from "../../ports/tool-source.js";

/** How long a run waits until a source opens, and until it closes, in ms. */
const OPEN_MS = 30_000;
const CLOSE_MS = 2_500;
/**
 * Time limit for opening a source that no run waits for, in ms. A program may download files for minutes before it
 * starts.
 */
const START_MS = 300_000;
/** How long a run waits for a source that was already late for another run, in ms. */
const GLANCE_MS = 250;
/** Abort reason for a source that no session needs any more. */
const UNWANTED = new Error("no session needs it any more");

/** A source that is being opened for a session. */
export interface Opening {
  readonly source: ToolSource;
  /** Rejects with the reason why the source is unavailable. `OpenToolSources` handles the rejection. */
  readonly opened: Promise<OpenTools>;
  /** Start time in ms since 1970. */
  readonly began: number;
  /** Whether a run has continued without the source. */
  late: boolean;
  cancel(): void;
}

/** Opens and closes tool sources for sessions, with a time limit for each step. */
export class OpenToolSources {
  readonly #logger: Logger;
  readonly #openMs: number;
  readonly #startMs: number;
  /** Number of sessions that continued without a source that is still being opened for them. */
  readonly #late = new Map<ToolSource, number>();
  readonly #underWay = new TaskSet();

  constructor(logger: Logger, { openMs = OPEN_MS, startMs = START_MS }: { openMs?: number; startMs?: number } = {}) {
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
      opened: this.#underWay.add(checkedOpen(opens, end.signal)),
      began: Date.now(),
      late: false,
      cancel: () => end.abort(UNWANTED),
    };
    const fields = { source: source.name, session: sessionId };
    const unwanted = () => end.signal.reason === UNWANTED;
    const over = (tell: () => void): void => {
      clearTimeout(timer);
      if (!opening.late) return;
      this.#count(source, -1);
      if (!unwanted()) tell();
    };
    opening.opened.then(
      (tools) => {
        if (unwanted()) this.shut(source, tools);
        settled(unwanted() ? undefined : tools);
        over(() => this.#logger.info("the tools of a source are there now, for the session's next run", fields));
      },
      (error: unknown) => {
        void this.#underWay.add(opens.then((late) => this.#close(source, late)));
        settled();
        over(() =>
          this.#logger.warn("a source of tools that was waited for could not be opened", { ...fields, error }),
        );
      },
    );
    return opening;
  }

  /**
   * Waits for a source within the time limit of a run. With `isPersistent` the opening continues afterwards, even if
   * the run is cancelled.
   */
  async waitFor(opening: Opening, kept: boolean, signal: AbortSignal): Promise<OpenTools> {
    const patience = this.#late.has(opening.source) ? GLANCE_MS : this.#openMs;
    const left = opening.began + patience - Date.now();
    const time = deadline(Math.max(left, Math.min(GLANCE_MS, this.#openMs)), signal);
    try {
      return await abortable(opening.opened, time.signal);
    } catch (error) {
      if (!kept) opening.cancel();
      else if (time.expired && !opening.late) {
        opening.late = true;
        this.#count(opening.source, 1);
      }
      throw time.expired ? notReady(this.#openMs) : error;
    } finally {
      time.clear();
    }
  }

  /** Closes a source in the background. Logs a failure or a timeout. */
  shut(source: ToolSource, opened: OpenTools): void {
    void this.#underWay.add(this.#close(source, opened));
  }

  /** Resolves when all sources are opened or abandoned, and closed. Takes at most the time limit of a close. */
  async settled(): Promise<void> {
    await this.#underWay.settled(CLOSE_MS);
  }

  /** Never rejects. */
  async #close(source: ToolSource, opened: OpenTools): Promise<void> {
    const fields = { source: source.name };
    const closing = (async () => opened.close())().catch((error: unknown) =>
      this.#logger.warn("a source of tools failed while closing", { ...fields, error }),
    );
    if (!(await settlesWithin(closing, CLOSE_MS)))
      this.#logger.warn("a source of tools did not close in time and is left behind", fields);
  }

  #count(source: ToolSource, more: 1 | -1): void {
    const sessions = (this.#late.get(source) ?? 0) + more;
    if (sessions > 0) this.#late.set(source, sessions);
    else this.#late.delete(source);
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
