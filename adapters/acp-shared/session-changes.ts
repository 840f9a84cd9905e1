import { hasCode, type Agent, type Session } from "gantry";
import { RpcError, toParamsError } from "./errors.js";
import { ERROR_CODES } from "./wire.js";

/** Maximum length of a title, as for generated titles. */
const MAX_TITLE_CHARACTERS = 50;

/**
 * Copies the whole conversation of a session to a new session. A session without messages gives a new session in
 * `cwd`. Rejects with `RpcError` -32002 for an unknown session, or like `Sessions.fork`.
 */
export async function forkSession(agent: Agent, sessionId: string, cwd: string): Promise<Session> {
  return withResourceErrors(sessionId, async () => {
    const [lastMessage] = await agent.sessions.messages(sessionId, { before: Number.MAX_SAFE_INTEGER, limit: 1 });
    if (lastMessage) return agent.sessions.fork(sessionId, lastMessage.id);
    return agent.sessions.create({ projectDir: cwd, title: "ACP Session" });
  });
}

/**
 * Stores the title of a session, which is not generated again. Returns the title as stored: one line, cut at 50
 * characters. Rejects with `RpcError`: -32602 for an invalid title, -32002 for an unknown session.
 */
export async function setSessionTitle(
  agent: Agent,
  sessionId: string,
  { title }: Readonly<Record<string, unknown>>,
): Promise<{ title: string }> {
  if (typeof title !== "string") throw toParamsError("title", "a string");
  const line = title.replace(/[\s\p{Cc}\p{Cs}]+/gu, " ").trim();
  if (line === "") throw toParamsError("title", "a text that is not empty");
  return withResourceErrors(sessionId, async () => {
    const session = await agent.sessions.update(sessionId, { title: cutTitle(line) });
    return { title: session.title };
  });
}

/**
 * Archives a session after its runs were cancelled, or ends that state. Returns the id of the chain's first session.
 * Rejects with `RpcError` -32002 for an unknown session.
 */
export async function archiveSession(agent: Agent, sessionId: string, archived: boolean): Promise<string> {
  return withResourceErrors(sessionId, async () => (await agent.sessions.update(sessionId, { archived })).chain.root);
}

function cutTitle(line: string): string {
  let title = "";
  for (const { segment } of new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(line)) {
    if (title.length + segment.length > MAX_TITLE_CHARACTERS) break;
    title += segment;
  }
  return title.trimEnd();
}

/** Runs a method whose schema requires the code -32002 for an unknown session. */
async function withResourceErrors<T>(sessionId: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!hasCode(error, "session_not_found")) throw error;
    throw new RpcError(ERROR_CODES.resourceNotFound, "session not found", { sessionId });
  }
}
