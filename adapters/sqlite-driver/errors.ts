/** SQLite's own name of what went wrong, or `""`. */
export function sqliteCode(error: unknown): string {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" && code.startsWith("SQLITE_") ? code : "";
}

/** Whether another connection is in the way, so that trying again helps. */
export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED|PROTOCOL)/.test(sqliteCode(error));
}

const ADVICE: readonly (readonly [pattern: RegExp, text: string])[] = [
  [/^SQLITE_FULL/, "there is no room left; free some and try again"],
  [
    /^SQLITE_(CORRUPT|NOTADB)/,
    "the file is damaged or no database; it was left as it is: restore a copy, or move it away",
  ],
  [/^SQLITE_(READONLY|PERM|AUTH)/, "the file or its folder cannot be written; check who owns it"],
  [/^SQLITE_CANTOPEN/, "the file cannot be opened; check that its folder exists and who owns it"],
  [/^SQLITE_IOERR/, "the disk failed to read or write"],
  [/^SQLITE_TOOBIG/, "a message is too large to be stored"],
];

/** What to tell of a failure of SQLite's; undefined for all others. */
export function explain(error: unknown): { why: string; full: boolean } | undefined {
  const code = sqliteCode(error);
  const advice = ADVICE.find(([pattern]) => pattern.test(code))?.[1];
  return advice === undefined ? undefined : { why: `${advice} (${code})`, full: code.startsWith("SQLITE_FULL") };
}
