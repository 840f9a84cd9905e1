import { SessionNotFoundError } from "../ports/errors.js";
import type { ChainHead, SessionDriver } from "../ports/session-driver.js";
import type { Session } from "../ports/session.js";

/** Returns the session with an id or alias. Rejects with `SessionNotFoundError`. */
export async function requireSession(store: SessionDriver, id: string): Promise<Session> {
  const session = await store.get(id);
  if (!session) throw new SessionNotFoundError(id);
  return session;
}

/** Returns the head of a chain without messages, by id or alias. Rejects with `SessionNotFoundError`. */
export async function requireHead(store: SessionDriver, id: string): Promise<ChainHead> {
  const head = await store.head(id, { messages: false });
  if (!head) throw new SessionNotFoundError(id);
  return head;
}
