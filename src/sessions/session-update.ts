import { InputError } from "../ports/errors.js";
import type { PermissionGrant, Session } from "../ports/session.js";
import type { SessionFields } from "../ports/session-change.js";
import { SESSION_MODES } from "./session-modes.js";

/** Throws `InputError` for an unknown mode, and for permission grants that the session does not have. */
export function checkSessionUpdate(
  { mode, permissionGrants }: Pick<SessionFields, "mode" | "permissionGrants">,
  session: Session,
): void {
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
