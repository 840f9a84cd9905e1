import { InputError } from "../ports/errors.js";
import type { RunState } from "../ports/run.js";
import type { PermissionGrant, Session } from "../ports/session.js";
import type { SessionFields } from "../ports/session-change.js";
import { SESSION_MODES } from "./session-modes.js";

/** The methods of `Runs` that end the runs of a session. */
export interface RunCanceller {
  list(query: { sessionId: string; states: readonly RunState[]; limit: number }): Promise<readonly { id: string }[]>;
  cancel(id: string): Promise<unknown>;
}

/** Maximum number of runs that an update cancels. */
const MAX_CANCELLED_RUNS = 1000;

/** Cancels the open runs of a session, the newest first, so that no queued run starts. Rejects like `Runs.cancel`. */
export async function cancelOpenRuns(runs: RunCanceller, sessionId: string): Promise<void> {
  const states = ["queued", "running", "waiting"] as const;
  for (const { id } of await runs.list({ sessionId, states, limit: MAX_CANCELLED_RUNS })) await runs.cancel(id);
}

/** Throws `InputError` for an unknown value, and for permission grants that the session does not have. */
export function checkSessionUpdate(
  {
    mode,
    permissionGrants,
    archived,
    shared,
  }: Pick<SessionFields, "mode" | "permissionGrants" | "archived" | "shared">,
  session: Session,
): void {
  if (archived !== undefined && typeof archived !== "boolean") throw new InputError("archived", "true or false");
  if (shared !== undefined && typeof shared !== "boolean") throw new InputError("shared", "true or false");
  if (mode !== undefined && !SESSION_MODES.includes(mode))
    throw new InputError(
      "mode",
      `one of ${SESSION_MODES.map((allowedMode) => JSON.stringify(allowedMode)).join(", ")}`,
    );
  if (permissionGrants !== undefined) checkGrants(permissionGrants, session.permissionGrants);
}

function checkGrants(permissionGrants: readonly PermissionGrant[], storedGrants: readonly PermissionGrant[]): void {
  const isSameGrant = (left: PermissionGrant, right: PermissionGrant) =>
    left?.tool === right.tool && left.scope === right.scope;
  if (
    !Array.isArray(permissionGrants) ||
    !permissionGrants.every((grant) =>
      storedGrants.some((storedGrant) => isSameGrant(grant as PermissionGrant, storedGrant)),
    )
  )
    throw new InputError("permissionGrants", "some of what the session has, or none");
}
