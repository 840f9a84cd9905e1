import type { Signal } from "@preact/signals";
import { IconButton } from "./parts/button.js";
import { Icon } from "./parts/icon.js";
import { isStorageFull } from "./state/browser-storage.js";

/** Why a prompt was not sent or cannot be stored. `problem`: `""` if there is none. */
export function ComposerProblems({ problem }: { problem: Signal<string> }) {
  return (
    <>
      {isStorageFull.value && (
        <p class="composer-problem" role="status">
          <Icon name="warning" />
          <span>The storage of this browser is full. Unsent texts exist in this window only.</span>
        </p>
      )}
      {problem.value && (
        <p class="composer-problem" role="alert">
          <Icon name="warning" />
          <span>{problem.value}</span>
          <IconButton icon="x" label="Dismiss" onClick={() => (problem.value = "")} />
        </p>
      )}
    </>
  );
}
