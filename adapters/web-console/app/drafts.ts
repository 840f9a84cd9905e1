import { signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { listenToStored, readStored, writeStored } from "./state/browser-storage.js";

const STORAGE_KEY = "gantry.drafts";
/** Maximum number of stored drafts. The oldest drafts are dropped. */
const MAX_DRAFTS = 50;

/**
 * Unsent texts by session. All windows of the browser show the newest text of a session. The id of a new session is
 * `""`.
 */
export class Drafts {
  readonly #signalsBySessionId = new Map<string, Signal<string>>();
  readonly #keepText: (sessionId: string, text: string) => void;

  /** `keepText` receives a text of another window that this window would otherwise overwrite unseen. */
  constructor(keepText: (sessionId: string, text: string) => void) {
    this.#keepText = keepText;
    listenToStored(STORAGE_KEY, () => {
      for (const [sessionId, text] of this.#signalsBySessionId) text.value = readDraft(sessionId);
    });
  }

  /** The unsent text of a session; "" if there is none. */
  getText(sessionId: string): ReadonlySignal<string> {
    return this.#getSignal(sessionId);
  }

  /** Replaces the unsent text of a session. The text `""` removes the draft. */
  setText(sessionId: string, text: string): void {
    const shownText = this.#getSignal(sessionId);
    const storedText = readDraft(sessionId);
    if (storedText !== shownText.peek() && storedText !== "" && storedText !== text)
      this.#keepText(sessionId, storedText);
    shownText.value = text;
    writeDraft(sessionId, text);
  }

  /** Inserts texts before the unsent text of a session. */
  returnTexts(sessionId: string, texts: readonly string[]): void {
    const currentText = readDraft(sessionId);
    this.#getSignal(sessionId).value = currentText;
    this.setText(sessionId, [...texts, ...(currentText === "" ? [] : [currentText])].join("\n"));
  }

  #getSignal(sessionId: string): Signal<string> {
    let text = this.#signalsBySessionId.get(sessionId);
    if (!text) this.#signalsBySessionId.set(sessionId, (text = signal(readDraft(sessionId))));
    return text;
  }
}

/** Pairs of session id and unsent text, newest last. */
function readDrafts(): [string, string][] {
  const storedDrafts = readStored(STORAGE_KEY);
  if (!Array.isArray(storedDrafts)) return [];
  return storedDrafts.filter(
    (entry): entry is [string, string] =>
      Array.isArray(entry) && typeof entry[0] === "string" && typeof entry[1] === "string",
  );
}

function readDraft(sessionId: string): string {
  return readDrafts().find(([id]) => id === sessionId)?.[1] ?? "";
}

function writeDraft(sessionId: string, text: string): void {
  const otherDrafts = readDrafts().filter(([id]) => id !== sessionId);
  const drafts = text === "" ? otherDrafts : [...otherDrafts, [sessionId, text]];
  writeStored(STORAGE_KEY, drafts.slice(-MAX_DRAFTS));
}
