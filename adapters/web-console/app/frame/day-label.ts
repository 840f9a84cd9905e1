import type { ApiSession } from "gantry/client";

const DAY_MS = 24 * 60 * 60 * 1000;

/** Label of the session's day; `""` if `previousSession` has the same label. */
export function labelDay(session: ApiSession, previousSession: ApiSession | undefined): string {
  const dayLabel = toDayLabel(session.updated_at);
  return previousSession && toDayLabel(previousSession.updated_at) === dayLabel ? "" : dayLabel;
}

function toDayLabel(isoTime: string): string {
  const midnightMs = new Date().setHours(0, 0, 0, 0);
  const timeMs = Date.parse(isoTime);
  if (timeMs >= midnightMs) return "Today";
  if (timeMs >= midnightMs - DAY_MS) return "Yesterday";
  if (timeMs >= midnightMs - 6 * DAY_MS) return "Last seven days";
  return "Older";
}
