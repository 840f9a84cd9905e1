/** A shortcut in the help dialog. */
export interface Shortcut {
  keys: readonly string[];
  description: string;
}

/** Shortcuts by the context in which they apply, in the order of the help dialog. */
export const SHORTCUT_GROUPS: readonly { context: string; shortcuts: readonly Shortcut[] }[] = [
  {
    context: "Everywhere",
    shortcuts: [
      { keys: ["?"], description: "Show this list" },
      { keys: ["n"], description: "New session" },
      { keys: ["/"], description: "Search the sessions" },
      { keys: ["i"], description: "Go to the prompt" },
      { keys: ["g", "r"], description: "Runs of all sessions" },
      { keys: ["g", "c"], description: "Tokens and cost of the session" },
      { keys: ["t"], description: "Switch between dark and light" },
      { keys: ["Esc"], description: "Leave the field, close the open panel" },
      { keys: ["Esc", "Esc"], description: "Stop the run" },
    ],
  },
  {
    context: "While you write",
    shortcuts: [
      { keys: ["Enter"], description: "Send, or instruct the active run" },
      { keys: ["Shift", "Enter"], description: "New line" },
      { keys: ["Ctrl", "V"], description: "Attach files from the clipboard" },
    ],
  },
  {
    context: "During a question of the run",
    shortcuts: [
      { keys: ["a"], description: "Go to the question" },
      { keys: ["1"], description: "Choose the first answer (2, 3, … the others)" },
    ],
  },
];

/** Actions of the shortcuts of `SHORTCUT_GROUPS`. */
export interface ShortcutActions {
  toggleHelp(): void;
  openNewSession(): void;
  focusSearch(): void;
  focusPrompt(): void;
  openRuns(): void;
  toggleSpending(): void;
  toggleTheme(): void;
  focusAsk(): void;
  /** Handles the first Escape. Returns whether a second Escape stops the run. */
  pressFirstEscape(): boolean;
  /** Handles the second Escape. */
  pressSecondEscape(): void;
}

/** Maximum time between the two keys of a shortcut such as `g r`, in ms. */
const MAX_SEQUENCE_MS = 1_500;

/**
 * Listens to keys that are not typed into a field, and to Escape everywhere. Returns a function that removes the
 * listener. `now`: clock in ms.
 */
export function listenToKeys(target: EventTarget, actions: ShortcutActions, now: () => number = Date.now): () => void {
  const actionsByKey: Readonly<Record<string, () => void>> = {
    "?": actions.toggleHelp,
    n: actions.openNewSession,
    "/": actions.focusSearch,
    i: actions.focusPrompt,
    t: actions.toggleTheme,
    a: actions.focusAsk,
  };
  const actionsAfterG: Readonly<Record<string, () => void>> = { r: actions.openRuns, c: actions.toggleSpending };
  let lastKey = { key: "", pressedAtMs: 0 };
  const handleFirstEscape = () => {
    if (!actions.pressFirstEscape()) lastKey = { key: "", pressedAtMs: 0 };
  };
  const onKeyDown = (event: Event) => {
    const { key, ctrlKey, metaKey, altKey, isComposing, defaultPrevented, target } = event as KeyboardEvent;
    if (ctrlKey || metaKey || altKey || isComposing || defaultPrevented) return;
    const previousKey = now() - lastKey.pressedAtMs < MAX_SEQUENCE_MS ? lastKey.key : "";
    const isEscape = key === "Escape";
    if (!isEscape && isField(target)) return;
    lastKey = { key, pressedAtMs: now() };
    const action = isEscape
      ? previousKey === "Escape"
        ? actions.pressSecondEscape
        : handleFirstEscape
      : previousKey === "g"
        ? actionsAfterG[key]
        : Object.hasOwn(actionsByKey, key)
          ? actionsByKey[key]
          : undefined;
    if (!action) return;
    // The key itself must not be typed into the field that gets the focus.
    event.preventDefault();
    if (isEscape ? previousKey === "Escape" : previousKey === "g") lastKey = { key: "", pressedAtMs: 0 };
    action();
  };
  target.addEventListener("keydown", onKeyDown);
  return () => target.removeEventListener("keydown", onKeyDown);
}

function isField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
}
