import type { BusEvent, BusListener, Run, RunInput } from "./events.js";
import type { Logger } from "./ports/logger.js";
import type { Model, ModelProvider } from "./ports/model-provider.js";
import type {
  Message,
  ReasoningEffort,
  Session,
  SessionDriver,
  SessionPage,
  SessionQuery,
} from "./ports/session-driver.js";
import type { Tool, ToolSpec } from "./ports/tool.js";

/** SKELETON: the public face, being filled in. */
export interface AgentOptions {
  providers: readonly ModelProvider[];
  /** Default: sessions in memory, gone with the process. */
  driver?: SessionDriver;
  tools?: readonly Tool[];
  /** Absolute path; default the working directory. */
  projectDir?: string;
  /** Added to the system prompt. */
  systemPrompt?: string;
  maxIterations?: number;
  maxConcurrentRuns?: number;
  preferred?: { provider?: string; model?: string; reasoningEffort?: ReasoningEffort };
  /** How long a run waits for a model to be found, in ms; default 30,000. */
  modelTimeoutMs?: number;
  logger?: Logger;
}
/** A model on offer, and whose it is. */
export interface ModelEntry {
  provider: string;
  model: Model;
}
export interface AgentModels {
  /** All models of all providers. Waits for the first sync (at most 30 s); providers that fail are left out. Never rejects but for `signal`. */
  list(signal?: AbortSignal): Promise<ModelEntry[]>;
  /** What is known now, without waiting: configured, cached and synced ones. */
  known(): ModelEntry[];
}
export interface AgentSessions {
  /** A session without a run. `title` default `New Session <timestamp>`. Rejects `ProjectFolderError`, `SessionExistsError` (alias). */
  create(input: { projectDir?: string; title?: string; alias?: string }): Promise<Session>;
  /** By id or alias. */
  get(id: string): Promise<Session | undefined>;
  list(query: SessionQuery): Promise<SessionPage>;
  /** Ascending `seq`. `view: "all"` (default): the whole conversation of the chain, each message as it was said, once. `view: "model"`: what the model now sees. Rejects `SessionNotFoundError`. */
  messages(
    id: string,
    options?: { view?: "all" | "model"; after?: number; before?: number; limit?: number },
  ): Promise<Message[]>;
  /** Choose the pair and effort for the session's next runs. Rejects `SessionNotFoundError`. */
  update(
    id: string,
    fields: { title?: string; provider?: string; model?: string; reasoningEffort?: ReasoningEffort },
  ): Promise<Session>;
  /** Its running prompt, here or in another process, is cancelled; the whole chain goes. Rejects `SessionNotFoundError`. */
  delete(id: string): Promise<void>;
}
export declare class Agent {
  constructor(options: AgentOptions);
  /** `orchestrator` */
  readonly name: string;
  readonly version: string;
  readonly projectDir: string;
  readonly tools: readonly ToolSpec[];
  readonly sessions: AgentSessions;
  readonly models: AgentModels;
  /**
   * Start a run. Rejects before anything is stored or asked with: InputError, SessionNotFoundError, SessionBusyError,
   * ProjectFolderError, ModelSelectionError, ModelTimeoutError, TooManyRunsError, ShuttingDownError, StoreError,
   * or RunCancelledError when the signal aborts meanwhile. Resolves with a run that is already going.
   */
  run(input: RunInput): Promise<Run>;
  /** Listen on the bus; the returned function ends it. */
  on<E extends BusEvent>(event: E, listener: BusListener<E>): () => void;
  /** Refuse new runs from now on (ShuttingDownError). */
  refuseNew(): void;
  /** Refuse new runs; cancel those under way with ShuttingDownError, wait for them, close driver and providers. Safe to call twice. */
  close(): Promise<void>;
}
