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

/** An empty list as JSON. */
const EMPTY_LIST = "[]";

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
  /** Undefined if the query does not select it. */
  shown?: string;
}

export interface PieceRow {
  part: number;
  type: string;
  text: string;
}

export interface SnapshotRow {
  id: string;
  after: number;
  created_at: string;
}

/** SQLite stores UTF-8: a lone surrogate becomes U+FFFD, so that stored ids and keys are found again. */
export function wellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed();
}

export function sessionOf(row: SessionRow): Session {
  return {
    id: row.id,
    alias: row.alias,
    title: row.title,
    hasFinalTitle: row.titled === 1,
    provider: row.provider,
    model: row.model,
    reasoningEffort: row.reasoning_effort as ReasoningEffort,
    mode: row.mode as SessionMode,
    permissionGrants: row.leave === EMPTY_LIST ? [] : currentGrants(JSON.parse(row.leave) as PermissionGrant[]),
    rewinds: row.cuts === EMPTY_LIST ? [] : (JSON.parse(row.cuts) as number[]),
    projectDir: row.project_dir,
    parentId: row.parent_id,
    spawnedBy:
      row.spawner === null
        ? null
        : { sessionId: row.spawner, runId: row.spawner_run ?? "", callId: row.spawner_call ?? "" },
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

export function rowOfSession(session: Session): Omit<SessionRow, "n"> {
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

/** The columns of a message, without its position. */
export function rowOfMessage(message: Message): Omit<MessageRow, "n" | "session" | "seq"> {
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

/** A stored message, with its appended text if it is still growing. */
export function messageOf(row: MessageRow, sessionId: string, pieces: readonly PieceRow[]): Message {
  return {
    id: row.id,
    sessionId,
    seq: row.seq,
    role: row.role as Role,
    parts: grown(currentParts(JSON.parse(row.parts) as Part[]), pieces),
    toolCallId: row.tool_call_id,
    name: row.name,
    failed: row.failed === 1,
    createdAt: row.created_at,
    ...(row.shown ? { shown: JSON.parse(row.shown) as ToolDisplay } : {}),
    finished: row.finished === 1,
  };
}

/** Files of version 1 contain pieces that number the parts with gaps, so the number is not the index. */
function grown(parts: Part[], pieces: readonly PieceRow[]): Part[] {
  if (pieces.length === 0) return parts;
  const byIndex = new Map<number, Part>(parts.entries());
  for (const piece of pieces) {
    const text = JSON.parse(piece.text) as string;
    const present = byIndex.get(piece.part);
    if (present && "text" in present) {
      present.text += text;
    } else {
      const added: Part = { type: piece.type === "reasoning" ? "reasoning" : "text", text };
      byIndex.set(piece.part, added);
      parts.push(added);
    }
  }
  return parts;
}

export function snapshotOf(row: SnapshotRow): Snapshot {
  return { id: row.id, after: row.after, createdAt: row.created_at };
}

export function rowOfSnapshot({ id, after, createdAt }: Snapshot): SnapshotRow {
  return { id, after, created_at: createdAt };
}
