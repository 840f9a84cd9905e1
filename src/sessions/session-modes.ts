import type { SessionMode } from "../ports/session.js";

/** Modes of a session, from the one that allows most to the strictest. */
export const SESSION_MODES: readonly SessionMode[] = ["auto", "ask", "plan"];
