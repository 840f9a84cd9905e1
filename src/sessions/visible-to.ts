import type { Session } from "../ports/session.js";

/** Whether a user may see the chain of this first session. Undefined user: true. */
export function isVisibleTo({ owner, shared }: Pick<Session, "owner" | "shared">, user: string | undefined): boolean {
  return user === undefined || shared === true || owner === user;
}
