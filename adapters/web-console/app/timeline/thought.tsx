import type { Signal } from "@preact/signals";
import { Icon } from "../parts/icon.js";

/** A model's reasoning, folded to one line until the user opens it. */
export function Thought({ text, grows, open }: { text: string; grows: boolean; open: Signal<boolean | undefined> }) {
  return (
    <div class="thought">
      <button type="button" class="fold" aria-expanded={open.value === true} onClick={() => (open.value = !open.value)}>
        <Icon name="brain" />
        <span class="call-title clipped">{grows ? "Thinking …" : "Thought"}</span>
        {grows && !open.value && <span class="call-title aside clipped">{lastLine(text)}</span>}
        <span class="chevron">
          <Icon name="chevron-right" />
        </span>
      </button>
      {open.value && <div class="thought-text">{text.trim()}</div>}
    </div>
  );
}

function lastLine(text: string): string {
  return text.trimEnd().split("\n").at(-1)?.slice(-120) ?? "";
}
