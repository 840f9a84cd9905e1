import { isRecord } from "../base/json.js";
import type { Message, Part } from "../ports/message.js";
import type { RunRecord } from "../ports/run.js";
import type { PermissionGrant, Session } from "../ports/session.js";

/**
 * Values that a store wrote before version 0.1.0, under today's names. Each function returns its argument itself if no
 * name is old, so that a read of today's values costs nothing. Stores call them on what they parse.
 */

type Names = Readonly<Record<string, string>>;

const SESSION: Names = { titled: "hasFinalTitle", leave: "permissionGrants", cuts: "rewinds" };
const GRANT: Names = { what: "scope", by: "grantedBy", at: "grantedAt" };
const RUN: Names = { key: "idempotencyKey", line: "queueLease" };
const QUEUE_LEASE: Names = { until: "expiresAt" };
const RETRY: Names = { at: "nextAttemptAt" };
const TEXT: Names = { typed: "originalText" };

function renameFields<T extends object>(value: T, names: Names): T {
  if (!Object.keys(names).some((name) => Object.hasOwn(value, name))) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [names[name] ?? name, field as unknown])) as T;
}

/** Lists of exports are not checked yet: an entry may be anything. */
function mapRecords<T extends object>(values: readonly T[], change: (value: T) => T): T[] {
  const mapRecord = (value: T): T => (isRecord(value) ? change(value) : value);
  return values.some((value) => mapRecord(value) !== value) ? values.map(mapRecord) : (values as T[]);
}

/** A session of a store or an export, with today's names. */
export function currentSession(session: Session): Session {
  const { permissionGrants, ...fields } = renameFields(session, SESSION);
  const grants = Array.isArray(permissionGrants) ? currentGrants(permissionGrants) : permissionGrants;
  return grants === session.permissionGrants ? session : { ...fields, permissionGrants: grants };
}

/** The permission grants of a session, with today's names. */
export function currentGrants(grants: readonly PermissionGrant[]): readonly PermissionGrant[] {
  return mapRecords(grants, (grant) => renameFields(grant, GRANT));
}

/** A run record, with today's names. */
export function currentRun(run: RunRecord): RunRecord {
  const renamedRun = renameFields(run, RUN);
  const queueLease = isRecord(renamedRun.queueLease)
    ? renameFields(renamedRun.queueLease, QUEUE_LEASE)
    : renamedRun.queueLease;
  const retry = isRecord(renamedRun.retry) ? renameFields(renamedRun.retry, RETRY) : renamedRun.retry;
  return queueLease === renamedRun.queueLease && retry === renamedRun.retry
    ? renamedRun
    : { ...renamedRun, queueLease, retry };
}

/** The parts of a message, with today's names. */
export function currentParts(parts: readonly Part[]): Part[] {
  return mapRecords(parts, (part) => (part.type === "text" ? renameFields(part, TEXT) : part));
}

/** A message whose parts have today's names. */
export function currentMessage(message: Message): Message {
  const parts = currentParts(message.parts);
  return parts === message.parts ? message : { ...message, parts };
}

/** A document of a document store, by the kind that its key begins with. */
export function currentDocument(key: string, value: unknown): unknown {
  const kind = key.slice(0, key.indexOf("/"));
  if (kind === "session" && isRecord(value)) return currentSession(value as unknown as Session);
  if (kind === "run" && isRecord(value)) return { ...value, run: currentRun(value["run"] as RunRecord) };
  if ((kind === "segment" || kind === "view") && Array.isArray(value))
    return mapRecords(value as Message[], currentMessage);
  return value;
}

/** A line of an export. */
export function currentLine(line: unknown): unknown {
  if (!isRecord(line)) return line;
  const { type, session, message, run } = line;
  const fields = type === "session" || type === "message" ? renameFields(line, { cut: "hiddenBy" }) : line;
  if (isRecord(session)) return { ...fields, session: currentSession(session as unknown as Session) };
  if (isRecord(message) && Array.isArray(message["parts"]))
    return { ...fields, message: currentMessage(message as unknown as Message) };
  if (isRecord(run)) return { ...fields, run: currentRun(run as unknown as RunRecord) };
  return fields;
}
