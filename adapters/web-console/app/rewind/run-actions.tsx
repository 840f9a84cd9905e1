import { useSignal } from "@preact/signals";
import type { ApiRun } from "gantry/client";
import { Icon } from "../parts/icon.js";
import { toFragment } from "../state/router.js";
import type { WatchedSession } from "../state/watched-session.js";
import { canRedo, rewindTask } from "./rewind-task.js";

/** End states that a retry continues. */
const RETRIED_STATES: ReadonlySet<ApiRun["state"]> = new Set(["failed", "cancelled", "interrupted"]);

/** Buttons below an ended run. */
export function RunActions({ session, run }: { session: WatchedSession; run: ApiRun }) {
  const isRetrying = useSignal(false);
  if (!session.isIdle.value || session.info.value?.spawned_by) return null;
  const retry = async () => {
    isRetrying.value = true;
    await session.retry();
    isRetrying.value = false;
  };
  return (
    <div class="run-actions" role="group" aria-label="Actions of the run">
      {RETRIED_STATES.has(run.state) && !canRedo(session) && (
        <button type="button" class="button quiet" disabled={isRetrying.value} onClick={() => void retry()}>
          <Icon name="retry" /> Retry
        </button>
      )}
      {session.rows.value.length > 0 && <RewindButton session={session} action="undo" />}
      <a class="button quiet" href={toFragment({ name: "changes", id: session.id })}>
        <Icon name="file-edit" /> Changes
      </a>
      {canRedo(session) && <RewindButton session={session} action="redo" />}
    </div>
  );
}

const REWIND_BUTTONS = {
  undo: { icon: "rewind", label: "Undo", title: "Undo the last run with its files" },
  redo: { icon: "redo", label: "Redo", title: "Revert the last undo" },
} as const;

/** Opens the dialog of an action. */
function RewindButton({ session, action }: { session: WatchedSession; action: keyof typeof REWIND_BUTTONS }) {
  const { icon, label, title } = REWIND_BUTTONS[action];
  return (
    <button type="button" class="button quiet" title={title} onClick={() => (rewindTask.value = { session, action })}>
      <Icon name={icon} /> {label}
    </button>
  );
}
