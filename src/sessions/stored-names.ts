import { isRecord } from "../base/json.js";
import type { Message, Part } from "../ports/message.js";
import type { RunRecord } from "../ports/run.js";
import type { PermissionGrant, Session } from "../ports/session.js";

/**
 * Converters for values that a store wrote before version 0.1.0, to today's field names. Stores call these functions on
 * values that they parse. Each function returns its argument itself if no name is old, so that a read of today's values
 * costs nothing.
 */

/** Current field names, by old name. */
type FieldNames = Readonly<Record<string, string>>;

const SESSION_FIELD_NAMES: FieldNames = { titled: "hasFinalTitle", leave: "permissionGrants", cuts: "rewinds" };
const GRANT_FIELD_NAMES: FieldNames = { what: "scope", by: "grantedBy", at: "grantedAt" };
const RUN_FIELD_NAMES: FieldNames = { key: "idempotencyKey", line: "queueLease" };
const QUEUE_LEASE_FIELD_NAMES: FieldNames = { until: "expiresAt" };
const RETRY_FIELD_NAMES: FieldNames = { at: "nextAttemptAt" };
const TEXT_FIELD_NAMES: FieldNames = { typed: "originalText" };

function renameFields<T extends object>(value: T, currentNames: FieldNames): T {
  if (!Object.keys(currentNames).some((name) => Object.hasOwn(value, name))) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [currentNames[name] ?? name, field as unknown]),
  ) as T;
}

/** Maps the records of a list. Other values stay, because lists of exports are not validated yet. */
function mapRecords<T extends object>(values: readonly T[], change: (value: T) => T): T[] {
  const mapRecord = (value: T): T => (isRecord(value) ? change(value) : value);
  return values.some((value) => mapRecord(value) !== value) ? values.map(mapRecord) : (values as T[]);
}

/** Returns a session of a store or an export with today's names. */
export function currentSession(session: Session): Session {
  const { permissionGrants, ...fields } = renameFields(session, SESSION_FIELD_NAMES);
  const grants = Array.isArray(permissionGrants) ? currentGrants(permissionGrants) : permissionGrants;
  return grants === session.permissionGrants ? session : { ...fields, permissionGrants: grants };
}

/** Returns the permission grants of a session with today's names. */
export function currentGrants(grants: readonly PermissionGrant[]): readonly PermissionGrant[] {
  return mapRecords(grants, (grant) => renameFields(grant, GRANT_FIELD_NAMES));
}

/** Returns a run record with today's names. */
export function currentRun(run: RunRecord): RunRecord {
  const renamedRun = renameFields(run, RUN_FIELD_NAMES);
  const queueLease = isRecord(renamedRun.queueLease)
    ? renameFields(renamedRun.queueLease, QUEUE_LEASE_FIELD_NAMES)
    : renamedRun.queueLease;
  const retry = isRecord(renamedRun.retry) ? renameFields(renamedRun.retry, RETRY_FIELD_NAMES) : renamedRun.retry;
  return queueLease === renamedRun.queueLease && retry === renamedRun.retry
    ? renamedRun
    : { ...renamedRun, queueLease, retry };
}

/** Returns the parts of a message with today's names. */
export function currentParts(parts: readonly Part[]): Part[] {
  return mapRecords(parts, (part) => (part.type === "text" ? renameFields(part, TEXT_FIELD_NAMES) : part));
}

/** Returns a message whose parts have today's names. */
export function currentMessage(message: Message): Message {
  const parts = currentParts(message.parts);
  return parts === message.parts ? message : { ...message, parts };
}

/** Returns a document of a document store with today's names. The key begins with the kind of the document. */
export function currentDocument(key: string, value: unknown): unknown {
  const kind = key.slice(0, key.indexOf("/"));
  if (kind === "session" && isRecord(value)) return currentSession(value as unknown as Session);
  if (kind === "run" && isRecord(value)) return { ...value, run: currentRun(value["run"] as RunRecord) };
  if ((kind === "segment" || kind === "view") && Array.isArray(value))
    return mapRecords(value as Message[], currentMessage);
  return value;
}

/** Returns a parsed line of an export with today's names. */
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
