import type { PendingSteer } from "gantry/client";

const STORAGE_KEY_PREFIX = "gantry.steers.";

/** Stored instructions of this tab that the session's run had not read when the tab left the session. */
export function readStoredSteers(sessionId: string): PendingSteer[] {
  try {
    const storedValue: unknown = JSON.parse(sessionStorage.getItem(STORAGE_KEY_PREFIX + sessionId) ?? "[]");
    return Array.isArray(storedValue) ? storedValue.filter(isSteer) : [];
  } catch {
    return [];
  }
}

/** Stores the unread instructions of a session for this tab. */
export function storeSteers(sessionId: string, steers: readonly PendingSteer[]): void {
  try {
    if (steers.length === 0) sessionStorage.removeItem(STORAGE_KEY_PREFIX + sessionId);
    else sessionStorage.setItem(STORAGE_KEY_PREFIX + sessionId, JSON.stringify(steers));
  } catch {
    // Without storage, the instructions are lost when the session is closed.
  }
}

function isSteer(value: unknown): value is PendingSteer {
  const { text, runId, after } = (value ?? {}) as Partial<PendingSteer>;
  return typeof text === "string" && typeof runId === "string" && typeof after === "number";
}
