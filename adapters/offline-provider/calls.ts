import type { ToolSpec } from "gantry";
import type { Step } from "./plan.js";

/** A call to make. */
export interface Call {
  id: string;
  tool: string;
  input: Record<string, string | number>;
  /** What it is about, in Markdown. */
  subject: string;
}

/** A call that was made, and what came back. */
export interface Result {
  tool: string;
  /** JSON text. */
  arguments: string;
  output: string;
  failed: boolean;
}

/** Names that tools give to the same argument, ours first; a tool's schema decides. */
const NAMES = {
  path: ["path", "file_path", "filePath", "file", "filename", "dir", "directory", "folder"],
  pattern: ["pattern", "regex", "query", "glob"],
  include: ["include", "glob", "files", "file_pattern"],
  offset: ["offset", "start", "start_line", "line"],
  limit: ["limit", "lines", "count", "max_lines"],
} as const;

type Argument = keyof typeof NAMES;

/** The call that does a step; undefined when the tool is not on offer or takes other arguments. */
export function toCall(step: Step, tools: readonly ToolSpec[], id: string): Call | undefined {
  const tool = tools.find(({ name }) => name === step.tool);
  if (!tool) return undefined;
  const { properties, required } = tool.inputSchema as { properties?: Record<string, unknown>; required?: unknown };
  const input: Record<string, string | number> = {};
  const set = (argument: Argument, value: string | number | undefined): boolean => {
    if (value === undefined) return true;
    const name = NAMES[argument].find((candidate) => Object.hasOwn(properties ?? {}, candidate));
    if (name === undefined || name in input) return false;
    input[name] = value;
    return true;
  };
  switch (step.tool) {
    case "list":
      if (!set("path", step.path)) return undefined;
      break;
    case "read":
      if (!set("path", step.path)) return undefined;
      set("offset", step.offset);
      set("limit", step.limit);
      break;
    case "grep":
      if (!set("pattern", step.pattern)) return undefined;
      set("path", step.path);
      set("include", step.include);
      break;
    case "glob":
      if (!set("pattern", step.pattern)) return undefined;
      set("path", step.path);
      break;
  }
  if (Array.isArray(required)) {
    for (const name of required as unknown[]) {
      if (typeof name !== "string" || name in input) continue;
      // A folder that has to be named is the project's own.
      if (!(NAMES.path as readonly string[]).includes(name)) return undefined;
      input[name] = ".";
    }
  }
  return { id, tool: tool.name, input, subject: subject(step) };
}

/** What a step is about, in Markdown; `""` for the project folder. */
export function subject(step: Step): string {
  switch (step.tool) {
    case "list":
      return step.path === undefined || step.path === "." ? "" : `\`${step.path}\``;
    case "read":
      return `\`${step.path}\``;
    case "grep":
      return `for \`${step.pattern}\`${step.path === undefined ? "" : ` in \`${step.path}\``}`;
    case "glob":
      return `\`${step.pattern}\`${step.path === undefined ? "" : ` in \`${step.path}\``}`;
  }
}
