import type { PermissionPolicy } from "../../ports/permission-policy.js";
import type { SessionMode } from "../../ports/session.js";
import type { ToolKind } from "../../ports/tool-display.js";
import type { ToolSpec } from "../../ports/tool.js";
import type { ParentCall, PermissionRun } from "./permission-run.js";
import { SESSION_MODES } from "../../sessions/session-modes.js";

/** Kinds of tools that change nothing and run in plan mode. A tool that needs permission still asks. */
const READ_ONLY_KINDS: ReadonlySet<ToolKind> = new Set(["read", "search", "think", "fetch"]);

/** Returns why a call may not run in a session's mode, regardless of policies; undefined if it may run. */
export function findModeDenial(mode: SessionMode, { kind, name }: ToolSpec): string | undefined {
  if (mode !== "plan" || READ_ONLY_KINDS.has(kind)) return undefined;
  return (
    `The session is in plan mode: nothing that could change anything runs, so ${name} did not. ` +
    "Read and search, then describe your plan; the user ends plan mode after approving it."
  );
}

/**
 * Reads the current mode and permission grants from the store, because a client may have changed them since the run
 * started. An unknown mode counts as `plan`, the strictest. Also updates the conversation's session.
 */
export async function refreshMode({
  info: { sessionId, parentCall },
  session: { store, conversation },
}: Pick<PermissionRun, "info" | "session">): Promise<SessionMode> {
  const storedSession = (await store.get(sessionId)) ?? conversation.session;
  const { permissionGrants } = storedSession;
  const storedMode = SESSION_MODES.includes(storedSession.mode) ? storedSession.mode : "plan";
  const mode = parentCall ? await resolveSubagentMode(storedMode, parentCall) : storedMode;
  conversation.session = { ...conversation.session, mode, permissionGrants };
  return mode;
}

/** Returns the mode of the parent run, unless the subagent's session was set to a stricter one. */
async function resolveSubagentMode(storedMode: SessionMode, { parentRun, mode }: ParentCall): Promise<SessionMode> {
  const parentMode = await refreshMode(parentRun);
  return storedMode !== mode && SESSION_MODES.indexOf(storedMode) > SESSION_MODES.indexOf(parentMode)
    ? storedMode
    : parentMode;
}

/** Returns the run whose clients receive requests. For a subagent this is the outermost parent run. */
export function findRootRun(run: PermissionRun): PermissionRun {
  const { parentCall } = run.info;
  return parentCall ? findRootRun(parentCall.parentRun) : run;
}

/**
 * The policy that is evaluated last. In mode `auto`, tools that need permission ask if the run's own client can answer,
 * and otherwise run. In other modes they always ask.
 */
export const MODE_POLICY: PermissionPolicy = {
  name: "mode",
  judge: ({ tool, mode, canAsk }) => ({
    action: tool.needsPermission && (mode !== "auto" || canAsk) ? "ask" : "allow",
  }),
};

/** Whether a client can answer requests of a run. */
export function isAttended(run: PermissionRun): boolean {
  const { permissions, channels } = findRootRun(run);
  return permissions.ask !== undefined || channels.tail.isAttended;
}

/**
 * Whether a client can answer permission requests. In mode `auto` only the client that started the run counts, and only
 * with `alwaysAsk`. In other modes any client counts.
 */
export function hasResponder(run: PermissionRun): boolean {
  const { ask, alwaysAsk } = findRootRun(run).permissions;
  return (ask !== undefined && alwaysAsk) || (run.session.conversation.session.mode !== "auto" && isAttended(run));
}
