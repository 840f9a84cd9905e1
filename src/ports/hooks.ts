import type { BusEvents, ModelPurpose } from "./bus-events.js";
import type { ModelRequest } from "./model-provider.js";
import type { ToolCall, ToolOutput } from "./tool.js";

/** A question that is about to be put to a model. */
export interface ModelCall {
  readonly runId: string;
  /** The chain's first session. */
  readonly sessionId: string;
  readonly provider: string;
  /** Its id. */
  readonly model: string;
  /** What the answer is for. */
  readonly purpose: ModelPurpose;
  readonly request: ModelRequest;
}

/**
 * Where an embedder has a word in a run. Each is awaited, and no longer than until the run is cancelled; `signal` aborts
 * then. One that throws keeps closed what it guards.
 */
export interface Hooks {
  /** Before a call runs that was allowed. A throw refuses it; its message is told to the model. */
  beforeToolCall?: ((call: ToolCall, signal: AbortSignal) => void | Promise<void>) | undefined;
  /** After it ran, well or not. What it returns takes the place of the output; a throw keeps the output from everyone. */
  afterToolCall?:
    | ((
        call: ToolCall,
        output: ToolOutput,
        signal: AbortSignal,
      ) => ToolOutput | undefined | void | Promise<ToolOutput | undefined | void>)
    | undefined;
  /** Before a model is asked, once however often that is tried again. A throw ends the run with its error. */
  beforeModelCall?: ((call: ModelCall, signal: AbortSignal) => void | Promise<void>) | undefined;
}

/** Hooks and event listeners of an adapter. */
export interface HookSet extends Hooks {
  /** Called after the fact, by event, as listeners of `agent.on`: none can slow or fail a run. */
  readonly listeners?: { readonly [E in keyof BusEvents]?: (event: BusEvents[E]) => void };
  /** Called once, after the agent has closed. Sends what is buffered, and resolves when nothing is open. */
  close?(): void | Promise<void>;
}
