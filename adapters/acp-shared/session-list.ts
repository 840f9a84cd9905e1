import path from "node:path";
import type { Agent, Session } from "gantry";
import { isRecord } from "gantry/plugin";
import { invalidParams } from "./errors.js";
import { optionalString, readParams } from "./params.js";
import { escapeInvisible } from "./printable-line.js";
import type { Profile } from "./wire.js";

/** Sessions on one page. */
const PAGE_SIZE = 50;

interface Entry {
  id: string;
  sessionId: string;
  cwd: string;
  title: string;
  createdAt: string;
  updatedAt: string;
}

/** Result of `session/list`. */
export interface SessionListResult {
  sessions: Entry[];
  nextCursor?: string;
}

/**
 * A page of sessions, newest first. In the `spec` profile the first page returns an empty cursor, which requests page
 * 2.
 */
export async function listSessions(agent: Agent, raw: unknown, profile: Profile): Promise<SessionListResult> {
  const params = readParams(raw);
  const cwd = optionalString(params, "cwd");
  const cursor = optionalString(params, "cursor");
  const start = cursor === undefined ? {} : cursor === "" ? { offset: PAGE_SIZE } : { before: readCursor(cursor) };
  const page = await agent.sessions.list({
    projectDir: cwd !== undefined && path.isAbsolute(cwd) ? path.resolve(cwd) : cwd,
    ...start,
    // An extra session shows that there is another page.
    limit: PAGE_SIZE + 1,
  });
  const shown = page.sessions.slice(0, PAGE_SIZE);
  const last = shown.at(-1);
  const next = page.sessions.length > PAGE_SIZE && last ? writeCursor(last) : undefined;
  const sessions = shown.map((session) => entryOf(session, profile));
  if (cursor === undefined && profile === "spec") return { sessions, nextCursor: "" };
  return { sessions, ...(next === undefined ? {} : { nextCursor: next }) };
}

function entryOf(session: Session, profile: Profile): Entry {
  const { id, alias, projectDir, title, createdAt, updatedAt } = session;
  return {
    id,
    sessionId: profile === "official" && alias !== "" ? alias : id,
    cwd: projectDir,
    title: escapeInvisible(title),
    createdAt,
    updatedAt,
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
  throw invalidParams("cursor", "a nextCursor of session/list");
}
