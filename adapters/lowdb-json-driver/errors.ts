import { GantryError, StoreError } from "gantry";

/** The system's own name of what went wrong (`ENOENT`), or `""`. */
export function systemCode(error: unknown): string {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" ? code : "";
}

/** The value, or undefined where there is no such file. */
export async function unlessMissing<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** What a caller sees of a failure: our own errors as they are, all others as `StoreError` with what to do. */
export function toStoreError(error: unknown, path: string): Error {
  if (error instanceof GantryError) return error;
  const code = systemCode(error);
  const why = error instanceof Error ? error.message : String(error);
  const full = code === "ENOSPC" || code === "EDQUOT";
  const advice = full
    ? `there is no room left; free some and try again (${code})`
    : code === "EACCES" || code === "EPERM" || code === "EROFS"
      ? `it cannot be written; check who owns it (${code})`
      : why;
  return new StoreError(`session store ${path}: ${advice}`, { cause: error, full });
}
