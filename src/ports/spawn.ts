import type { Budget, EndedBy } from "./budget.js";
import type { Usage } from "./usage.js";

/** What a tool call asks a helper for: an agent of its own, with a conversation of its own. */
export interface SpawnInput {
  /** What it is to do, with all that it must know: it sees nothing of the conversation that asks. */
  message: string;
  /** Names it for people, in a few words; the title of its session. */
  title: string;
  /** Names of the tools that it may use, of those that the asking run has; left out: all of these. Never the asking tool, and none that is of use only to people. */
  tools?: readonly string[] | undefined;
  /** Whether it may use those alone that change nothing. Default false. */
  readOnly?: boolean | undefined;
  /** Of its own; what it spends counts in the budgets of whoever asks too. */
  budget?: Budget | undefined;
  /** Model calls of its own; the agent's limit stands beside it, and the smaller counts. */
  maxIterations?: number | undefined;
}

/** How a helper ended. */
export interface HelperResult {
  /** Its last answer. */
  output: string;
  endedBy: EndedBy;
  /** Of all its model calls; counted in the asking run already. */
  usage: Usage;
  iterations: number;
}

/** A helper under way. It ends with the call that asked for it. */
export interface Helper {
  readonly runId: string;
  /** Its session, which tells of itself who asked for it. */
  readonly sessionId: string;
  /** Rejects as `Run.result`. */
  readonly result: Promise<HelperResult>;
}
