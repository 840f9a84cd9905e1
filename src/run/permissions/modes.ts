import type { PermissionPolicy } from "../../ports/permission-policy.js";
import type { SessionMode } from "../../ports/session.js";
import type { ToolKind, ToolSpec } from "../../ports/tool.js";
import type { ParentCall, PermissionRun } from "./permission-run.js";
import { SESSION_MODES } from "../../sessions/session-modes.js";

/** Kinds of tools that change nothing and run in plan mode. A tool that needs permission still asks. */
const READ_ONLY_KINDS: ReadonlySet<ToolKind> = new Set(["read", "search", "think", "fetch"]);

/** Why a call may not run in a session's mode, regardless of policies; undefined if it may. */
export function deniedByMode(mode: SessionMode, { kind, name }: ToolSpec): string | undefined {
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
export async function currentMode({ store, sessionId, conversation, spawned }: PermissionRun): Promise<SessionMode> {
  const stored = (await store.get(sessionId)) ?? conversation.session;
  const { permissionGrants } = stored;
  const storedMode = SESSION_MODES.includes(stored.mode) ? stored.mode : "plan";
  const mode = spawned ? await subagentMode(storedMode, spawned) : storedMode;
  conversation.session = { ...conversation.session, mode, permissionGrants: permissionGrants };
  return mode;
}

/** The mode of the parent run, unless the subagent's session was set to a stricter one. */
async function subagentMode(storedMode: SessionMode, { parentRun, mode }: ParentCall): Promise<SessionMode> {
  const parentMode = await currentMode(parentRun);
  return storedMode !== mode && SESSION_MODES.indexOf(storedMode) > SESSION_MODES.indexOf(parentMode)
    ? storedMode
    : parentMode;
}

/** The run whose clients are asked. For a subagent this is the outermost parent run. */
export function rootRun(run: PermissionRun): PermissionRun {
  return run.spawned ? rootRun(run.spawned.parentRun) : run;
}

/**
 * Evaluated last. In mode `auto`, tools that need permission ask if the run's own client can answer, and otherwise run.
 * In other modes they always ask.
 */
export const MODE_POLICY: PermissionPolicy = {
  name: "mode",
  judge: ({ tool, mode, canAsk }) => ({
    action: tool.needsPermission && (mode !== "auto" || canAsk) ? "ask" : "allow",
  }),
};

/** Whether a client can answer requests of a run. */
export function isAttended(run: PermissionRun): boolean {
  const { ask, tail } = rootRun(run);
  return ask !== undefined || tail.isAttended;
}
