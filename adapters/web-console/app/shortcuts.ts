/** Actions of the shortcuts, which `help.tsx` lists. */
export interface ShortcutActions {
  toggleHelp(): void;
  openNewSession(): void;
  focusSearch(): void;
  focusPrompt(): void;
  openRuns(): void;
  openQuestions(): void;
  openSearch(): void;
  openSettings(): void;
  togglePalette(): void;
  switchMode(): void;
  toggleSpending(): void;
  goToFirstMessage(): void;
  goToEnd(): void;
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
 * Listens to keys that are not typed into a field, and to Escape and keys with a modifier everywhere. Returns a function that removes the
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
  const actionsAfterG: Readonly<Record<string, () => void>> = {
    r: actions.openRuns,
    q: actions.openQuestions,
    m: actions.openSearch,
    s: actions.openSettings,
    c: actions.toggleSpending,
    t: actions.goToFirstMessage,
    e: actions.goToEnd,
  };
  let lastKey = { key: "", pressedAtMs: 0 };
  const handleFirstEscape = () => {
    if (!actions.pressFirstEscape()) lastKey = { key: "", pressedAtMs: 0 };
  };
  const onKeyDown = (event: Event) => {
    const { key, ctrlKey, metaKey, altKey, isComposing, defaultPrevented, target } = event as KeyboardEvent;
    const chordAction = defaultPrevented || isComposing ? undefined : findChordAction(event as KeyboardEvent, actions);
    if (chordAction) {
      event.preventDefault();
      chordAction();
      return;
    }
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

/** The action of a key with a modifier, which also works in fields. */
function findChordAction(
  { key, code, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent,
  actions: ShortcutActions,
): (() => void) | undefined {
  if (shiftKey) return undefined;
  if (ctrlKey !== metaKey && !altKey && key.toLowerCase() === "k") return actions.togglePalette;
  // With Alt, the key's character depends on the keyboard.
  return altKey && !ctrlKey && !metaKey && code === "KeyM" ? actions.switchMode : undefined;
}

function isField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
}
