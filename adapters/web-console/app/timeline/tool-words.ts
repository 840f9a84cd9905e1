import type { IconName } from "../parts/icon.js";

/** How a call is named in one line. */
export interface CallWords {
  icon: IconName;
  verb: string;
  /** What it is about: a path, a command, an address. */
  about: string;
}

/** By the tool: its picture, what it does, and the arguments that say with what. */
const KNOWN: Readonly<Record<string, readonly [IconName, string, ...string[]]>> = {
  read: ["file", "Read", "path", "filePath", "file_path"],
  list: ["list", "List", "path"],
  glob: ["search", "Find files", "pattern"],
  grep: ["search", "Search for", "pattern"],
  write: ["file-plus", "Write", "filePath", "path"],
  edit: ["file-edit", "Edit", "filePath", "path"],
  multiedit: ["file-edit", "Edit", "filePath", "path"],
  apply_patch: ["file-edit", "Patch files"],
  delete: ["trash", "Delete", "path", "filePath"],
  bash: ["terminal", "Run", "command"],
  bash_output: ["terminal", "Look at", "id"],
  bash_input: ["terminal", "Tell", "text", "id"],
  bash_stop: ["stop", "Stop", "id"],
  webfetch: ["globe", "Fetch", "url"],
  todowrite: ["list", "Update the plan"],
  todoread: ["list", "Look at the plan"],
  task: ["brain", "Ask a helper", "description"],
  ask_user: ["question", "Ask", "question"],
};
const LONGEST = 200;

/** The arguments that a model gave; undefined where they are no object yet, or never will be. */
export function argumentsOf(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** What a call does, in few words. */
export function wordsOfCall(name: string, values: Record<string, unknown> | undefined): CallWords {
  const known = Object.hasOwn(KNOWN, name) ? KNOWN[name] : undefined;
  const [icon, verb, ...keys] = known ?? (["tool", name || "A tool"] as const);
  const texts = Object.entries(values ?? {}).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string" && entry[1] !== "",
  );
  const named = keys.flatMap((key) => texts.filter(([name]) => name === key));
  const [, about = ""] = (known ? named[0] : texts[0]) ?? [];
  const [line = "", ...more] = about.trim().split("\n", 2);
  const isCut = line.length > LONGEST || more.length > 0;
  return { icon, verb, about: `${line.slice(0, LONGEST)}${isCut ? " …" : ""}` };
}
