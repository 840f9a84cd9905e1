import type { PendingSteer } from "gantry/client";

const PREFIX = "gantry.steers.";

/** Instructions that a session's run had not read when this tab left the session or reloaded the page. */
export function storedSteers(session: string): PendingSteer[] {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(PREFIX + session) ?? "[]");
    return Array.isArray(stored) ? stored.filter(isSteer) : [];
  } catch {
    return [];
  }
}

export function storeSteers(session: string, steers: readonly PendingSteer[]): void {
  try {
    if (steers.length === 0) sessionStorage.removeItem(PREFIX + session);
    else sessionStorage.setItem(PREFIX + session, JSON.stringify(steers));
  } catch {
    // Without storage they are kept only while the session is open.
  }
}

function isSteer(value: unknown): value is PendingSteer {
  const { text, runId, after } = (value ?? {}) as Partial<PendingSteer>;
  return typeof text === "string" && typeof runId === "string" && typeof after === "number";
}
