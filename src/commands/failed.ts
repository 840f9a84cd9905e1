import { GantryError } from "../ports/errors.js";

/** Why a command failed, in one line; what nobody meant is named with the command. Its own file, since few need it. */
export function lineOf(error: unknown, name: string): string {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof GantryError) return message;
  return `${name === "serve" ? "cannot start" : `${name} failed`}: ${message}`;
}
