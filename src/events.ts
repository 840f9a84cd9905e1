import type { FinishReason, Model } from "./ports/model-provider.js";
import type { FilePart, ImagePart, ReasoningEffort, Session, Usage } from "./ports/session-driver.js";
import type { AskAnswer, AskRequest, Diff, Location, ToolKind } from "./ports/tool.js";

/** What a run tells while it goes. Telemetry: under backpressure `token` events may be dropped or joined, others never. */
export type AgentEvent =
  | {
      type: "token";
      agentId: string;
      agentName: string;
      /** Id of the stored message that grows. */
      messageId: string;
      /** One of the two. */
      text?: string;
      reasoning?: string;
    }
  | {
      /** Stored, and about to run. */
      type: "tool_call";
      messageId: string;
      callId: string;
      name: string;
      /** JSON text as the model gave it. */
      arguments: string;
      /** Parsed; undefined when it is broken JSON. */
      input: unknown;
      title: string;
      kind: ToolKind;
      locations: readonly Location[];
    }
  | {
      type: "tool_result";
      /** Id of the stored tool message. */
      messageId: string;
      callId: string;
      name: string;
      output: string;
      failed: boolean;
      parts: readonly (ImagePart | FilePart)[];
      diff: readonly Diff[];
      locations: readonly Location[];
    }
  | {
      type: "compaction";
      strategy: string;
      /** Messages that the model now sees. */
      messages: number;
      /** Prompt tokens before. */
      tokens: number;
    }
  | {
      /** A model call failed and is made again. What had been said of the answer stays; the tokens that follow go on from there. */
      type: "retry";
      /** From 1, within one answer. */
      attempt: number;
      delayMs: number;
      error: Error;
      /** The stored message that broke off; `""` when nothing of the answer was said. */
      messageId: string;
    }
  /** Last event of a run that succeeded. */
  | { type: "done"; usage: Usage }
  /** Last event of one that did not; the same as `Run.result` rejects with. */
  | { type: "error"; error: Error };

/** What a run is asked to do. */
export interface RunInput {
  /** The prompt; not empty, unless there are attachments. */
  message: string;
  attachments?: readonly (ImagePart | FilePart)[];
  /**
   * Reads further attachments once the run is counted and holds its session. It reserves the bytes of each before it
   * reads it; `reserve` throws `TooManyRunsError` when attachments of all runs together would take too much memory.
   */
  attach?: (reserve: (bytes: number) => void) => Promise<readonly (ImagePart | FilePart)[]>;
  /** Provider and model; see `Models.resolve` for what is left out or unknown. */
  provider?: string;
  model?: string;
  /** Left out: the session's own, then the configured one. */
  reasoningEffort?: ReasoningEffort;
  /** Resume this session (id or alias; of a chain any id: its newest goes on). Left out: a new session. */
  sessionId?: string;
  /** Absolute path of the folder where this run's tools run; default the session's, which is that of its first run. */
  projectDir?: string;
  /** The one way to cancel. */
  signal?: AbortSignal;
  /** Hears each second, while there is no model for the run yet, why: what each provider said last. */
  onWaiting?: (why: string) => void;
  /**
   * What happens to `token` events that nobody takes. `drop` (the default): beyond 256 events adjacent ones are joined,
   * and of a reader that stays behind for a second the oldest are dropped. `merge`: adjacent ones are joined, none is lost.
   */
  overflow?: "drop" | "merge";
  /** Answers a tool that needs leave; without it tools run. Only an exact `allow` or `allow_always` lets one run; a rejection says that nobody could be asked. */
  ask?: (request: AskRequest, signal: AbortSignal) => Promise<AskAnswer>;
}

/** How a run ended. */
export interface RunResult {
  /** Text of the last answer; of one that broke off and was gone on with, all of it. */
  output: string;
  /** Sum over all model calls of the run. */
  usage: Usage;
  /** Model calls of the main loop. */
  iterations: number;
  finishReason: FinishReason;
  endedBy: "model" | "max_iterations";
  /** The chain's first session. */
  sessionId: string;
  /** Of the last model call: prompt and completion tokens, and the model's window where it is known. */
  context: { used: number; size: number | undefined };
  /** The session's usage so far, this run included. */
  sessionUsage: Usage;
}

/** One run, already going. Await `result` for the truth; iterate, once, for telemetry. */
export interface Run extends AsyncIterable<AgentEvent> {
  /** The chain's first session. */
  readonly sessionId: string;
  readonly provider: string;
  readonly model: Model;
  /** `token` events dropped so far because the reader was too slow. */
  readonly dropped: number;
  /** Rejects with `ProviderError`, `RepeatedCallsError`, `RunCancelledError`, `ShuttingDownError`, `StoreError`, `LeaseLostError` or `SessionNotFoundError` (deleted meanwhile); by then all is stored. */
  readonly result: Promise<RunResult>;
}

/** Events on the kernel's bus. Listeners are told after the fact; none can slow or fail a run. */
export interface BusEvents {
  "session.created": { session: Session };
  "session.resume": { sessionId: string; rootId: string };
  "session.updated": { sessionId: string; fields: readonly string[]; session: Session };
  "session.compacted": { rootId: string; from: string; to: string; strategy: string };
  "session.forked": { from: string; to: string };
  "session.reverted": { sessionId: string; snapshotId: string };
  "session.deleted": { ids: readonly string[] };
  "run.started": { sessionId: string; provider: string; model: string };
  "run.finished": { sessionId: string; result: RunResult };
  "run.failed": { sessionId: string; error: Error };
  /** `title`: of no run, so that it counts neither to one nor to its session. */
  "model.called": {
    sessionId: string;
    provider: string;
    model: string;
    usage: Usage;
    purpose: "answer" | "summary" | "title";
  };
  "model.retried": {
    sessionId: string;
    provider: string;
    model: string;
    attempt: number;
    delayMs: number;
    error: Error;
    /** The stored message that broke off; `""` when nothing of the answer was said. */
    messageId: string;
  };
  "tool.started": { sessionId: string; callId: string; name: string };
  "tool.finished": { sessionId: string; callId: string; name: string; failed: boolean };
}

export type BusEvent = keyof BusEvents;

const NAMES: Readonly<Record<BusEvent, true>> = {
  "session.created": true,
  "session.resume": true,
  "session.updated": true,
  "session.compacted": true,
  "session.forked": true,
  "session.reverted": true,
  "session.deleted": true,
  "run.started": true,
  "run.finished": true,
  "run.failed": true,
  "model.called": true,
  "model.retried": true,
  "tool.started": true,
  "tool.finished": true,
};
/** Every event that there is. */
export const BUS_EVENTS = Object.keys(NAMES) as readonly BusEvent[];
export type BusListener<E extends BusEvent> = (event: BusEvents[E]) => void;

/** The typed bus. A listener that throws is reported and changes nothing. */
export class Bus {
  readonly #listeners = new Map<BusEvent, Set<(event: never) => void>>();
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** Listen; the returned function ends it. */
  on<E extends BusEvent>(event: E, listener: BusListener<E>): () => void {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  emit<E extends BusEvent>(event: E, payload: BusEvents[E]): void {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      try {
        (listener as BusListener<E>)(payload);
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}
