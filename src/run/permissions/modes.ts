import type { PermissionPolicy } from "../../ports/permission-policy.js";
import type { SessionMode } from "../../ports/session.js";
import type { ToolKind, ToolSpec } from "../../ports/tool.js";
import type { ParentCall, PermissionRun } from "./permission-run.js";
import { SESSION_MODES } from "../../sessions/session-modes.js";

/** Kinds of tools that change nothing; of those that need permission a person is asked. */
const LOOKING: ReadonlySet<ToolKind> = new Set(["read", "search", "think", "fetch"]);

/** Why a call may not run in a session's mode, whatever a policy says; undefined where it may. */
export function refusedInMode(mode: SessionMode, { kind, name }: ToolSpec): string | undefined {
  if (mode !== "plan" || LOOKING.has(kind)) return undefined;
  return (
    `The session is in plan mode: nothing that could change anything runs, so ${name} did not. ` +
    "Read and search, then say what you would do; the user leaves plan mode when they agree."
  );
}

/**
 * The mode as it is now: somebody may have changed it since the run began, and may have taken leave back. One that nobody
 * knows counts as the strictest.
 */
export async function currentMode({ store, sessionId, conversation, spawned }: PermissionRun): Promise<SessionMode> {
  const stored = (await store.get(sessionId)) ?? conversation.session;
  const { leave } = stored;
  const own = SESSION_MODES.includes(stored.mode) ? stored.mode : "plan";
  const mode = spawned ? await helpersMode(own, spawned) : own;
  conversation.session = { ...conversation.session, mode, leave };
  return mode;
}

/** That of its asker, unless somebody gave it a stricter one. */
async function helpersMode(own: SessionMode, { asker, mode }: ParentCall): Promise<SessionMode> {
  const theirs = await currentMode(asker);
  return own !== mode && SESSION_MODES.indexOf(own) > SESSION_MODES.indexOf(theirs) ? own : theirs;
}

/** The run whose people are asked: of a helper's that of its asker. */
export function frontOf(run: PermissionRun): PermissionRun {
  return run.spawned ? frontOf(run.spawned.asker) : run;
}

/** Asked last: in `auto` tools that need permission ask where the run's own door answers, and run where it does not; in the other modes they ask. */
export const BY_MODE: PermissionPolicy = {
  name: "mode",
  judge: ({ tool, mode, canAsk }) => ({
    action: tool.needsPermission && (mode !== "auto" || canAsk) ? "ask" : "allow",
  }),
};

/** Whether somebody is there who may answer what a run asks. */
export function isAttended(run: PermissionRun): boolean {
  const { ask, tail } = frontOf(run);
  return ask !== undefined || tail.isAttended;
}
