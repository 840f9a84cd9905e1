import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { escapeInvisible } from "./content/escape.js";
import { readPromptHistory } from "./prompt-history.js";

const MAX_SUGGESTIONS = 8;

/** Search in the prompt history, above the prompt. `onChosen` receives the prompt; undefined if the search ends. */
export function ComposerHistory({
  isOpen,
  onChosen,
}: {
  isOpen: Signal<boolean>;
  onChosen: (prompt: string | undefined) => void;
}) {
  if (!isOpen.value) return null;
  const close = (prompt?: string) => {
    isOpen.value = false;
    onChosen(prompt);
  };
  return <HistorySearch onClosed={close} />;
}

function HistorySearch({ onClosed }: { onClosed: (prompt?: string) => void }) {
  const query = useSignal("");
  const index = useSignal(0);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const words = query.value.toLowerCase().split(/\s+/);
  const prompts = readPromptHistory()
    .filter((prompt) => words.every((word) => prompt.toLowerCase().includes(word)))
    .slice(0, MAX_SUGGESTIONS);
  const selectedIndex = Math.min(index.value, prompts.length - 1);
  const onKeyDown = (event: KeyboardEvent) => {
    const { key, ctrlKey, isComposing } = event;
    if (isComposing) return;
    if (key === "Enter") onClosed(prompts[selectedIndex]);
    else if (key === "Escape") onClosed();
    else if (key === "ArrowDown" || (key === "r" && ctrlKey)) index.value = (selectedIndex + 1) % (prompts.length || 1);
    else if (key === "ArrowUp") index.value = (selectedIndex + prompts.length - 1) % (prompts.length || 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="composer-history">
      <input
        ref={field}
        class="composer-history-field"
        role="combobox"
        aria-label="Search earlier prompts"
        aria-expanded={prompts.length > 0}
        aria-controls="composer-history-list"
        aria-activedescendant={prompts.length > 0 ? `composer-history-${selectedIndex}` : undefined}
        placeholder="Search earlier prompts…"
        value={query.value}
        onInput={(event) => {
          query.value = event.currentTarget.value;
          index.value = 0;
        }}
        onKeyDown={onKeyDown}
        onBlur={() => onClosed()}
      />
      <ul class="composer-commands" role="listbox" aria-label="Earlier prompts" id="composer-history-list">
        {prompts.map((prompt, promptIndex) => (
          <li
            key={prompt}
            id={`composer-history-${promptIndex}`}
            class="composer-command"
            role="option"
            aria-selected={promptIndex === selectedIndex}
            onMouseDown={(event) => {
              event.preventDefault();
              onClosed(prompt);
            }}
          >
            <span class="clipped">{escapeInvisible(prompt)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
