import { readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { applyEdits, modify, parse, type JSONPath } from "jsonc-parser";
import { isRecord } from "../../base/json.js";
import { ConfigError } from "../../ports/errors.js";
import type { ProviderEntry } from "./provider-check.js";

/**
 * Adds a provider to the config file, or changes its entry, and prefers it for new runs. Comments and all other keys are
 * kept. The file appears complete, with mode 0600, because it can contain a key.
 *
 * Throws `ConfigError` if the file cannot be written.
 */
export function writeProvider(file: string, entry: ProviderEntry, model: string): void {
  try {
    const content = readContent(file);
    writePrivateFile(file, changeConfig(content.trim() === "" ? "{}\n" : content, entry, model));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError(`${file}: cannot be written (${code ?? "unknown"})`, { cause: error });
  }
}

/** Returns the config's text with the provider. The caller has validated the text. */
export function changeConfig(content: string, entry: ProviderEntry, model: string): string {
  const config: unknown = parse(content, [], { allowTrailingComma: true });
  const { providers, model: section } = (isRecord(config) ? config : {}) as Record<string, unknown>;
  const name = entry.name ?? entry.provider ?? "";
  const entries: unknown[] = Array.isArray(providers) ? providers : [];
  const index = entries.findIndex((item) => isRecord(item) && (item["name"] ?? item["provider"]) === name);
  let text = content;
  const set = (path: JSONPath, value: unknown, isArrayInsertion = false) => {
    const formattingOptions = { insertSpaces: true, tabSize: 2, eol: "\n" };
    text = applyEdits(text, modify(text, path, value, { formattingOptions, isArrayInsertion }));
  };
  if (!Array.isArray(providers)) set(["providers"], [entry]);
  else if (index === -1) set(["providers", entries.length], entry, true);
  else for (const [key, value] of Object.entries(entry)) set(["providers", index, key], value);
  set(["model", "provider"], name);
  // A model of another provider would never be found.
  if (model !== "" || (isRecord(section) && section["model"] !== undefined)) set(["model", "model"], model);
  return text;
}

function readContent(file: string): string {
  try {
    return readFileSync(file, "utf8").replace(/^\uFEFF/, "");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}

function writePrivateFile(file: string, content: string): void {
  let target = file;
  try {
    // A link stays, and its target is replaced.
    target = realpathSync(file);
  } catch {
    // The file does not exist yet.
  }
  const temporaryFile = `${target}.${process.pid}`;
  try {
    writeFileSync(temporaryFile, content, { mode: 0o600, flag: "wx", flush: true });
    renameSync(temporaryFile, target);
  } finally {
    rmSync(temporaryFile, { force: true });
  }
}
