import { GantryError, StoreError } from "gantry";

/** The system's own name of what went wrong (`ENOENT`), or `""`. */
export function systemCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** What a caller sees of a failure: our own errors as they are, all others as `StoreError` with what to do. */
export function toStoreError(error: unknown, path: string): Error {
  if (error instanceof GantryError) return error;
  const code = systemCode(error);
  const full = ["ENOSPC", "EDQUOT"].includes(code);
  let why = error instanceof Error ? error.message : String(error);
  if (full) why = `there is no room left; free some and try again (${code})`;
  if (["EACCES", "EPERM", "EROFS"].includes(code)) why = `it cannot be written; check who owns it (${code})`;
  return new StoreError(`session store ${path}: ${why}`, { cause: error, full });
}
