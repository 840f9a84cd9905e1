import { isAbsolute } from "node:path";
import { toPrintable } from "../../base/printable.js";
import { InputError } from "../../ports/errors.js";

/** Checks the list of additional folders of a run. Throws `InputError` unless it is a list of absolute paths. */
export function checkFolders(folders: unknown): void {
  if (!Array.isArray(folders) || !folders.every((folder) => typeof folder === "string" && isAbsolute(folder)))
    throw new InputError("folders", "a list of absolute paths");
}

/** Appends the additional folders to the system prompt text, because the model does not know them otherwise. */
export function withFolders(promptText: string, folders: readonly string[] = []): string {
  if (folders.length === 0) return promptText;
  return `${promptText}\n\nYou may use these folders too, by absolute paths:\n${folders.map(toPrintable).join("\n")}`;
}
