const KEPT = "gantry.drafts";
/** The newest of them. */
const MOST = 50;

/** What was typed and not sent, of each session, newest last. */
function all(): [string, string][] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    if (!Array.isArray(kept)) return [];
    return kept.filter(
      (one): one is [string, string] => Array.isArray(one) && typeof one[0] === "string" && typeof one[1] === "string",
    );
  } catch {
    return [];
  }
}

/** What was typed in a session and not sent. */
export function draftOf(session: string): string {
  return all().find(([id]) => id === session)?.[1] ?? "";
}

/** Keep what is typed; `""` forgets it. */
export function keepDraft(session: string, text: string): void {
  const others = all().filter(([id]) => id !== session);
  const kept = text === "" ? others : [...others, [session, text]];
  try {
    localStorage.setItem(KEPT, JSON.stringify(kept.slice(-MOST)));
  } catch {
    // There is no room, or none is given: it is in the field as long as that is there.
  }
}
