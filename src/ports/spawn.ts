import type { Budget, EndedBy, Usage } from "./usage.js";

/** Task of a subagent: an agent with its own conversation, started by a tool call. */
export interface SpawnInput {
  /** The task with all needed information. The subagent sees nothing of the parent's conversation. */
  message: string;
  /** Short name for people; the title of the subagent's session. */
  title: string;
  /**
   * Names of allowed tools, out of the parent run's tools. Default: all of them. The spawning tool and tools that need
   * a user are never included.
   */
  tools?: readonly string[] | undefined;
  /** Whether only tools that change nothing are allowed. Default false. */
  readOnly?: boolean | undefined;
  /** Budget of the subagent. The subagent's usage also counts in the budgets of the parent run. */
  budget?: Budget | undefined;
  /** Maximum model calls of the subagent. The agent's own limit also applies; the lower one counts. */
  maxIterations?: number | undefined;
}

/** Result of a subagent. */
export interface SubagentResult {
  /** Text of the subagent's final answer. */
  output: string;
  endedBy: EndedBy;
  /** Usage of the subagent's model calls; already counted in the parent run. */
  usage: Usage;
  iterations: number;
}

/** A running subagent. Ends at the latest with the tool call that started it. */
export interface Subagent {
  readonly runId: string;
  /** The subagent's own session; its `spawnedBy` names the parent. */
  readonly sessionId: string;
  /** Rejects like `Run.result`. */
  readonly result: Promise<SubagentResult>;
}
