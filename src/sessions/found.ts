import { SessionNotFoundError } from "../ports/errors.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Session } from "../ports/session.js";

/** By id or alias. Rejects with `SessionNotFoundError`. */
export async function found(store: SessionDriver, id: string): Promise<Session> {
  const session = await store.get(id);
  if (!session) throw new SessionNotFoundError(id);
  return session;
}
