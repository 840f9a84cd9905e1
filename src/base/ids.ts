import { v7 } from "uuid";

/** A new identifier: UUIDv7, so that identifiers sort by the time they were made. */
export function newId(): string {
  return v7();
}

/** Now, as `2026-01-31T09:15:00.123Z`. */
export function now(): string {
  return new Date().toISOString();
}
