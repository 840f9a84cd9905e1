import type { SessionMode } from "gantry";
import { SESSION_MODES } from "gantry/plugin";
import type { Context } from "koa";
import type { ApiDependencies } from "./api.js";
import { HttpError } from "./errors.js";

/**
 * Throws `HttpError` unless the headers prove that a person sent the request: the required headers, or the token of the
 * HTTP listener.
 */
export function requirePerson(ctx: Context, { isFromPerson }: ApiDependencies): void {
  if (isFromPerson(ctx.req)) return;
  throw new HttpError(
    403,
    "only a person may do this: send Authorization: Bearer with the token in the file token of gantry's home folder",
    {},
    "person_required",
  );
}

/**
 * Requires a person for a mode that allows more than the mode of the session, or of new sessions. A stricter mode needs
 * no person.
 */
export async function requirePersonForMode(
  ctx: Context,
  dependencies: ApiDependencies,
  { mode, sessionId }: { mode: SessionMode | undefined; sessionId: string | undefined },
): Promise<void> {
  if (mode === undefined || dependencies.isFromPerson(ctx.req)) return;
  const { agent } = dependencies;
  const session = sessionId === undefined ? undefined : await agent.sessions.get(sessionId);
  const currentMode = session?.mode ?? agent.mode;
  if (SESSION_MODES.indexOf(mode) < SESSION_MODES.indexOf(currentMode)) requirePerson(ctx, dependencies);
}
