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
      {session.rows.value.length > 0 && (
        <button
          type="button"
          class="button quiet"
          title="Undo the last run with its files"
          onClick={() => (rewindTask.value = { session, action: "undo" })}
        >
          <Icon name="rewind" /> Undo
        </button>
      )}
      <a class="button quiet" href={toFragment({ name: "changes", id: session.id })}>
        <Icon name="file-edit" /> Changes
      </a>
      {canRedo(session) && (
        <button
          type="button"
          class="button quiet"
          title="Revert the last undo"
          onClick={() => (rewindTask.value = { session, action: "redo" })}
        >
          <Icon name="redo" /> Redo
        </button>
      )}
    </div>
  );
}
