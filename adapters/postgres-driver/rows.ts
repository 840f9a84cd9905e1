import type { Ask, Message, ReasoningEffort, RunRecord, Session, SessionMode, Usage } from "gantry";
import { currentGrants, currentParts, currentRun } from "gantry/plugin";
import type {
  Instruction,
  PermissionGrant,
  PartDelta,
  SessionChange,
  SessionFields,
  Snapshot,
  StoredRun,
} from "gantry/plugin";
import { toReader } from "./readers.js";
import { encodeText, decodeText } from "./text-encoding.js";

/** A result row of a read. The meaning of its columns depends on the kind (`sql/read.sql`). */
export interface ReadRow {
  kind: string;
  seq: string;
  idx: number;
  done: boolean;
  tag: string;
  body: string;
  more: string | null;
  gained: string | null;
}

/**
 * Row of a session, as JSON. `root`: id of the chain's first session; `idx`: position in the chain. `leave` (grants)
 * and `cuts` (rewinds) are JSON.
 */
interface SessionRow {
  id: string;
  alias: string;
  title: string;
  titled: boolean;
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
  archived: boolean;
  owner: string;
  shared: boolean;
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

export function toSession(body: string): Session {
  const row = JSON.parse(body) as SessionRow;
  return {
    id: decodeText(row.id),
    alias: decodeText(row.alias),
    title: decodeText(row.title),
    hasFinalTitle: row.titled,
    provider: decodeText(row.provider),
    model: decodeText(row.model),
    reasoningEffort: decodeText(row.reasoning_effort) as ReasoningEffort,
    mode: decodeText(row.mode) as SessionMode,
    permissionGrants: currentGrants(JSON.parse(row.leave) as PermissionGrant[]),
    rewinds: JSON.parse(row.cuts) as number[],
    projectDir: decodeText(row.project_dir),
    parentId: decodeText(row.parent_id),
    spawnedBy:
      row.spawner === null
        ? null
        : {
            sessionId: decodeText(row.spawner),
            runId: decodeText(row.spawner_run ?? ""),
            callId: decodeText(row.spawner_call ?? ""),
          },
    ...(row.archived && { archived: true }),
    ...(row.owner !== "" && { owner: decodeText(row.owner) }),
    ...(row.shared && { shared: true }),
    chain: { root: decodeText(row.root), index: row.idx },
    lastSeq: row.last_seq,
    createdAt: decodeText(row.created_at),
    updatedAt: decodeText(row.updated_at),
    usage: {
      promptTokens: row.prompt_tokens,
      completionTokens: row.completion_tokens,
      totalTokens: row.total_tokens,
      cost: row.cost,
    },
  };
}

/**
 * Converts a session to a complete row. `seqs`: of the session's messages; `cut`: the snapshot that hides the session.
 */
export function toSessionRow(session: Session, seqs: readonly number[], cut: string): Record<string, unknown> {
  const {
    chain,
    parentId,
    spawnedBy,
    createdAt,
    lastSeq,
    usage,
    id,
    alias,
    owner,
    permissionGrants,
    rewinds,
    ...fields
  } = session;
  return {
    ...toFieldsRow({ ...fields, permissionGrants, rewinds }, usage, seqs),
    id: encodeText(id),
    alias: encodeText(alias),
    root: encodeText(chain.root),
    idx: chain.index,
    parent_id: encodeText(parentId),
    ...(spawnedBy && {
      spawner: encodeText(spawnedBy.sessionId),
      spawner_run: encodeText(spawnedBy.runId),
      spawner_call: encodeText(spawnedBy.callId),
    }),
    owner: encodeOptional(owner),
    created_at: encodeText(createdAt),
    cut: encodeText(cut),
    last_seq: seqs.reduce((last, seq) => Math.max(last, seq), lastSeq),
  };
}

/** Converts the fields that a change sets, the increments of the counters, and the range of the added `seq`s. */
export function toFieldsRow(
  { title, hasFinalTitle, permissionGrants, rewinds, ...fields }: SessionFields,
  usage: Usage | undefined,
  seqs: readonly number[],
): Record<string, unknown> {
  return {
    title: encodeOptional(title),
    search: encodeOptional(title?.toLowerCase()),
    titled: hasFinalTitle,
    provider: encodeOptional(fields.provider),
    model: encodeOptional(fields.model),
    reasoning_effort: encodeOptional(fields.reasoningEffort),
    mode: encodeOptional(fields.mode),
    archived: fields.archived,
    shared: fields.shared,
    leave: permissionGrants && JSON.stringify(permissionGrants),
    cuts: rewinds && JSON.stringify(rewinds),
    project_dir: encodeOptional(fields.projectDir),
    updated_at: encodeOptional(fields.updatedAt),
    prompt_tokens: usage?.promptTokens,
    completion_tokens: usage?.completionTokens,
    total_tokens: usage?.totalTokens,
    cost: usage?.cost,
    ...(seqs.length > 0 && {
      first_seq: seqs.reduce((first, seq) => Math.min(first, seq)),
      last_seq: seqs.reduce((last, seq) => Math.max(last, seq)),
    }),
  };
}

const encodeOptional = (text: string | undefined): string | undefined => text && encodeText(text);

/** Converts a message to the columns that do not depend on its session. */
export function toMessageRow({ seq, finished, shown, sessionId: _, ...body }: Message): Record<string, unknown> {
  return {
    seq,
    id: encodeText(body.id),
    finished,
    name: encodeText(body.name),
    body: JSON.stringify(body),
    shown: shown ? JSON.stringify(shown) : "",
  };
}

/** Converts a row to a message. Adds the appended text if the message is unfinished. */
export function toMessage({ seq, done, body, more, gained }: ReadRow, sessionId: string): Message {
  const { id, ...fields } = JSON.parse(body) as Omit<Message, "seq" | "sessionId" | "finished" | "shown">;
  fields.parts = currentParts(fields.parts);
  if (gained !== null) for (const deltas of JSON.parse(gained) as Delta[][]) appendDeltas(fields.parts, deltas);
  return {
    id,
    sessionId,
    seq: Number(seq),
    ...fields,
    ...(more ? { shown: JSON.parse(more) as NonNullable<Message["shown"]> } : {}),
    finished: done,
  };
}

type Delta = readonly [part: number, type: PartDelta["type"], text: string];

function appendDeltas(parts: Message["parts"], deltas: readonly Delta[]): void {
  for (const [partIndex, type, text] of deltas) {
    const part = parts[partIndex];
    if (part && "text" in part) part.text += text;
    else parts.push({ type, text });
  }
}

/** Groups appended text by message, in the order of first appearance. */
export function toDeltaRows(append: readonly PartDelta[]): { id: string; deltas: string }[] {
  const deltasByMessageId = new Map<string, Delta[]>();
  for (const { messageId, part, type, text } of append) {
    const deltas = deltasByMessageId.get(messageId);
    if (deltas) deltas.push([part, type, text]);
    else deltasByMessageId.set(messageId, [[part, type, text]]);
  }
  return [...deltasByMessageId].map(([id, deltas]) => ({ id: encodeText(id), deltas: JSON.stringify(deltas) }));
}

/** A stored run. `named`: the fields that a repeated request with the key needs, as JSON; removed before the run. */
export interface RunRow {
  record: string;
  named: string | null;
  key: string;
  root: string;
  holder: string | null;
}

type KeyData = Pick<RunRecord, "fingerprint" | "answer">;

export function toRunRow({ fingerprint, answer, idempotencyKey, ...run }: RunRecord): Record<string, unknown> {
  const named = fingerprint === "" && answer === null ? "" : JSON.stringify({ fingerprint, answer } satisfies KeyData);
  const { id, state, startedAt, user } = run;
  return {
    id: encodeText(id),
    key: encodeText(idempotencyKey),
    state,
    started_at: encodeText(startedAt),
    ...(user !== undefined && { started_by: toReader(user) }),
    named,
    record: JSON.stringify(run),
  };
}

export function toRunRecord({ record, named, key }: Pick<RunRow, "record" | "named" | "key">, root: string): RunRecord {
  const keyData: KeyData = named ? (JSON.parse(named) as KeyData) : { fingerprint: "", answer: null };
  const run = currentRun(JSON.parse(record) as RunRecord);
  return { ...run, sessionId: root, idempotencyKey: decodeText(key), ...keyData };
}

export function toStoredRun(row: RunRow): StoredRun {
  const holder = row.holder === null ? null : (JSON.parse(row.holder) as StoredRun["holder"]);
  return { run: toRunRecord(row, decodeText(row.root)), holder };
}

/** A stored ask. `answered`: the fields that the answer changed, as JSON; `""` before the answer. */
export interface AskRow {
  root: string;
  state: string;
  ask: string;
  answered: string;
}

export function toAskRow(ask: Ask): Record<string, unknown> {
  return { id: encodeText(ask.id), state: ask.state, created_at: encodeText(ask.createdAt), ask: JSON.stringify(ask) };
}

export function toAnswerRow({ askId, ...answered }: NonNullable<SessionChange["answer"]>): Record<string, unknown> {
  return { id: encodeText(askId), answered: JSON.stringify(answered) };
}

export function toAsk({ root, state, ask, answered }: AskRow): Ask {
  const answer = answered === "" ? {} : (JSON.parse(answered) as Partial<Ask>);
  return { ...(JSON.parse(ask) as Ask), sessionId: decodeText(root), ...answer, state: state as Ask["state"] };
}

export function toInstruction({ root, instruction }: { root: string; instruction: string }): Instruction {
  return { ...(JSON.parse(instruction) as Instruction), sessionId: decodeText(root) };
}

export function toSnapshotRow({ id, after, createdAt }: Snapshot): Record<string, unknown> {
  return { id: encodeText(id), after, created_at: encodeText(createdAt) };
}

export function toSnapshot({ id, after, created_at }: { id: string; after: string; created_at: string }): Snapshot {
  return { id: decodeText(id), after: Number(after), createdAt: decodeText(created_at) };
}
