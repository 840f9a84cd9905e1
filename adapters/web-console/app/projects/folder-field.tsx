import { useSignal } from "@preact/signals";
import { ApiError } from "gantry/client";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "../parts/icon.js";
import { useConsole } from "../state/context.js";

/** Chooses the folder of a new session. */
export function FolderField({ onDone }: { onDone: () => void }) {
  const store = useConsole();
  const { projectDir } = store.newSessionSettings;
  const text = useSignal(projectDir.peek());
  const error = useSignal("");
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const choose = async () => {
    const folder = text.peek().trim();
    try {
      // The server checks the folder, and answers with its normalized path.
      const scope = folder === "" ? {} : { projectDir: folder };
      const { project_dir: resolvedFolder } = await store.client.git(scope);
      projectDir.value = folder === "" ? "" : resolvedFolder;
      onDone();
    } catch (failure) {
      error.value =
        failure instanceof ApiError && failure.status === 400
          ? "This folder does not exist, or server.project_roots does not permit it."
          : failure instanceof Error
            ? failure.message
            : String(failure);
    }
  };
  return (
    <form
      class="new-folder-form"
      onSubmit={(event) => {
        event.preventDefault();
        void choose();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        onDone();
      }}
    >
      <label>
        <span class="visually-hidden">Project folder</span>
        <input
          class="field"
          list="known-folders"
          placeholder="Project folder; empty: the folder of the server"
          autocomplete="off"
          spellcheck={false}
          value={text.value}
          ref={field}
          aria-invalid={error.value !== ""}
          aria-describedby={error.value === "" ? undefined : "folder-error"}
          onInput={(event) => {
            text.value = event.currentTarget.value;
            error.value = "";
          }}
        />
      </label>
      <datalist id="known-folders">
        {store.sessionBrowser.projectDirs.value.map((folder) => (
          <option key={folder} value={folder} />
        ))}
      </datalist>
      <button type="submit" class="button">
        Use
      </button>
      <button type="button" class="button quiet" onClick={onDone}>
        Cancel
      </button>
      {error.value !== "" && (
        <p class="new-missing" id="folder-error" role="alert">
          <Icon name="warning" />
          <span>{error.value}</span>
        </p>
      )}
    </form>
  );
}
