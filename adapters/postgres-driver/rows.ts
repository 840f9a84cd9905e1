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
import { stored, told } from "./text-encoding.js";

/** A row of what a read tells; what its columns hold depends on the kind (`sql/read.sql`). */
export interface Part {
  kind: string;
  seq: string;
  idx: number;
  done: boolean;
  tag: string;
  body: string;
  more: string | null;
  gained: string | null;
}

/** A session's row, as JSON. */
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

export function sessionOf(body: string): Session {
  const row = JSON.parse(body) as SessionRow;
  return {
    id: told(row.id),
    alias: told(row.alias),
    title: told(row.title),
    hasFinalTitle: row.titled,
    provider: told(row.provider),
    model: told(row.model),
    reasoningEffort: told(row.reasoning_effort) as ReasoningEffort,
    mode: told(row.mode) as SessionMode,
    permissionGrants: currentGrants(JSON.parse(row.leave) as PermissionGrant[]),
    rewinds: JSON.parse(row.cuts) as number[],
    projectDir: told(row.project_dir),
    parentId: told(row.parent_id),
    spawnedBy:
      row.spawner === null
        ? null
        : {
            sessionId: told(row.spawner),
            runId: told(row.spawner_run ?? ""),
            callId: told(row.spawner_call ?? ""),
          },
    chain: { root: told(row.root), index: row.idx },
    lastSeq: row.last_seq,
    createdAt: told(row.created_at),
    updatedAt: told(row.updated_at),
    usage: {
      promptTokens: row.prompt_tokens,
      completionTokens: row.completion_tokens,
      totalTokens: row.total_tokens,
      cost: row.cost,
    },
  };
}

/** All of a session, with what is said in it. */
export function rowOfSession(session: Session, seqs: readonly number[], cut: string): Record<string, unknown> {
  const {
    chain,
    parentId,
    spawnedBy,
    createdAt,
    lastSeq,
    usage,
    id,
    alias,
    permissionGrants: leave,
    rewinds: cuts,
    ...fields
  } = session;
  return {
    ...rowOfFields({ ...fields, permissionGrants: leave, rewinds: cuts }, usage, seqs),
    id: stored(id),
    alias: stored(alias),
    root: stored(chain.root),
    idx: chain.index,
    parent_id: stored(parentId),
    ...(spawnedBy && {
      spawner: stored(spawnedBy.sessionId),
      spawner_run: stored(spawnedBy.runId),
      spawner_call: stored(spawnedBy.callId),
    }),
    created_at: stored(createdAt),
    cut: stored(cut),
    last_seq: seqs.reduce((last, seq) => Math.max(last, seq), lastSeq),
  };
}

/** Fields that a change sets, what it adds to the counters, and where what it adds begins and ends. */
export function rowOfFields(
  { title, hasFinalTitle: titled, permissionGrants: leave, rewinds: cuts, ...fields }: SessionFields,
  usage: Usage | undefined,
  seqs: readonly number[],
): Record<string, unknown> {
  return {
    title: storedOf(title),
    search: storedOf(title?.toLowerCase()),
    titled,
    provider: storedOf(fields.provider),
    model: storedOf(fields.model),
    reasoning_effort: storedOf(fields.reasoningEffort),
    mode: storedOf(fields.mode),
    leave: leave && JSON.stringify(leave),
    cuts: cuts && JSON.stringify(cuts),
    project_dir: storedOf(fields.projectDir),
    updated_at: storedOf(fields.updatedAt),
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

const storedOf = (text: string | undefined): string | undefined => text && stored(text);

/** What of a message is not told by its place. */
export function rowOfMessage({ seq, finished, shown, sessionId: _, ...body }: Message): Record<string, unknown> {
  return {
    seq,
    id: stored(body.id),
    finished,
    name: stored(body.name),
    body: JSON.stringify(body),
    shown: shown ? JSON.stringify(shown) : "",
  };
}

/** A message as it is stored, with what it has gained since when it is still growing. */
export function messageOf({ seq, done, body, more, gained }: Part, sessionId: string): Message {
  const { id, ...rest } = JSON.parse(body) as Omit<Message, "seq" | "sessionId" | "finished" | "shown">;
  rest.parts = currentParts(rest.parts);
  if (gained !== null) for (const deltas of JSON.parse(gained) as Delta[][]) grow(rest.parts, deltas);
  return {
    id,
    sessionId,
    seq: Number(seq),
    ...rest,
    ...(more ? { shown: JSON.parse(more) as NonNullable<Message["shown"]> } : {}),
    finished: done,
  };
}

type Delta = readonly [part: number, type: PartDelta["type"], text: string];

function grow(parts: Message["parts"], deltas: readonly Delta[]): void {
  for (const [place, type, text] of deltas) {
    const part = parts[place];
    if (part && "text" in part) part.text += text;
    else parts.push({ type, text });
  }
}

/** What each message gained, in the order in which the first of it came. */
export function rowsOfDeltas(append: readonly PartDelta[]): { id: string; deltas: string }[] {
  const byMessage = new Map<string, Delta[]>();
  for (const { messageId, part, type, text } of append) {
    const deltas = byMessage.get(messageId);
    if (deltas) deltas.push([part, type, text]);
    else byMessage.set(messageId, [[part, type, text]]);
  }
  return [...byMessage].map(([id, deltas]) => ({ id: stored(id), deltas: JSON.stringify(deltas) }));
}

/** A run as it is stored; what it keeps for its key is apart, as it is forgotten before the run is. */
export interface RunRow {
  record: string;
  named: string | null;
  key: string;
  root: string;
  holder: string | null;
}

type Named = Pick<RunRecord, "fingerprint" | "answer">;

export function rowOfRun({ fingerprint, answer, idempotencyKey: key, ...run }: RunRecord): Record<string, unknown> {
  const named = fingerprint === "" && answer === null ? "" : JSON.stringify({ fingerprint, answer } satisfies Named);
  const { id, state, startedAt } = run;
  return { id: stored(id), key: stored(key), state, started_at: stored(startedAt), named, record: JSON.stringify(run) };
}

export function recordOf({ record, named, key }: Pick<RunRow, "record" | "named" | "key">, root: string): RunRecord {
  const kept: Named = named ? (JSON.parse(named) as Named) : { fingerprint: "", answer: null };
  const run = currentRun(JSON.parse(record) as RunRecord);
  return { ...run, sessionId: root, idempotencyKey: told(key), ...kept };
}

export function runOf(row: RunRow): StoredRun {
  const holder = row.holder === null ? null : (JSON.parse(row.holder) as StoredRun["holder"]);
  return { run: recordOf(row, told(row.root)), holder };
}

/** An ask; its answer is apart. */
export interface AskRow {
  root: string;
  state: string;
  ask: string;
  answered: string;
}

export function rowOfAsk(ask: Ask): Record<string, unknown> {
  return { id: stored(ask.id), state: ask.state, created_at: stored(ask.createdAt), ask: JSON.stringify(ask) };
}

export function rowOfAnswer({ askId, ...answered }: NonNullable<SessionChange["answer"]>): Record<string, unknown> {
  return { id: stored(askId), answered: JSON.stringify(answered) };
}

export function askOf({ root, state, ask, answered }: AskRow): Ask {
  const answer = answered === "" ? {} : (JSON.parse(answered) as Partial<Ask>);
  return { ...(JSON.parse(ask) as Ask), sessionId: told(root), ...answer, state: state as Ask["state"] };
}

export function instructionOf({ root, instruction }: { root: string; instruction: string }): Instruction {
  return { ...(JSON.parse(instruction) as Instruction), sessionId: told(root) };
}

export function rowOfSnapshot({ id, after, createdAt }: Snapshot): Record<string, unknown> {
  return { id: stored(id), after, created_at: stored(createdAt) };
}

export function snapshotOf({ id, after, created_at }: { id: string; after: string; created_at: string }): Snapshot {
  return { id: told(id), after: Number(after), createdAt: told(created_at) };
}
