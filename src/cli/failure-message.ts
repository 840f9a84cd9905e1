import { escapeInvisible } from "../base/printable.js";
import { GantryError } from "../ports/errors.js";
import { addSuggestion } from "./suggestion.js";

/**
 * Returns the reason why a command failed, prefixed with the command if the error is unexpected. This module is loaded
 * only after a failure.
 */
export function describeFailure(error: unknown, commandName: string): string {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof GantryError) return addSuggestion(message);
  if ((error as NodeJS.ErrnoException | undefined)?.syscall === "uv_cwd")
    return "the folder in which gantry was started no longer exists";
  return `${commandName === "serve" ? "cannot start" : `${commandName} failed`}: ${message}`;
}

/** Formats an error for stderr: one line without control characters. */
export function formatFailureLine(message: string): string {
  return `gantry: ${escapeInvisible(message.replace(/\s*[\r\n]+\s*/g, " "))}`;
}
