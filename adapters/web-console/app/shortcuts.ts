/** A shortcut as the help dialog shows it, in this order. */
export interface Shortcut {
  keys: readonly string[];
  says: string;
}

/** Shortcuts by the context in which they apply. */
export const SHORTCUTS: readonly { where: string; shortcuts: readonly Shortcut[] }[] = [
  {
    where: "Everywhere",
    shortcuts: [
      { keys: ["?"], says: "This help" },
      { keys: ["n"], says: "A new session" },
      { keys: ["/"], says: "Search the sessions" },
      { keys: ["i"], says: "Write a message" },
      { keys: ["g", "r"], says: "Runs of all sessions" },
      { keys: ["g", "c"], says: "Tokens and cost of the session" },
      { keys: ["t"], says: "Dark or light" },
      { keys: ["Esc"], says: "Leave the field, close what is open" },
      { keys: ["Esc", "Esc"], says: "Stop the run" },
    ],
  },
  {
    where: "While you write",
    shortcuts: [
      { keys: ["Enter"], says: "Send, or instruct the active run" },
      { keys: ["Shift", "Enter"], says: "A new line" },
      { keys: ["Ctrl", "V"], says: "Attach files from the clipboard" },
    ],
  },
  {
    where: "When the run asks",
    shortcuts: [
      { keys: ["a"], says: "Go to the question" },
      { keys: ["1"], says: "The first answer (2, 3, … the others)" },
    ],
  },
];

/** Actions of the shortcuts. */
export interface ShortcutActions {
  help(): void;
  newSession(): void;
  search(): void;
  compose(): void;
  runs(): void;
  spending(): void;
  theme(): void;
  ask(): void;
  /** Handles the first Escape. Returns whether a second one stops the run. */
  leave(): boolean;
  /** Handles the second Escape. */
  stop(): void;
}

/** Maximum time between the two keys of a sequence, in ms. */
const SEQUENCE_MS = 1_500;

/** Listens to keys that are not typed into a field. Returns a function that removes the listener. */
export function listenToKeys(target: EventTarget, actions: ShortcutActions, now: () => number = Date.now): () => void {
  const single: Readonly<Record<string, () => void>> = {
    "?": actions.help,
    n: actions.newSession,
    "/": actions.search,
    i: actions.compose,
    t: actions.theme,
    a: actions.ask,
  };
  const afterG: Readonly<Record<string, () => void>> = { r: actions.runs, c: actions.spending };
  let last = { key: "", at: 0 };
  const leave = () => {
    if (!actions.leave()) last = { key: "", at: 0 };
  };
  const listen = (event: Event) => {
    const { key, ctrlKey, metaKey, altKey, isComposing, defaultPrevented, target } = event as KeyboardEvent;
    if (ctrlKey || metaKey || altKey || isComposing || defaultPrevented) return;
    const before = now() - last.at < SEQUENCE_MS ? last.key : "";
    const isEscape = key === "Escape";
    if (!isEscape && isField(target)) return;
    last = { key, at: now() };
    const action = isEscape
      ? before === "Escape"
        ? actions.stop
        : leave
      : before === "g"
        ? afterG[key]
        : Object.hasOwn(single, key)
          ? single[key]
          : undefined;
    if (!action) return;
    // The key itself must not be typed into the field that gets the focus.
    event.preventDefault();
    if (isEscape ? before === "Escape" : before === "g") last = { key: "", at: 0 };
    action();
  };
  target.addEventListener("keydown", listen);
  return () => target.removeEventListener("keydown", listen);
}

function isField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
}
