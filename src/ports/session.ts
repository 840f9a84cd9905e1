import type { ReasoningEffort } from "./model-provider.js";
import type { Usage } from "./usage.js";

/** A follow-up session belongs to the chain of its `root`; an original is its own root, with index 0. */
export interface ChainLink {
  root: string;
  index: number;
}

/** A point that a reverted session can be restored to. */
export interface Snapshot {
  id: string;
  /** Messages with a greater `seq` were cut. */
  after: number;
  createdAt: string;
}

/**
 * How free a session's tools are. `auto`: they run. `ask`: those that need permission wait for a person. `plan`: nothing
 * runs that changes anything.
 */
export type SessionMode = "auto" | "ask" | "plan";

/** Leave that a person gave for good, for the tool calls of one session. */
export interface Leave {
  /** Name of the tool. */
  tool: string;
  /** What it may do: the calls that are alike, in a form that is compared whole. */
  what: string;
  /** As people read it. */
  title: string;
  /** By which door it was given. */
  by: string;
  /** ISO 8601 UTC. */
  at: string;
}

/** The tool call that a session was made for: one of a helper, which another session's run asked for help. */
export interface SpawnedBy {
  /** The first session of the asking run's chain. */
  sessionId: string;
  runId: string;
  callId: string;
}

/** One conversation, or one link of it: what a store keeps beside its messages. */
export interface Session {
  id: string;
  /** A second id that finds this session (the ACP id); `""` for none. Unique in the store, over ids too. */
  alias: string;
  title: string;
  /** Whether `title` was generated (or given by a person), so that no generator touches it again. */
  titled: boolean;
  /** The pair last used; `""` before the first run. */
  provider: string;
  model: string;
  reasoningEffort: ReasoningEffort;
  mode: SessionMode;
  /** Oldest first. */
  leave: readonly Leave[];
  /**
   * For each revert and each restore, in order: the `seq` up to which the conversation stayed what it was. Tells a reader
   * who saw so many of them what is void of what they have.
   */
  cuts: readonly number[];
  /** Absolute path. */
  projectDir: string;
  /** The session that this one was forked from; `""` for none. */
  parentId: string;
  /** Of a helper's, the call that asked for it; null of all others. Set when the session is made, and never changed. */
  spawnedBy: SpawnedBy | null;
  chain: ChainLink;
  /**
   * Greatest `seq` ever used in the chain up to this session; 0 when there is no message. Kept by the driver. A cut or a
   * restore raises that of the chain's then newest to the greatest of the whole chain, so that the next one is always
   * the newest session's `lastSeq + 1`.
   */
  lastSeq: number;
  createdAt: string;
  /** Never goes back. */
  updatedAt: string;
  /** Sum over all runs; of an original, over its whole chain. */
  usage: Usage;
}
