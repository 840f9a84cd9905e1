import type { BusEvents, ModelPurpose } from "./bus-events.js";
import type { ModelRequest } from "./model-provider.js";
import type { ToolCall, ToolOutput } from "./tool.js";

/** A model call that is about to start. */
export interface ModelCall {
  readonly runId: string;
  /** The chain's first session. */
  readonly sessionId: string;
  readonly provider: string;
  readonly model: string;
  readonly purpose: ModelPurpose;
  readonly request: ModelRequest;
}

/**
 * Hooks of an embedder into a run. The run awaits each hook until the run is cancelled; `signal` aborts then. A hook
 * that throws blocks the guarded action.
 */
export interface Hooks {
  /** Called before an allowed call runs. An error denies the call; the model gets the error's message. */
  beforeToolCall?: ((call: ToolCall, signal: AbortSignal) => void | Promise<void>) | undefined;
  /**
   * Called after a call, also after a failed one. A returned value replaces the output. After an error, neither the
   * model nor clients get the output.
   */
  afterToolCall?:
    | ((
        call: ToolCall,
        output: ToolOutput,
        signal: AbortSignal,
      ) => ToolOutput | undefined | void | Promise<ToolOutput | undefined | void>)
    | undefined;
  /** Called once before a model call, independent of retries. An error ends the run with this error. */
  beforeModelCall?: ((call: ModelCall, signal: AbortSignal) => void | Promise<void>) | undefined;
}

/** Hooks and event listeners of an adapter. */
export interface HookSet extends Hooks {
  /**
   * Event listeners, called after the reported change like the listeners of `agent.on`. A listener cannot slow or fail
   * a run.
   */
  readonly listeners?: { readonly [E in keyof BusEvents]?: (event: BusEvents[E]) => void };
  /**
   * Called once after the agent has closed. Flushes buffered data and resolves when no resource is open. `signal` aborts
   * when the grace period of the stop ends; a few hundred ms remain then. Undefined: they remain from the call on.
   */
  close?(signal?: AbortSignal): void | Promise<void>;
}
