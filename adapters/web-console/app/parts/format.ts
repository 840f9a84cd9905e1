const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/**
 * Formats the time since `isoTime`: `just now`, `5 min`, `3 h`, `2 d`; after a week, the date. `""` for an invalid
 * time.
 */
export function formatAge(isoTime: string, nowMs = Date.now()): string {
  const timeMs = Date.parse(isoTime);
  if (Number.isNaN(timeMs)) return "";
  const ageMs = nowMs - timeMs;
  if (ageMs < MINUTE_MS) return "just now";
  if (ageMs < HOUR_MS) return `${Math.floor(ageMs / MINUTE_MS)} min`;
  if (ageMs < DAY_MS) return `${Math.floor(ageMs / HOUR_MS)} h`;
  if (ageMs < 7 * DAY_MS) return `${Math.floor(ageMs / DAY_MS)} d`;
  return new Date(timeMs).toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });
}

/** Formats a number of tokens: `950`, `12.3k`, `1.2M`. */
export function formatTokens(count: number): string {
  if (count < 1000) return String(count);
  if (count < 1_000_000) return `${roundToText(count / 1000)}k`;
  return `${roundToText(count / 1_000_000)}M`;
}

/** Formats a cost: `$0.0042`, `$1.20`; `""` for 0, which means an unknown cost. */
export function formatCost(usd: number): string {
  if (usd === 0) return "";
  return usd < 0.1 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

/** Formats a number of open questions: `1 open question`. */
export function formatQuestionCount(count: number): string {
  return `${count} open ${count === 1 ? "question" : "questions"}`;
}

/** Formats a size: `512 B`, `1.2 kB`, `3.4 MB`. */
export function formatBytes(count: number): string {
  if (count < 1000) return `${count} B`;
  if (count < 1_000_000) return `${roundToText(count / 1000)} kB`;
  return `${roundToText(count / 1_000_000)} MB`;
}

/** Formats a duration: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 4 min`. */
export function formatDuration(durationMs: number): string {
  if (durationMs < 10_000) return `${(durationMs / 1000).toFixed(1)} s`;
  const seconds = Math.round(durationMs / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function roundToText(number: number): string {
  return number.toFixed(number < 100 ? 1 : 0).replace(/\.0$/, "");
}
