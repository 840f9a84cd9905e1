import { useSignal } from "@preact/signals";
import type { ApiSession } from "gantry/client";
import { useEffect, useRef } from "preact/hooks";
import type { PaletteCommand } from "./palette-command.js";
import { findCommands, toSearchCommand, toSessionCommand } from "./palette-commands.js";
import { useConsole } from "./state/context.js";

/** Pause in typing after which the sessions are searched, in ms. */
const TYPING_PAUSE_MS = 180;
const MAX_SESSIONS = 8;

/** Dialog that finds and runs commands and opens sessions. The focus stays in its field. */
export function Palette() {
  const store = useConsole();
  const search = useSignal("");
  const activeIndex = useSignal(0);
  const dialog = useRef<HTMLDialogElement>(null);
  const foundSessions = useFoundSessions(search.value);
  const hasSearch = search.value.trim() !== "";
  const sessions = hasSearch ? (foundSessions ?? []) : store.sessionBrowser.sessions.value.slice(0, MAX_SESSIONS);
  const options = [
    ...findCommands(store, search.value),
    ...sessions.map((session) => toSessionCommand(store, session)),
    // Not before the sessions are loaded: Enter must not run another command than the one that the user sees.
    ...(hasSearch && foundSessions ? [toSearchCommand(store, search.value)] : []),
  ];
  const activeOption = options[Math.min(activeIndex.value, options.length - 1)];
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    dialog.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [activeOption?.id]);
  const run = (option: PaletteCommand | undefined) => {
    if (!option) return;
    // Closed first: the browser returns the focus, and the command may move it.
    dialog.current?.close();
    store.openPanel.value = "";
    option.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const lastIndex = Math.max(0, options.length - 1);
    const index = Math.min(activeIndex.value, lastIndex);
    if (event.key === "ArrowDown") activeIndex.value = index === lastIndex ? 0 : index + 1;
    else if (event.key === "ArrowUp") activeIndex.value = index === 0 ? lastIndex : index - 1;
    else if (event.key === "Enter") run(activeOption);
    else if (event.key === "Escape") dialog.current?.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Commands"
      onClose={() => store.openPanel.peek() === "palette" && (store.openPanel.value = "")}
      // The content fills the dialog, so a click on the dialog itself is a click on the backdrop.
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <div class="palette-sheet">
        <input
          class="field"
          role="combobox"
          aria-label="Search commands and sessions"
          aria-expanded="true"
          aria-controls="palette-options"
          aria-autocomplete="list"
          aria-activedescendant={activeOption && `palette-${activeOption.id}`}
          placeholder="Search commands and sessions…"
          autocomplete="off"
          value={search.value}
          onInput={(event) => {
            search.value = event.currentTarget.value;
            activeIndex.value = 0;
          }}
          onKeyDown={onKeyDown}
        />
        <ul id="palette-options" class="palette-options" role="listbox" aria-label="Commands and sessions">
          {options.map((option, index) => (
            <li
              key={option.id}
              id={`palette-${option.id}`}
              class="palette-option"
              role="option"
              aria-selected={option === activeOption}
              onPointerMove={() => (activeIndex.value = index)}
              onClick={() => run(option)}
            >
              <bdi class="clipped">{option.label}</bdi>
              <span class="palette-note">{option.note}</span>
            </li>
          ))}
        </ul>
        <p class="palette-empty" role="status">
          {options.length === 0 ? "Nothing found" : ""}
        </p>
      </div>
    </dialog>
  );
}

/** Sessions whose titles contain the search; undefined without a search and until they are loaded. */
function useFoundSessions(search: string): readonly ApiSession[] | undefined {
  const store = useConsole();
  const sessions = useSignal<readonly ApiSession[] | undefined>(undefined);
  const text = search.trim();
  useEffect(() => {
    if (text === "") {
      sessions.value = undefined;
      return undefined;
    }
    const controller = new AbortController();
    const timer = setTimeout(() => {
      store.client.sessions.list({ search: text, size: MAX_SESSIONS }, { signal: controller.signal }).then(
        (page) => (sessions.value = page.sessions),
        (error: unknown) => !controller.signal.aborted && store.reportError(error),
      );
    }, TYPING_PAUSE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [text]);
  return text === "" ? undefined : sessions.value;
}
