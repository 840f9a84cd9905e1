import { isAbsolute } from "node:path";
import { printable } from "../../base/printable.js";
import { InputError } from "../../ports/errors.js";

/** Throws `InputError` for what is no list of folders that a run may use beside its own. */
export function checkFolders(folders: unknown): void {
  if (!Array.isArray(folders) || !folders.every((one) => typeof one === "string" && isAbsolute(one)))
    throw new InputError("folders", "a list of absolute paths");
}

/** What is added to the system prompt, with the folders that the model would not know of otherwise. */
export function withFolders(extra: string, folders: readonly string[] = []): string {
  if (folders.length === 0) return extra;
  return `${extra}\n\nYou may use these folders too, by absolute paths:\n${folders.map(printable).join("\n")}`;
}
