import { useSignal } from "@preact/signals";
import { escapeInvisible } from "../content/escape.js";
import { useGitState } from "../frame/git-branch.js";
import { createLazyView } from "../frame/lazy-view.js";
import { useConsole } from "../state/context.js";
import "./projects.css";

const FolderField = createLazyView(async () => (await import("../deferred.js")).FolderField, "");

/** The folder of a new session with its Git branch, and a field to choose another folder. */
export function NewSessionFolder() {
  const store = useConsole();
  const { projectDir } = store.newSessionSettings;
  const isOpen = useSignal(false);
  const state = useGitState(projectDir.value === "" ? {} : { projectDir: projectDir.value }, true);
  const folder = projectDir.value || state?.project_dir;
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
      {!isOpen.value && (
        <button type="button" class="button quiet new-folder-button" onClick={() => (isOpen.value = true)}>
          Choose another folder
        </button>
      )}
      {isOpen.value && <FolderField onDone={() => (isOpen.value = false)} />}
    </>
  );
}
