/** SQLite's error code; `""` for other errors. */
export function sqliteErrorCode(error: unknown): string {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" && code.startsWith("SQLITE_") ? code : "";
}

/** Whether another connection blocks the operation, so that a retry can succeed. */
export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED|PROTOCOL)/.test(sqliteErrorCode(error));
}

/** Whether no space is left for the file. */
export function isFull(error: unknown): boolean {
  return sqliteErrorCode(error).startsWith("SQLITE_FULL");
}

const ADVICE: readonly (readonly [pattern: RegExp, text: string])[] = [
  [/^SQLITE_FULL/, "no space left; free some space and retry"],
  [
    /^SQLITE_(CORRUPT|NOTADB)/,
    "the file is damaged or not a database; it was not modified: restore a copy, or move it away",
  ],
  [/^SQLITE_(READONLY|PERM|AUTH)/, "the file or its folder is not writable; check owner and permissions"],
  [/^SQLITE_CANTOPEN/, "the file cannot be opened; check that its folder exists, and its owner and permissions"],
  [/^SQLITE_IOERR/, "the disk failed to read or write"],
  [/^SQLITE_TOOBIG/, "a message is too large to be stored"],
];

/** Reason and remedy for an SQLite error; undefined for other errors. `isFull`: no space is left for the file. */
export function explain(error: unknown): { reason: string; isFull: boolean } | undefined {
  const code = sqliteErrorCode(error);
  const advice = ADVICE.find(([pattern]) => pattern.test(code))?.[1];
  return advice === undefined ? undefined : { reason: `${advice} (${code})`, isFull: isFull(error) };
}
