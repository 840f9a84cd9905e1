import type { CallOptions } from "./connection.js";
import { NotFoundError } from "./errors.js";
import type { SessionMirror } from "./session-mirror.js";
import type { RunsApi, SessionsApi } from "./sessions.js";
import type { ApiRunState } from "../shapes.js";

/** A text that was sent to a running run. */
export interface PendingSteer {
  readonly text: string;
  readonly runId: string;
  /** `seq` of the newest message when the text was sent. */
  readonly after: number;
}

/**
 * End states of a run that never reads its remaining texts. After any other end, the server makes the unread texts the
 * session's next prompt.
 */
const STOPPED_STATES: ReadonlySet<ApiRunState> = new Set(["cancelled", "interrupted"]);
const ACTIVE_STATES: ReadonlySet<ApiRunState> = new Set(["queued", "running", "waiting"]);

/**
 * Texts that were sent to the runs of a session and are still unread. Texts of a stopped run are returned by `settle`.
 */
export class PendingSteers {
  readonly #client: { readonly sessions: SessionsApi; readonly runs: RunsApi };
  #steers: readonly PendingSteer[];

  /** `steers`: pending texts from an earlier `all` that the caller stored. */
  constructor(
    client: { readonly sessions: SessionsApi; readonly runs: RunsApi },
    steers: readonly PendingSteer[] = [],
  ) {
    this.#client = client;
    this.#steers = steers;
  }

  /** Pending texts, oldest first. The array stays the same object until a text is read or returned. */
  get all(): readonly PendingSteer[] {
    return this.#steers;
  }

  /**
   * Sends a text to the session's run and adds it to `all`. Rejects like `SessionsApi.steer`. Call `settle` afterwards.
   */
  async send(sessionId: string, text: string, mirror: SessionMirror, options?: CallOptions): Promise<void> {
    // Read before the request: the run may read the text before the answer arrives.
    const after = mirror.messages.at(-1)?.seq ?? 0;
    const { run_id: runId } = await this.#client.sessions.steer(sessionId, text, options);
    this.#steers = [...this.#steers, { text, runId, after }];
  }

  /**
   * Call this after each `state` and `message` event. Removes the texts that `mirror` contains as messages. Resolves
   * with the texts of stopped runs, each once. Never rejects: runs whose state is unavailable are checked again at the
   * next call.
   */
  async settle(mirror: SessionMirror, options?: CallOptions): Promise<string[]> {
    this.#removeReadSteers(mirror);
    const returnedTexts: string[] = [];
    for (const steer of this.#steers) {
      const state = await this.#fetchRunState(steer.runId, mirror, options);
      if (state === undefined || ACTIVE_STATES.has(state) || !this.#steers.includes(steer)) continue;
      this.#steers = this.#steers.filter((pendingSteer) => pendingSteer !== steer);
      if (STOPPED_STATES.has(state)) returnedTexts.push(steer.text);
    }
    return returnedTexts;
  }

  #removeReadSteers({ messages }: SessionMirror): void {
    const matchedSeqs = new Set<number>();
    const unreadSteers = this.#steers.filter(({ text, after }) => {
      const readMessage = messages.find(
        ({ seq, role, content }) => role === "user" && seq > after && !matchedSeqs.has(seq) && content === text,
      );
      if (readMessage) matchedSeqs.add(readMessage.seq);
      return !readMessage;
    });
    if (unreadSteers.length < this.#steers.length) this.#steers = unreadSteers;
  }

  /** Undefined if the request fails. Requests older runs from the server: the mirror has only the newest run. */
  async #fetchRunState(
    runId: string,
    { state }: SessionMirror,
    options?: CallOptions,
  ): Promise<ApiRunState | undefined> {
    if (state?.run?.id === runId) return state.run.state;
    try {
      return (await this.#client.runs.get(runId, options)).state;
    } catch (error) {
      // A deleted run never reads its texts.
      return error instanceof NotFoundError ? "interrupted" : undefined;
    }
  }
}
