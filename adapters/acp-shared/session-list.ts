import path from "node:path";
import type { Agent, Session } from "gantry";
import { isRecord } from "gantry/plugin";
import { toParamsError } from "./errors.js";
import { readOptionalString, readParams } from "./params.js";
import { escapeInvisible } from "./printable-line.js";
import type { ClientProfile } from "./profile.js";

/** Number of sessions on a page. */
const PAGE_SIZE = 50;
const ARCHIVE_FILTERS = ["exclude", "include", "only"] as const;

interface SessionListEntry {
  id: string;
  /** In the profile `official`, the alias that the client got from `session/new`; otherwise the same as `id`. */
  sessionId: string;
  cwd: string;
  title: string;
  createdAt: string;
  updatedAt: string;
  /** Only for editors: other clients get the entries of the interface specification. */
  archived?: boolean;
}

/** Result of `session/list`. */
export interface SessionListResult {
  sessions: SessionListEntry[];
  nextCursor?: string;
}

/**
 * A page of sessions, newest first. In the `spec` profile the first page returns an empty cursor, which requests page
 * 2.
 */
export async function listSessions(
  agent: Agent,
  rawParams: unknown,
  clientProfile: Pick<ClientProfile, "profile" | "isEditor">,
): Promise<SessionListResult> {
  const params = readParams(rawParams);
  const archived = ARCHIVE_FILTERS.find((filter) => filter === (params["archived"] ?? "exclude"));
  if (!archived) throw toParamsError("archived", ARCHIVE_FILTERS.join(", "));
  const cwd = readOptionalString(params, "cwd");
  const cursor = readOptionalString(params, "cursor");
  const position = cursor === undefined ? {} : cursor === "" ? { offset: PAGE_SIZE } : { before: readCursor(cursor) };
  const page = await agent.sessions.list({
    projectDir: cwd !== undefined && path.isAbsolute(cwd) ? path.resolve(cwd) : cwd,
    ...position,
    archived,
    // An extra session shows that another page follows.
    limit: PAGE_SIZE + 1,
  });
  const pageSessions = page.sessions.slice(0, PAGE_SIZE);
  const lastSession = pageSessions.at(-1);
  const nextCursor = page.sessions.length > PAGE_SIZE && lastSession ? writeCursor(lastSession) : undefined;
  const sessions = pageSessions.map((session) => toEntry(session, clientProfile));
  if (cursor === undefined && clientProfile.profile === "spec") return { sessions, nextCursor: "" };
  return { sessions, ...(nextCursor === undefined ? {} : { nextCursor }) };
}

function toEntry(
  session: Session,
  { profile, isEditor }: Pick<ClientProfile, "profile" | "isEditor">,
): SessionListEntry {
  const { id, alias, projectDir, title, createdAt, updatedAt } = session;
  return {
    id,
    sessionId: profile === "official" && alias !== "" ? alias : id,
    cwd: projectDir,
    title: escapeInvisible(title),
    createdAt,
    updatedAt,
    ...(isEditor && { archived: session.archived === true }),
  };
}

function writeCursor({ updatedAt, id }: Session): string {
  return Buffer.from(JSON.stringify([updatedAt, id])).toString("base64url");
}

function readCursor(cursor: string): { updatedAt: string; id: string } {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    if (Array.isArray(value) && !isRecord(value)) {
      const [updatedAt, id] = value as unknown[];
      if (typeof updatedAt === "string" && typeof id === "string") return { updatedAt, id };
    }
  } catch {
    // Rejected below like any invalid cursor.
  }
  throw toParamsError("cursor", "a nextCursor of session/list");
}
