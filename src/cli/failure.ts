import { seen } from "../base/printable.js";
import { GantryError } from "../ports/errors.js";

/** Why a command failed, in one line; what nobody meant is named with the command. Its own file, since few need it. */
export function lineOf(error: unknown, name: string): string {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof GantryError) return message;
  if ((error as NodeJS.ErrnoException | undefined)?.syscall === "uv_cwd")
    return "the folder that gantry was started in is not there any more";
  return `${name === "serve" ? "cannot start" : `${name} failed`}: ${message}`;
}

/** What stderr gets of it: one line, that steers no terminal, whatever was typed. */
export function failureLine(message: string): string {
  return `gantry: ${seen(message.replace(/\s*[\r\n]+\s*/g, " "))}`;
}
