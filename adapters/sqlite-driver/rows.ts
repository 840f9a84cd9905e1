/// <reference lib="es2024.string" />
import type { Message, Part, ReasoningEffort, Session, SessionMode } from "gantry";
import {
  currentGrants,
  currentParts,
  type PermissionGrant,
  type Role,
  type ToolDisplay,
  type Snapshot,
} from "gantry/plugin";

const EMPTY_LIST_JSON = "[]";

/**
 * Row of `sessions`. `root`: id of the chain's first session; `idx`: position in the chain. `leave` (grants) and `cuts`
 * (rewinds) are JSON.
 */
export interface SessionRow {
  n: number;
  id: string;
  alias: string;
  title: string;
  titled: number;
  provider: string;
  model: string;
  reasoning_effort: string;
  mode: string;
  leave: string;
  cuts: string;
  project_dir: string;
  parent_id: string;
  spawner: string | null;
  spawner_run: string | null;
  spawner_call: string | null;
  archived: number;
  owner: string;
  shared: number;
  root: string;
  idx: number;
  last_seq: number;
  created_at: string;
  updated_at: string;
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  cost: number;
}

/** Row of `messages`. `session`: the `n` of the message's session. `parts` and `shown` are JSON. */
export interface MessageRow {
  n: number;
  session: number;
  seq: number;
  finished: number;
  id: string;
  role: string;
  tool_call_id: string;
  name: string;
  failed: number;
  created_at: string;
  parts: string;
  /** Undefined if the query does not select this column. */
  shown?: string;
}

/** Text appended to an unfinished message, as a JSON string. `part` is the number of the message part. */
export interface PieceRow {
  part: number;
  type: string;
  text: string;
}

/** Row of `snapshots`. `after`: `seq` of the last message that a revert keeps. */
export interface SnapshotRow {
  id: string;
  after: number;
  created_at: string;
}

/**
 * Replaces lone surrogates by U+FFFD, because SQLite stores UTF-8. A query for a stored id needs the same replacement.
 */
export function toWellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed();
}

export function toSession(row: SessionRow): Session {
  return {
    id: row.id,
    alias: row.alias,
    title: row.title,
    hasFinalTitle: row.titled === 1,
    provider: row.provider,
    model: row.model,
    reasoningEffort: row.reasoning_effort as ReasoningEffort,
    mode: row.mode as SessionMode,
    permissionGrants: row.leave === EMPTY_LIST_JSON ? [] : currentGrants(JSON.parse(row.leave) as PermissionGrant[]),
    rewinds: row.cuts === EMPTY_LIST_JSON ? [] : (JSON.parse(row.cuts) as number[]),
    projectDir: row.project_dir,
    parentId: row.parent_id,
    spawnedBy:
      row.spawner === null
        ? null
        : { sessionId: row.spawner, runId: row.spawner_run ?? "", callId: row.spawner_call ?? "" },
    ...(row.archived === 1 && { archived: true }),
    ...(row.owner !== "" && { owner: row.owner }),
    ...(row.shared === 1 && { shared: true }),
    chain: { root: row.root, index: row.idx },
    lastSeq: row.last_seq,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    usage: {
      promptTokens: row.prompt_tokens,
      completionTokens: row.completion_tokens,
      totalTokens: row.total_tokens,
      cost: row.cost,
    },
  };
}

export function toSessionRow(session: Session): Omit<SessionRow, "n"> {
  const { usage, chain } = session;
  return {
    id: session.id,
    alias: session.alias,
    title: session.title,
    titled: Number(session.hasFinalTitle),
    provider: session.provider,
    model: session.model,
    reasoning_effort: session.reasoningEffort,
    mode: session.mode,
    leave: JSON.stringify(session.permissionGrants),
    cuts: JSON.stringify(session.rewinds),
    project_dir: session.projectDir,
    parent_id: session.parentId,
    spawner: session.spawnedBy?.sessionId ?? null,
    spawner_run: session.spawnedBy?.runId ?? null,
    spawner_call: session.spawnedBy?.callId ?? null,
    archived: Number(session.archived ?? false),
    owner: session.owner ?? "",
    shared: Number(session.shared ?? false),
    root: chain.root,
    idx: chain.index,
    last_seq: session.lastSeq,
    created_at: session.createdAt,
    updated_at: session.updatedAt,
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    cost: usage.cost,
  };
}

/** Converts a message to its columns, without its row number, session and `seq`. */
export function toMessageRow(message: Message): Omit<MessageRow, "n" | "session" | "seq"> {
  return {
    finished: Number(message.finished),
    id: message.id,
    role: message.role,
    tool_call_id: message.toolCallId,
    name: message.name,
    failed: Number(message.failed),
    created_at: message.createdAt,
    parts: JSON.stringify(message.parts),
    shown: message.shown ? JSON.stringify(message.shown) : "",
  };
}

/** Converts a row to a message, with the appended text of an unfinished message. */
export function toMessage(row: MessageRow, sessionId: string, pieces: readonly PieceRow[]): Message {
  return {
    id: row.id,
    sessionId,
    seq: row.seq,
    role: row.role as Role,
    parts: appendPieces(currentParts(JSON.parse(row.parts) as Part[]), pieces),
    toolCallId: row.tool_call_id,
    name: row.name,
    failed: row.failed === 1,
    createdAt: row.created_at,
    ...(row.shown ? { shown: JSON.parse(row.shown) as ToolDisplay } : {}),
    finished: row.finished === 1,
  };
}

/** Appends text to the parts. In files of version 1 the numbers of the parts have gaps and are no indexes. */
function appendPieces(parts: Part[], pieces: readonly PieceRow[]): Part[] {
  if (pieces.length === 0) return parts;
  const partsByNumber = new Map<number, Part>(parts.entries());
  for (const piece of pieces) {
    const text = JSON.parse(piece.text) as string;
    const storedPart = partsByNumber.get(piece.part);
    if (storedPart && "text" in storedPart) {
      storedPart.text += text;
    } else {
      const newPart: Part = { type: piece.type === "reasoning" ? "reasoning" : "text", text };
      partsByNumber.set(piece.part, newPart);
      parts.push(newPart);
    }
  }
  return parts;
}

export function toSnapshot(row: SnapshotRow): Snapshot {
  return { id: row.id, after: row.after, createdAt: row.created_at };
}

export function toSnapshotRow({ id, after, createdAt }: Snapshot): SnapshotRow {
  return { id, after, created_at: createdAt };
}
