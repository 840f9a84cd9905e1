import { useSignal } from "@preact/signals";
import { ApiError, type ApiWorktree, type ApiWorktreeFile } from "gantry/client";
import { useEffect } from "preact/hooks";
import { escapeInvisible } from "../content/escape.js";
import { Icon } from "../parts/icon.js";
import { useConsole } from "../state/context.js";
import { toErrorMessage } from "../state/error-message.js";
import type { WatchedSession } from "../state/watched-session.js";

/** Applies the changes of a session's worktree to its project folder. Renders nothing for a session without worktree. */
export function WorktreeBar({ session }: { session: WatchedSession }) {
  const store = useConsole();
  const worktree = useSignal<ApiWorktree | null>(null);
  const problem = useSignal<{ message: string; files: readonly ApiWorktreeFile[] } | undefined>(undefined);
  const isApplying = useSignal(false);
  useEffect(() => {
    const controller = new AbortController();
    store.client.sessions.worktree(session.id, { signal: controller.signal }).then(
      (value) => (worktree.value = value),
      (error: unknown) => !controller.signal.aborted && store.reportError(error),
    );
    return () => controller.abort();
  }, [session]);
  if (!worktree.value) return null;
  const apply = async () => {
    isApplying.value = true;
    problem.value = undefined;
    try {
      const { length: count } = await store.client.sessions.applyWorktree(session.id);
      store.notify(count === 0 ? "There are no new changes." : `Changes of ${countFiles(count)} were applied.`);
    } catch (error) {
      problem.value = { message: toErrorMessage(error), files: readMismatches(error) };
    } finally {
      isApplying.value = false;
    }
  };
  return (
    <section class="worktree-bar" aria-label="Worktree">
      <p>
        The session works on a copy of <bdi>{escapeInvisible(worktree.value.project_dir)}</bdi>.
      </p>
      <button
        type="button"
        class="button"
        disabled={!session.isIdle.value || isApplying.value}
        onClick={() => void apply()}
      >
        Apply to the folder
      </button>
      {problem.value && (
        <div class="new-missing" role="alert">
          <Icon name="warning" />
          <div>
            <p>{problem.value.message}</p>
            <ul>
              {problem.value.files.map(({ path, reason }) => (
                <li key={path}>
                  <bdi>{escapeInvisible(path)}</bdi>: {reason}
                </li>
              ))}
            </ul>
          </div>
        </div>
      )}
    </section>
  );
}

function countFiles(count: number): string {
  return count === 1 ? "one file" : `${count} files`;
}

/** The files that the server could not change, with the reasons. */
function readMismatches(error: unknown): readonly ApiWorktreeFile[] {
  if (!(error instanceof ApiError) || error.code !== "worktree_conflict") return [];
  const { files = [] } = error.body as { files?: readonly ApiWorktreeFile[] };
  return files.filter(({ reason }) => reason !== "");
}
