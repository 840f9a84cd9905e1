import type { LeaseHolder } from "./holder.js";
import type { Role } from "./message.js";
import type { RunRecord, RunState } from "./run.js";
import type { Session } from "./session.js";

/**
 * Query of `list`: matching originals (the first sessions of chains), newest first, at most `limit`. Sessions of
 * subagents are listed only with `spawnedBy`.
 */
export interface SessionQuery {
  /** Compared as a complete string, so subfolders do not match. */
  projectDir?: string;
  /**
   * Part of the title, without wildcards. Title and search text are compared after JavaScript's `toLowerCase`. `""`
   * matches all.
   */
  search?: string;
  /**
   * Only sessions that never had a message and were last updated before this timestamp. A session emptied by a revert
   * had a message.
   */
  emptyBefore?: string;
  /** Only sessions spawned by runs of this chain (id of its original). Undefined: sessions that no run spawned. */
  spawnedBy?: string;
  /** `exclude`: without archived sessions. `include` (default): all. `only`: archived sessions only. */
  archived?: "exclude" | "include" | "only";
  /** Only sessions that this user may see: the user's own sessions and shared ones. Undefined: all. */
  visibleTo?: string;
  limit: number;
  /** Number of matching sessions to skip. Not with `before`. */
  offset?: number;
  /** Starts after this entry, which may no longer exist. */
  before?: { updatedAt: string; id: string };
}

/** Page of a session list. */
export interface SessionPage {
  sessions: Session[];
  /**
   * Number of all matching sessions, read at the same moment as the page. Without `search`, the number comes from stored
   * counters or an index.
   */
  total: number;
}

/** Query of `messages`: matching messages in ascending `seq`, without messages hidden by a revert. */
export interface MessageQuery {
  /** Only messages with a greater `seq`; the first `limit` of them. */
  after?: number;
  /**
   * Only messages with a smaller `seq`; the last `limit` of them. With `after` too: the first `limit` of the range
   * between.
   */
  before?: number;
  limit?: number;
  /**
   * `session` (default): messages of this session. `chain`: messages of its complete chain, wherever they are stored.
   */
  scope?: "session" | "chain";
  /** Only messages hidden by the revert with this snapshot. `""` hides nothing, so the result is empty. */
  hiddenBy?: string;
  /** Only results of the tool with this name; not `""`. */
  tool?: string;
}

/** Query of `runs`: matching runs, newest `startedAt` first, ties by greatest id first; at most `limit`. */
export interface RunQuery {
  /** Only the run with this id. */
  id?: string;
  /** Any id of the chain. */
  sessionId?: string;
  /** Stored states. An empty list matches none. */
  states?: readonly RunState[];
  /** Only the run with this key; not `""`. */
  idempotencyKey?: string;
  /**
   * Only runs that this user started (`RunRecord.user`), in any session; not `""`. Only drivers with `separatesUsers` get
   * this criterion.
   */
  startedBy?: string;
  /** Only runs of sessions that this user may see: the user's own sessions and shared ones. Undefined: all. */
  visibleTo?: string;
  limit: number;
  /** Starts after an entry, which may no longer exist. */
  before?: { startedAt: string; id: string };
}

/** A run with the current holder of its lease. */
export interface StoredRun {
  run: RunRecord;
  /**
   * Holder of the lease under which the run was last written. Null if that lease was released, expired or changed
   * hands, or if there was none.
   */
  holder: LeaseHolder | null;
}

/** Query of `asks`: matching asks, newest `createdAt` first, ties by greatest id first; at most `limit`. */
export interface AskQuery {
  /** Only the ask with this id. */
  id?: string;
  /** Any id of the chain. */
  sessionId?: string;
  /** True: only asks stored as open. Default: all asks. */
  open?: boolean;
  /** Only asks of sessions that this user may see: the user's own sessions and shared ones. Undefined: all. */
  visibleTo?: string;
  limit: number;
  /** Starts after an entry, which may no longer exist. */
  before?: { createdAt: string; id: string };
}

/**
 * Query of `searchMessages`: messages that contain all words of a text. Sessions of subagents are not searched, and
 * neither are messages hidden by a revert.
 */
export interface MessageSearchQuery {
  /**
   * Words in any order; all other characters separate words. The last word also matches the start of a word. Case and
   * accents are ignored. A text without words matches nothing.
   */
  text: string;
  /** Compared as a complete string, so subfolders do not match. */
  projectDir?: string;
  /** `exclude`: without archived sessions. `include` (default): all. `only`: archived sessions only. */
  archived?: "exclude" | "include" | "only";
  /** Only messages of sessions that this user may see: the user's own sessions and shared ones. Undefined: all. */
  visibleTo?: string;
  limit: number;
  /** `next` of the previous page. */
  before?: string;
  /** Rejects the call with the signal's reason. Changes that the call made stay. */
  signal?: AbortSignal;
}

/** A message that a search found. */
export interface MessageMatch {
  /** Id of the chain's first session. */
  sessionId: string;
  /** Title of the chain's first session. */
  title: string;
  messageId: string;
  seq: number;
  role: Role;
  createdAt: string;
  /** Plain text around a match, on one line. */
  snippet: string;
  /** The matches in `snippet`: start and end in UTF-16 code units, ascending, without overlap. */
  ranges: readonly (readonly [start: number, end: number])[];
}

/** Page of a search. */
export interface MessageSearchPage {
  /** Newest first, in an order of the driver: by the message, or by the session and then the message. */
  matches: MessageMatch[];
  /** Cursor of the next page, which may be empty. Undefined after the last page. */
  next?: string;
  /** Whether the time limit of a call ended this page early. More matches may follow with `next`. */
  isIncomplete: boolean;
}
