import type { PromptUse } from "./agent-options.js";
import type { AskReply } from "./ask.js";
import type { Budget, EndedBy, Usage } from "./usage.js";
import type { AgentEvent } from "./events.js";
import type { LeaseHolder } from "./holder.js";
import type { FilePart, ImagePart } from "./message.js";
import type { FinishReason, Model, ReasoningEffort } from "./model-provider.js";
import type { SessionMode } from "./session.js";
import type { PermissionDecision, AskRequest, JsonSchema, Tool } from "./tool.js";
import type { McpServer } from "./mcp-server.js";
import type { ToolSource } from "./tool-source.js";

export type { Budget } from "./usage.js";

/** Input of a run. */
export interface RunInput {
  /** The prompt. Must not be empty, unless there are attachments, or `compact` or `retry` is true. */
  message: string;
  /**
   * Whether only to compact the session's conversation. The model gives no answer; `message` is not added to the
   * conversation but states what to keep. Requires `sessionId`. A conversation of a few hundred tokens stays unchanged.
   */
  compact?: boolean | undefined;
  /**
   * Replaces earlier messages: hides a message and all later ones, then adds `message`, under one lease. If the run does
   * not start, nothing is hidden. Requires `sessionId`. Undefined: nothing is hidden.
   */
  rewind?: RunRewind | undefined;
  /**
   * Whether to continue a last run that failed, was cancelled or was interrupted, without another prompt. Finished tool
   * calls keep their results; an answer that broke off is hidden. `message` must be empty. Requires `sessionId`.
   */
  retry?: boolean | undefined;
  /**
   * Whether a message `/name words` is replaced by the command of that name from `Agent.commands`. Default false.
   * Unknown names are sent unchanged.
   */
  commands?: boolean | undefined;
  attachments?: readonly (ImagePart | FilePart)[] | undefined;
  /**
   * Loads further attachments after the run is counted and holds its session. The function calls `reserve` with the
   * bytes of each attachment before it reads the attachment. `reserve` throws `TooManyRunsError` if the attachments of
   * all runs exceed the memory limit.
   */
  attach?: ((reserve: (bytes: number) => void) => Promise<readonly (ImagePart | FilePart)[]>) | undefined;
  /** Provider and model. `Models.resolve` defines the handling of absent and unknown values. */
  provider?: string | undefined;
  model?: string | undefined;
  /** Default: the session's effort, then the configured effort. */
  reasoningEffort?: ReasoningEffort | undefined;
  /** New mode of the session from this run on. Undefined: unchanged. */
  mode?: SessionMode | undefined;
  /** Budget of this run. The agent's own budget also applies; the lower limit counts. */
  budget?: Budget | undefined;
  /** JSON Schema of the answer. `RunResult.structured` is a value that fits it. */
  outputSchema?: JsonSchema | undefined;
  /**
   * The session to resume, by id or alias. Any id of a chain resumes the chain's newest session. Undefined: a new
   * session.
   */
  sessionId?: string | undefined;
  /** Absolute path of the folder in which this run's tools work. Default: that of the session, set by its first run. */
  projectDir?: string | undefined;
  /**
   * Whether the new session works in a Git worktree of `projectDir`, which `AgentOptions.worktrees` creates. Default
   * false. Not with `sessionId`.
   */
  worktree?: boolean | undefined;
  /** Further folders, besides `projectDir`, for this run's file tools and commands. Absolute paths. */
  folders?: readonly string[] | undefined;
  /**
   * Addition to the system prompt, instead of the agent's `systemPrompt`. `""`: no addition. The project's instructions
   * stay.
   */
  systemPrompt?: string | undefined;
  /** Use of the system prompt: added to the built-in instructions, or instead of them. Default: the agent's. */
  promptUse?: PromptUse | undefined;
  /**
   * Tools for the model, instead of the agent's tools. Names must be distinct. An empty list: no tools. A source that
   * does not belong to the agent is closed with the run.
   */
  tools?: readonly (Tool | ToolSource)[] | undefined;
  /**
   * MCP servers with further tools for the model, opened by the agent's `mcpServerFactory`. `InputError` if the agent
   * has no factory or a server is not allowed.
   */
  mcpServers?: readonly McpServer[] | undefined;
  signal?: AbortSignal | undefined;
  /**
   * Whether to queue the run if another run holds the session, instead of failing with `SessionBusyError`. Order: time
   * of the request, across all processes of the store. A queued run is stored and does not count for `concurrentRuns`.
   * Default false.
   */
  queue?: boolean | undefined;
  /**
   * Called while the run is queued, at first and after each change. `runsAhead` includes the active run; `run` is the
   * stored record.
   */
  onQueued?: ((runsAhead: number, run: RunRecord) => void) | undefined;
  /** Called every second while no model is available for the run, with the last error of each provider. */
  onWaiting?: ((reason: string) => void) | undefined;
  /**
   * Handling of undelivered `token` events. `drop` (the default): beyond 256 events adjacent ones are merged, and a
   * reader that lags for a second loses the oldest. `merge`: adjacent events are merged and none is lost.
   */
  overflow?: "drop" | "merge" | undefined;
  /**
   * Requests an answer from the person at this client: a permission decision, or a reply to a tool's question. `signal`
   * aborts if another client answers first.
   *
   * Without `ask`, tools run unless the session's mode or the agent's policy forbids it. Only exactly `allow` or
   * `allow_always` lets a tool run. A rejection of the promise means that no person can be asked here.
   */
  ask?: ((request: AskRequest, signal: AbortSignal) => Promise<PermissionDecision | AskReply>) | undefined;
  /**
   * Whether tools that need permission ask this client even in sessions with mode `auto`. Default true. `false`: in
   * mode `auto` the client gets only questions of tools and asks of a rule or a policy.
   */
  alwaysAsk?: boolean | undefined;
  /**
   * Whether a person can answer through another client, such as a watcher with `canAnswer`. Called at the start of the
   * run and for each ask.
   */
  hasResponder?: (() => boolean) | undefined;
  /**
   * Idempotency key. For a day, a second run with the same key is rejected with `RunKeyTakenError`; `Runs.list` finds
   * the first run. If that run was interrupted, the second run continues it in place, with its id, its prompt and its
   * finished tool calls. The answer is stored with the run.
   */
  idempotencyKey?: string | undefined;
  /** Hash of the request, to detect a different request with the same key. */
  fingerprint?: string | undefined;
  /** Client name, stored with the answers that it gives. Default `sdk`. */
  clientName?: string | undefined;
  /** Name of the user who starts the run, stored with it, and as the owner of a new session. Set by `Agent.forUser`. */
  user?: string | undefined;
  /**
   * Fields of each log line of the run and its subagents, besides `run`, `session` and `client`. Transports set
   * `request`, the id of the request. A field `client` replaces `clientName`.
   */
  logFields?: Readonly<Record<string, string>> | undefined;
  /**
   * Trace context of the caller, in the form of the header `traceparent` (W3C). Passed to the listeners of
   * `run.started`. An invalid value has no effect.
   */
  trace?: string | undefined;
}

/** The messages that a run replaces. */
export interface RunRewind {
  /** Id of the first message to hide. */
  before: string;
  /** Whether to restore the files that tools changed since. Default false. */
  files?: boolean | undefined;
  /** With `files`: whether to overwrite files changed outside the session. Default false. */
  force?: boolean | undefined;
}

/** Result of a successful run. */
export interface RunResult {
  /** Text of the final answer, including the text before an interruption. */
  output: string;
  /** Value of the answer; set only with `outputSchema`. */
  structured?: unknown;
  /** Sum over all model calls of the run. */
  usage: Usage;
  /** Model calls of the main loop. */
  iterations: number;
  finishReason: FinishReason;
  endedBy: EndedBy;
  /** The chain's first session. */
  sessionId: string;
  /** The last model call: its prompt and completion tokens, and the model's context window if known. */
  context: { used: number; size: number | undefined };
  /** Usage of the session so far, including this run. */
  sessionUsage: Usage;
}

/** A run that has started. Await `result` for the outcome; iterate, only once, for telemetry. */
export interface Run extends AsyncIterable<AgentEvent> {
  /** Identifies the run on the bus and in the log. */
  readonly id: string;
  /** The chain's first session. */
  readonly sessionId: string;
  readonly provider: string;
  readonly model: Model;
  /** Greatest `seq` of the session before this run. The run's own messages follow it, up to `lastSeq`. */
  readonly after: number;
  /** Greatest `seq` of the messages that the run has stored or is about to store. */
  readonly lastSeq: number;
  /** Number of `token` events dropped because the reader was too slow. */
  readonly droppedTokenEvents: number;
  /**
   * Rejects with `ProviderError`, `RepeatedCallsError`, `RunCancelledError`, `ShuttingDownError`, `StoreError`,
   * `LeaseLostError` or `SessionNotFoundError` (deleted meanwhile). All data is stored before the rejection.
   */
  readonly result: Promise<RunResult>;
}

/**
 * State of a run. `queued`: the run waits for its session. `waiting`: the run waits for a person's answer.
 * `interrupted`: its process died before the end was written. Readers report `interrupted` for a stored run that no
 * live process continues. The chain's next run stores that state.
 */
export type RunState = "queued" | "running" | "waiting" | "finished" | "failed" | "cancelled" | "interrupted";

/** An instruction from outside for a run, or for the chain's current run. */
export interface Instruction {
  /** Unique in the store. */
  id: string;
  /** The chain's first session. */
  sessionId: string;
  runId: string;
  /**
   * - `cancel`: end the run.
   * - `steer`: add `text` as a user message before the next model call.
   * - `background`: move the tool call with the id `text` to the background, or all running calls if `text` is `""`.
   */
  kind: "cancel" | "steer" | "background";
  /** `""` for `cancel`. */
  text: string;
  createdAt: string;
}

/** The answer of a run with an idempotency key. A repeated request gets the same answer. */
export interface RunAnswer {
  output: string;
  finishReason: FinishReason;
  /** Set if the run had an output schema. */
  structured?: unknown;
}

/** A run as stored. Written with its prompt, and again at its end. */
export interface RunRecord {
  /** Unique in the store. */
  id: string;
  /** The chain's first session. */
  sessionId: string;
  /** The caller's key for the run, so that a repeated request runs once. Unique in the store; `""` for none. */
  idempotencyKey: string;
  /** Greatest `seq` of the chain before the run. The run's own messages follow it, up to the next run's. */
  after: number;
  /** Hash of the request, to detect a different request with the same key. `""` for none. */
  fingerprint: string;
  /** `RunInput.user`. Undefined: no user. */
  user?: string;
  state: RunState;
  /** ISO 8601 UTC. The time of the request for a queued run, and for a run that left the queue without starting. */
  startedAt: string;
  /** `""` until the run ends. */
  endedAt: string;
  provider: string;
  model: string;
  /** Usage of this run only. */
  usage: Usage;
  /** Model calls of the main loop. */
  iterations: number;
  /** `""` unless the run finished. */
  endedBy: RunResult["endedBy"] | "";
  /** Error of a failed run, in the form sent to clients; null otherwise. */
  error: { code: string; message: string } | null;
  /**
   * For a queued run, and one that left the queue without starting: the waiting process, and the time (ISO 8601 UTC)
   * until which its entry is valid. Null for runs that started.
   */
  queueLease: { holder: LeaseHolder; expiresAt: string } | null;
  /** Set while the run waits for the next attempt of a model call; null otherwise. */
  retry: { attempt: number; nextAttemptAt: string; reason: string } | null;
  /** Set for a finished run with a key or an output schema; null otherwise. */
  answer: RunAnswer | null;
}
