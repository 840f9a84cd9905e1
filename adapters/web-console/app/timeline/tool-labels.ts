import type { IconName } from "../parts/icon.js";

/** Label of a call in one line. */
export interface CallLabel {
  icon: IconName;
  verb: string;
  /** The path, command or URL that the call is about; "" if there is none. */
  target: string;
}

/** By tool: icon, verb, and names of the arguments that may contain the target, in order of preference. */
const TOOL_LABELS: Readonly<Record<string, readonly [IconName, string, ...string[]]>> = {
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
  bash_output: ["terminal", "Read the output of", "id"],
  bash_input: ["terminal", "Send input", "text", "id"],
  bash_stop: ["stop", "Stop", "id"],
  webfetch: ["globe", "Fetch", "url"],
  websearch: ["globe", "Search the web for", "query"],
  todowrite: ["list", "Update the plan"],
  todoread: ["list", "Read the plan"],
  task: ["brain", "Ask a subagent", "description"],
  ask_user: ["question", "Ask", "question"],
};
const MAX_TARGET_CHARACTERS = 200;

/** The parsed arguments of a call; undefined if the JSON is incomplete or not an object. */
export function parseArguments(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the short label of a call. */
export function labelCall(name: string, values: Record<string, unknown> | undefined): CallLabel {
  const toolLabel = Object.hasOwn(TOOL_LABELS, name) ? TOOL_LABELS[name] : undefined;
  const [icon, verb, ...keys] = toolLabel ?? (["tool", name || "A tool"] as const);
  const texts = Object.entries(values ?? {}).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string" && entry[1] !== "",
  );
  const candidateTexts = keys.flatMap((key) => texts.filter(([name]) => name === key));
  const [, targetText = ""] = (toolLabel ? candidateTexts[0] : texts[0]) ?? [];
  const [firstLine = "", ...otherLines] = targetText.trim().split("\n", 2);
  const isShortened = firstLine.length > MAX_TARGET_CHARACTERS || otherLines.length > 0;
  return { icon, verb, target: `${firstLine.slice(0, MAX_TARGET_CHARACTERS)}${isShortened ? " …" : ""}` };
}
