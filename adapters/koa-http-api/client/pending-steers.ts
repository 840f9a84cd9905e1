import type { CallOptions } from "./connection.js";
import { NotFoundError } from "./errors.js";
import type { SessionPage } from "./session-page.js";
import type { Runs, Sessions } from "./sessions.js";
import type { RunState } from "../shapes.js";

/** A text that was sent to a run under way. */
export interface PendingSteer {
  readonly text: string;
  readonly runId: string;
  /** `seq` of the newest message when it was sent. */
  readonly after: number;
}

/**
 * Runs that have ended and never read what is left. After any other end the server makes the unread texts the session's
 * next prompt.
 */
const STOPPED: ReadonlySet<RunState> = new Set(["cancelled", "interrupted"]);
const ACTIVE: ReadonlySet<RunState> = new Set(["queued", "running", "waiting"]);

/** Texts that one session's runs were sent and have not read yet. Those of a run that was stopped come back. */
export class PendingSteers {
  readonly #client: { readonly sessions: Sessions; readonly runs: Runs };
  #steers: readonly PendingSteer[];

  /** `steers`: those that were pending when `all` was stored. */
  constructor(client: { readonly sessions: Sessions; readonly runs: Runs }, steers: readonly PendingSteer[] = []) {
    this.#client = client;
    this.#steers = steers;
  }

  /** Oldest first; the same array until one of them is read or comes back. */
  get all(): readonly PendingSteer[] {
    return this.#steers;
  }

  /** Sends a text to the session's run and remembers it. Rejects as `Sessions.steer`. Call `settle` afterwards. */
  async send(sessionId: string, text: string, page: SessionPage, options?: CallOptions): Promise<void> {
    // Before the request: the run may read the text before the answer arrives.
    const after = page.messages.at(-1)?.seq ?? 0;
    const { run_id: runId } = await this.#client.sessions.steer(sessionId, text, options);
    this.#steers = [...this.#steers, { text, runId, after }];
  }

  /**
   * Call it after each `state` and `message` event. Forgets texts that `page` shows as read. Resolves with texts that come
   * back, each once. Never rejects: a run that the server cannot be asked about is asked about at the next call.
   */
  async settle(page: SessionPage, options?: CallOptions): Promise<string[]> {
    this.#forgetRead(page);
    const returned: string[] = [];
    for (const steer of this.#steers) {
      const state = await this.#stateOf(steer.runId, page, options);
      if (state === undefined || ACTIVE.has(state) || !this.#steers.includes(steer)) continue;
      this.#steers = this.#steers.filter((one) => one !== steer);
      if (STOPPED.has(state)) returned.push(steer.text);
    }
    return returned;
  }

  #forgetRead({ messages }: SessionPage): void {
    const taken = new Set<number>();
    const unread = this.#steers.filter(({ text, after }) => {
      const read = messages.find(
        ({ seq, role, content }) => role === "user" && seq > after && !taken.has(seq) && content === text,
      );
      if (read) taken.add(read.seq);
      return !read;
    });
    if (unread.length < this.#steers.length) this.#steers = unread;
  }

  /** Undefined while the server cannot be reached. The page shows the newest run only, and may be older than its state. */
  async #stateOf(runId: string, { state }: SessionPage, options?: CallOptions): Promise<RunState | undefined> {
    if (state?.run?.id === runId) return state.run.state;
    try {
      return (await this.#client.runs.get(runId, options)).state;
    } catch (error) {
      return error instanceof NotFoundError ? "interrupted" : undefined;
    }
  }
}
