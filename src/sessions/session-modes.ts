import type { SessionMode } from "../ports/session.js";

/** Modes of a session, from the least to the most restrictive. */
export const SESSION_MODES: readonly SessionMode[] = ["auto", "ask", "plan"];
