import { signal } from "@preact/signals";
import type { WatchedSession } from "../state/watched-session.js";

/** An action that the rewind dialog prepares, performs and reports. */
export type RewindTask = { session: WatchedSession } & (
  | { action: "undo" | "redo" }
  /** Hides a message and all later ones. `text`: of the message. */
  | { action: "rewind"; messageId: string; text: string }
);

/** The task of the open dialog; undefined while it is closed. */
export const rewindTask = signal<RewindTask | undefined>(undefined);

/** The last undo of this window, which a redo can revert until the next run. */
export const lastUndo = signal<{ sessionId: string; runId: string } | undefined>(undefined);

/** Whether this window has undone something in the session since its last run. Subscribes the caller to changes. */
export function canRedo(session: WatchedSession): boolean {
  const { sessionId, runId } = lastUndo.value ?? {};
  return sessionId === session.id && runId === (session.run.value?.id ?? "");
}
