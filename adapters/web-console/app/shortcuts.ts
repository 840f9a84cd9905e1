/** What a key does; shown in the help sheet in this order. */
export interface Shortcut {
  keys: readonly string[];
  says: string;
}

/** Where they hold. */
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
      { keys: ["Enter"], says: "Send, or tell the run under way" },
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

/** What keys lead to. Each is told whether it did something. */
export interface ShortcutActions {
  help(): void;
  newSession(): void;
  search(): void;
  compose(): void;
  runs(): void;
  spending(): void;
  theme(): void;
  ask(): void;
  /** The first Esc; whether a second one is to stop the run. */
  leave(): boolean;
  /** The second. */
  stop(): void;
}

/** Milliseconds in which the second of two keys comes. */
const TOGETHER = 1_500;

/** Listens to keys that are not typed into a field. */
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
    const before = now() - last.at < TOGETHER ? last.key : "";
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
