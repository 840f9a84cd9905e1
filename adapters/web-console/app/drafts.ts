const STORAGE_KEY = "gantry.drafts";
/** Maximum number of stored drafts. The oldest drafts are dropped. */
const MAX_DRAFTS = 50;

/** Pairs of session id and unsent text, newest last. The id of a new session is `""`. */
function readDrafts(): [string, string][] {
  try {
    const storedDrafts: unknown = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "[]");
    if (!Array.isArray(storedDrafts)) return [];
    return storedDrafts.filter(
      (entry): entry is [string, string] =>
        Array.isArray(entry) && typeof entry[0] === "string" && typeof entry[1] === "string",
    );
  } catch {
    return [];
  }
}

/** The unsent text of a session; "" if there is none. */
export function readDraft(sessionId: string): string {
  return readDrafts().find(([id]) => id === sessionId)?.[1] ?? "";
}

/** Stores the unsent text of a session. The text `""` removes the draft. */
export function storeDraft(sessionId: string, text: string): void {
  const otherDrafts = readDrafts().filter(([id]) => id !== sessionId);
  const drafts = text === "" ? otherDrafts : [...otherDrafts, [sessionId, text]];
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(drafts.slice(-MAX_DRAFTS)));
  } catch {
    // Storage is full or not available: the text stays in the field only.
  }
}
