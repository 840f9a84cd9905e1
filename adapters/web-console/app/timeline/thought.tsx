import type { Signal } from "@preact/signals";
import { Icon } from "../parts/icon.js";

/** Maximum characters of the last line that a folded, unfinished thought shows. */
const MAX_PREVIEW_CHARACTERS = 120;

/** A model's reasoning, folded to one line until the user opens it. */
export function Thought({
  text,
  isStreaming,
  isOpen,
}: {
  text: string;
  isStreaming: boolean;
  /** The user's choice; undefined before a choice. */
  isOpen: Signal<boolean | undefined>;
}) {
  return (
    <div class="thought">
      <button
        type="button"
        class="fold"
        aria-expanded={isOpen.value === true}
        onClick={() => (isOpen.value = !isOpen.value)}
      >
        <Icon name="brain" />
        <span class="call-title clipped">{isStreaming ? "Thinking …" : "Thought"}</span>
        {isStreaming && !isOpen.value && <span class="call-title aside clipped">{getLastLine(text)}</span>}
        <span class="chevron">
          <Icon name="chevron-right" />
        </span>
      </button>
      {isOpen.value && <div class="thought-text">{text.trim()}</div>}
    </div>
  );
}

function getLastLine(text: string): string {
  return text.trimEnd().split("\n").at(-1)?.slice(-MAX_PREVIEW_CHARACTERS) ?? "";
}
