import type { AskReply } from "./ask.js";
import type { Budget, EndedBy } from "./budget.js";
import type { AgentEvent } from "./events.js";
import type { Holder } from "./holder.js";
import type { FilePart, ImagePart } from "./message.js";
import type { FinishReason, Model, ReasoningEffort } from "./model-provider.js";
import type { SessionMode } from "./session.js";
import type { AskAnswer, AskRequest, JsonSchema, Tool } from "./tool.js";
import type { ToolServer } from "./mcp-server.js";
import type { ToolSource } from "./tool-source.js";
import type { Usage } from "./usage.js";

export type { Budget } from "./budget.js";

/** What a run is asked to do. */
export interface RunInput {
  /** The prompt; not empty, unless there are attachments, or `compact` is true. */
  message: string;
  /**
   * Compact the session's conversation, and do nothing else: the model answers nothing, and `message` is not said but names
   * what to keep. Needs `sessionId`. Not worth it for some hundred tokens, which stay as they are.
   */
  compact?: boolean | undefined;
  /** Whether a message `/name words` stands for what `Agent.commands` lists under that name; default false. What is no name of these is said as it is. */
  commands?: boolean | undefined;
  attachments?: readonly (ImagePart | FilePart)[] | undefined;
  /**
   * Reads further attachments once the run is counted and holds its session. It reserves the bytes of each before it
   * reads it; `reserve` throws `TooManyRunsError` when attachments of all runs together would take too much memory.
   */
  attach?: ((reserve: (bytes: number) => void) => Promise<readonly (ImagePart | FilePart)[]>) | undefined;
  /** Provider and model; see `Models.resolve` for what is left out or unknown. */
  provider?: string | undefined;
  model?: string | undefined;
  /** Left out: the session's own, then the configured one. */
  reasoningEffort?: ReasoningEffort | undefined;
  /** The session's from this run on; left out: as it is. */
  mode?: SessionMode | undefined;
  /** Of this run; the agent's own stands beside it, and the smaller counts. */
  budget?: Budget | undefined;
  /** JSON Schema of the answer: `RunResult.structured` is a value that it holds true of. */
  outputSchema?: JsonSchema | undefined;
  /** Resume this session (id or alias; of a chain any id: its newest goes on). Left out: a new session. */
  sessionId?: string | undefined;
  /** Absolute path of the folder where this run's tools run; default the session's, which is that of its first run. */
  projectDir?: string | undefined;
  /** Further folders that this run's file tools and commands may use, beside that one; absolute paths. */
  folders?: readonly string[] | undefined;
  /** What is added to the system prompt, in place of the agent's `systemPrompt`; `""`: nothing. The project's instructions stay. */
  systemPrompt?: string | undefined;
  /** What its model may call, in place of the agent's tools; an empty list: nothing. Distinct names. A source that is none of the agent's is closed with the run. */
  tools?: readonly (Tool | ToolSource)[] | undefined;
  /** Servers whose tools its model may call beside those; opened by the agent's `toolServers`. `InputError` where there are none, or one may not be had. */
  servers?: readonly ToolServer[] | undefined;
  /** The one way to cancel. */
  signal?: AbortSignal | undefined;
  /**
   * Whether to wait in line for a session in which a run is under way, in place of `SessionBusyError`: as it was asked for,
   * whichever process of the store asked. It is stored meanwhile, and takes no place of `concurrentRuns`. Default false.
   */
  queue?: boolean | undefined;
  /** Hears, when a run waits in line and whenever that changes, how many are before it, the one under way included, and how it is stored. */
  onQueued?: ((ahead: number, run: RunRecord) => void) | undefined;
  /** Hears each second, while there is no model for the run yet, why: what each provider said last. */
  onWaiting?: ((why: string) => void) | undefined;
  /**
   * What happens to `token` events that nobody takes. `drop` (the default): beyond 256 events adjacent ones are joined,
   * and of a reader that stays behind for a second the oldest are dropped. `merge`: adjacent ones are joined, none is lost.
   */
  overflow?: "drop" | "merge" | undefined;
  /**
   * The person at this door: answers a tool that needs permission, and its questions; others may be faster, the signal
   * aborts then. Without it tools run, unless the session's mode or the agent's policy says otherwise. Only an exact
   * `allow` or `allow_always` lets a tool run; a rejection says that nobody can be asked here.
   */
  ask?: ((request: AskRequest, signal: AbortSignal) => Promise<AskAnswer | AskReply>) | undefined;
  /**
   * Whether tools that need permission ask at this door in a session whose mode is `auto` too. Default true; `false`:
   * there it is asked only what a rule or a policy wants, and what tools want to know.
   */
  asksInAuto?: boolean | undefined;
  /**
   * Whether somebody is there who answers by another way, as those who watch with `answers` are; asked when the run
   * begins, and whenever it has a question.
   */
  attended?: (() => boolean) | undefined;
  /**
   * Names the run for whoever asks again: a second run with the same key is refused with `RunKeyTakenError` for a day,
   * and `Runs.list` finds the first. What it answers is stored with it.
   */
  key?: string | undefined;
  /** Of all that was asked, so that another question under the same key can be told apart. */
  fingerprint?: string | undefined;
  /** Names the door in what is stored of its answers; default `sdk`. */
  askedAt?: string | undefined;
}

/** How a run ended. */
export interface RunResult {
  /** Text of the last answer; of one that broke off and was gone on with, all of it. */
  output: string;
  /** The value of the answer, where `outputSchema` asked for one. */
  structured?: unknown;
  /** Sum over all model calls of the run. */
  usage: Usage;
  /** Model calls of the main loop. */
  iterations: number;
  finishReason: FinishReason;
  endedBy: EndedBy;
  /** The chain's first session. */
  sessionId: string;
  /** Of the last model call: prompt and completion tokens, and the model's window where it is known. */
  context: { used: number; size: number | undefined };
  /** The session's usage so far, this run included. */
  sessionUsage: Usage;
}

/** One run, already going. Await `result` for the truth; iterate, once, for telemetry. */
export interface Run extends AsyncIterable<AgentEvent> {
  /** Names the run on the bus and in the log. */
  readonly id: string;
  /** The chain's first session. */
  readonly sessionId: string;
  readonly provider: string;
  readonly model: Model;
  /** Greatest `seq` of the session before it: the messages behind that, up to `lastSeq`, are its own. */
  readonly after: number;
  /** Greatest `seq` of the messages that it has stored so far, or is about to. */
  readonly lastSeq: number;
  /** `token` events dropped so far because the reader was too slow. */
  readonly dropped: number;
  /** Rejects with `ProviderError`, `RepeatedCallsError`, `RunCancelledError`, `ShuttingDownError`, `StoreError`, `LeaseLostError` or `SessionNotFoundError` (deleted meanwhile); by then all is stored. */
  readonly result: Promise<RunResult>;
}

/**
 * What became of a run. `queued`: it waits in line for its session. `waiting`: for a person's answer. `interrupted`: its
 * process died before it could write its end; told of a stored one of these, or `running`, that nobody goes on with any
 * more, and stored by the chain's next run.
 */
export type RunState = "queued" | "running" | "waiting" | "finished" | "failed" | "cancelled" | "interrupted";

/** Something that somebody outside asks of a run, or of the run that a chain has then. */
export interface Instruction {
  /** Unique in the store. */
  id: string;
  /** The chain's first session. */
  sessionId: string;
  runId: string;
  /** `cancel`: end it. `steer`: read `text` as the user's, before its model is asked again. */
  kind: "cancel" | "steer";
  /** Of a cancel `""`. */
  text: string;
  /** ISO 8601 UTC. */
  createdAt: string;
}

/** What came of a run that was begun under a key, so that whoever asks again is told the same. */
export interface RunAnswer {
  output: string;
  finishReason: FinishReason;
  /** Where an answer of a certain form was asked for. */
  structured?: unknown;
}

/** A run as the store knows it. Written with its prompt, and again with its end. */
export interface RunRecord {
  /** Unique in the store. */
  id: string;
  /** The chain's first session. */
  sessionId: string;
  /** The caller's own name for it, so that what is asked twice is done once; unique in the store, `""` for none. */
  key: string;
  /** Greatest `seq` of the chain before it: what was said behind that is its own, up to the next run's. */
  after: number;
  /** Of what was asked under the key, so that another question under it is told apart; `""` for none. */
  fingerprint: string;
  state: RunState;
  /** ISO 8601 UTC. Of one in line, or that left it without having begun, when it was asked for. */
  startedAt: string;
  /** `""` while it goes on. */
  endedAt: string;
  provider: string;
  model: string;
  /** Of this run alone. */
  usage: Usage;
  /** Model calls of the main loop. */
  iterations: number;
  /** `""` unless it finished. */
  endedBy: RunResult["endedBy"] | "";
  /** Of one that failed, as clients are told; null of all others. */
  error: { code: string; message: string } | null;
  /** Of one in line, or that left it without having begun, who waits, and until when (ISO 8601 UTC) that is to be believed; null of all that began. */
  line: { holder: Holder; until: string } | null;
  /** While it waits to ask its model again; null otherwise. */
  retry: { attempt: number; at: string; reason: string } | null;
  /** Of one that finished and has a key, or an answer of a certain form; null of all others. */
  answer: RunAnswer | null;
}
