import type { SessionMode } from "gantry";
import { SESSION_MODES } from "gantry/plugin";
import type { Context } from "koa";
import type { ApiDependencies } from "./api.js";
import { HttpError } from "./errors.js";

/**
 * Throws `HttpError` unless the request's headers prove that a person sent the request. The configured
 * `required_headers` prove this, or the token of the HTTP listener in the header `Authorization`.
 */
export function requirePerson(ctx: Context, { isFromPerson }: ApiDependencies): void {
  if (isFromPerson(ctx.req)) return;
  throw new HttpError(
    403,
    "this operation requires a person: send `Authorization: Bearer <token>` with the content of the file `token` in gantry's home folder",
    {},
    "person_required",
  );
}

/**
 * Requires a person if `mode` allows more than the current mode. The current mode is the mode of the session, or the
 * agent's default mode if `sessionId` is undefined or unknown. An undefined `mode` changes nothing.
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
  // `SESSION_MODES` begins with the mode that allows most.
  if (SESSION_MODES.indexOf(mode) < SESSION_MODES.indexOf(currentMode)) requirePerson(ctx, dependencies);
}
