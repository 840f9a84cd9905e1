import { signal, type ReadonlySignal } from "@preact/signals";

/** Texts that the browser did not store, by key. They exist in this page only. */
const unstoredTexts = new Map<string, string>();
const isFull = signal(false);

/** Whether the browser has refused to store a text of this page: its storage is full or not available. */
export const isStorageFull: ReadonlySignal<boolean> = isFull;

/** The JSON value of a key; undefined if the key does not exist or its text is no JSON. */
export function readStored(key: string): unknown {
  try {
    return JSON.parse(unstoredTexts.get(key) ?? localStorage.getItem(key) ?? "null") ?? undefined;
  } catch {
    return undefined;
  }
}

/** Stores a value as JSON; undefined removes the key. All windows of the browser read the same value. */
export function writeStored(key: string, value: unknown): void {
  unstoredTexts.set(key, value === undefined ? "null" : JSON.stringify(value));
  // Room for one key may be room for the others too.
  for (const [unstoredKey, text] of unstoredTexts) storeText(unstoredKey, text);
  isFull.value = unstoredTexts.size > 0;
}

function storeText(key: string, text: string): void {
  try {
    if (text === "null") localStorage.removeItem(key);
    else localStorage.setItem(key, text);
    unstoredTexts.delete(key);
  } catch {
    // The next write tries again.
  }
}

/** Calls `onChange` when another window of the browser has changed the key, or when this page is shown again. */
export function listenToStored(key: string, onChange: () => void): void {
  addEventListener("storage", (event) => {
    if (event.key === key || event.key === null) onChange();
  });
  // A frozen page receives no events.
  addEventListener("pageshow", onChange);
  document.addEventListener("visibilitychange", onChange);
}
