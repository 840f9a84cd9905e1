import type { ReasoningEffort } from "./model-provider.js";
import type { Usage } from "./usage.js";

/**
 * Position in a chain. `root`: id of the chain's first session. `index`: number of the session in the chain, 0 for the
 * first.
 */
export interface ChainLink {
  root: string;
  index: number;
}

/** A point to which a reverted session can be restored. */
export interface Snapshot {
  id: string;
  /** Messages with a greater `seq` were hidden. */
  after: number;
  createdAt: string;
}

/**
 * Permission mode of a session. `auto`: tools run without a request. `ask`: tools that need permission wait for a
 * person. `plan`: only tools that change nothing run.
 */
export type SessionMode = "auto" | "ask" | "plan";

/** A lasting permission of a person for tool calls of one session. */
export interface PermissionGrant {
  tool: string;
  /** The allowed calls, in a form that is compared as a complete string. */
  scope: string;
  /** Text shown to people. */
  title: string;
  /** Client through which the permission was granted. */
  grantedBy: string;
  grantedAt: string;
}

/** The tool call that created a subagent's session. */
export interface SpawnedBy {
  /** The first session of the chain whose run made the call. */
  sessionId: string;
  runId: string;
  callId: string;
}

/** A conversation, or one link of a chain, without its messages. */
export interface Session {
  id: string;
  /** A second id that finds this session (the ACP id); `""` for none. Unique in the store, across ids and aliases. */
  alias: string;
  title: string;
  /** Whether `title` was generated or set by a person. If true, it is not generated again. */
  hasFinalTitle: boolean;
  /** Provider and model of the last run; `""` before the first run. */
  provider: string;
  model: string;
  reasoningEffort: ReasoningEffort;
  mode: SessionMode;
  /** Oldest first. */
  permissionGrants: readonly PermissionGrant[];
  /**
   * For each revert and restore, in order: the `seq` up to which the conversation stayed unchanged. The list only
   * grows. For a reader with an older, shorter list, all messages after the smallest added `seq` are invalid.
   */
  rewinds: readonly number[];
  /** Absolute path. */
  projectDir: string;
  /** The session from which this one was forked; `""` for none. */
  parentId: string;
  /** For a subagent's session: the call that created it. Null otherwise. Immutable. */
  spawnedBy: SpawnedBy | null;
  /**
   * Whether lists omit the session unless a query asks for archived sessions. Undefined means false. The flag of a
   * chain's first session counts.
   */
  archived?: boolean;
  /**
   * Name of the user who created the session, also for sessions of its subagents. Undefined: no user. Never changes. The
   * value of a chain's first session counts.
   */
  owner?: string;
  /** Whether all users may read and continue the session. Undefined means false. The flag of a chain's first session counts. */
  shared?: boolean;
  chain: ChainLink;
  /**
   * At least the greatest `seq` in this session and the chain's earlier sessions; 0 without messages. Set by the
   * driver. If a revert makes an earlier session the newest, the driver raises this value to the chain's greatest
   * `seq`, so that no hidden `seq` is used again. The next `seq` is always the newest session's `lastSeq + 1`.
   */
  lastSeq: number;
  createdAt: string;
  /** ISO 8601 UTC. Never decreases. */
  updatedAt: string;
  /** Sum over all runs. For the first session of a chain: over the whole chain. */
  usage: Usage;
}
