import { abortable, deadline, settlesWithin } from "../../base/abort.js";
import { TaskSet } from "../../base/task-set.js";
import { InputError } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { OpenTools, ToolSession, ToolSource } from "../../ports/tool-source.js";

/** How long a run waits for a source to open, and one to close, in ms. */
const OPEN_MS = 30_000;
const CLOSE_MS = 2_500;
/** For a source that no run waits for any more: what a program downloads before it starts takes minutes. In ms. */
const START_MS = 300_000;
/** A run waits so long for what another one has waited for in vain, in ms. */
const GLANCE_MS = 250;
/** Why a source is not opened to the end. */
const UNWANTED = new Error("no session needs it any more");

/** A source that is being opened for a session. */
export interface Opening {
  readonly source: ToolSource;
  /** Rejects with why it cannot be had; owned by `SourceOpenings`. */
  readonly opened: Promise<OpenTools>;
  /** In ms since 1970. */
  readonly began: number;
  /** Whether a run has gone on without it. */
  late: boolean;
  cancel(): void;
}

/** Opens sources of tools for sessions and closes what they opened, and has an end for each that has none. */
export class SourceOpenings {
  readonly #logger: Logger;
  readonly #openMs: number;
  readonly #startMs: number;
  /** How many sessions have gone on without a source that is still being opened for them. */
  readonly #late = new Map<ToolSource, number>();
  readonly #underWay = new TaskSet();

  constructor(logger: Logger, { openMs = OPEN_MS, startMs = START_MS }: { openMs?: number; startMs?: number } = {}) {
    this.#logger = logger;
    this.#openMs = openMs;
    this.#startMs = startMs;
  }

  /** `settled` is called once, with what was opened or nothing. What is opened after a cancel is closed here. */
  begin(source: ToolSource, { sessionId, projectDir }: ToolSession, settled: (tools?: OpenTools) => void): Opening {
    const end = new AbortController();
    // It keeps no process alive: whoever waits does.
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

  /** For as long as a run may be held. What is `kept` goes on opening then, also when the run is cancelled. */
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

  /** A close that fails or hangs is told of. */
  shut(source: ToolSource, opened: OpenTools): void {
    void this.#underWay.add(this.#close(source, opened));
  }

  /** Resolves when all is opened or given up, and closed; at the latest when a close has had its time. */
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

/** What a source has opened. Rejects when it is none, and with the signal's reason: it may open after all. */
async function checkedOpen(opening: Promise<OpenTools>, signal: AbortSignal): Promise<OpenTools> {
  const opened: Partial<OpenTools> | undefined = await abortable(opening, signal);
  if (typeof opened?.close !== "function") throw new InputError("open", "an object with tools and close");
  return opened as OpenTools;
}
