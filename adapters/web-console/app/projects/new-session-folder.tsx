import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { escapeInvisible } from "../content/escape.js";
import { useGitState } from "../frame/git-branch.js";
import { createLazyView } from "../frame/lazy-view.js";
import { useConsole } from "../state/context.js";
import "./projects.css";

const FolderField = createLazyView(async () => (await import("../deferred.js")).FolderField, "");

/** The folder of a new session with its Git branch, and a field to choose another folder. */
export function NewSessionFolder() {
  const store = useConsole();
  const { projectDir, worktree } = store.newSessionSettings;
  const isOpen = useSignal(false);
  const state = useGitState(projectDir.value === "" ? {} : { projectDir: projectDir.value }, true);
  const folder = projectDir.value || state?.project_dir;
  const isCopyable = typeof state?.commit === "string";
  useEffect(() => {
    // The choice applies to repositories with a commit only.
    if (state && !isCopyable) worktree.value = false;
  }, [state]);
  return (
    <>
      <p>
        The agent reads and changes files and runs commands in{" "}
        {folder === undefined ? "its project folder" : <bdi class="new-folder">{escapeInvisible(folder)}</bdi>}
        {state?.branch && (
          <>
            {" "}
            on the branch <bdi>{escapeInvisible(state.branch)}</bdi>
            {state.dirty > 0 && ` with ${state.dirty} changed ${state.dirty === 1 ? "file" : "files"}`}
          </>
        )}
        . All sessions are stored.
      </p>
      {isCopyable && (
        <label class="new-worktree" title="The changes return to the folder when you apply them.">
          <input
            type="checkbox"
            checked={worktree.value}
            onChange={({ currentTarget }) => (worktree.value = currentTarget.checked)}
          />{" "}
          Work on a copy of the last commit (a Git worktree)
        </label>
      )}
      {!isOpen.value && (
        <button type="button" class="button quiet new-folder-button" onClick={() => (isOpen.value = true)}>
          Choose another folder
        </button>
      )}
      {isOpen.value && <FolderField onDone={() => (isOpen.value = false)} />}
    </>
  );
}
