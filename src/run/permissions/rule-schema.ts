import { isRecord } from "../../base/json.js";
import { InputError } from "../../ports/errors.js";
import type { PermissionRule } from "../../ports/permission-policy.js";
import type { ToolCall, ToolSpec } from "../../ports/tool.js";
import type { ToolKind } from "../../ports/tool-display.js";
import { EXPECTED_VALUES, RULE_ACTIONS } from "./rule-format.js";

/** Maximum alternatives that the braces of one glob expand to. */
const MAX_BRACE_ALTERNATIVES = 256;
/** Maximum characters of a `match` or `path`. */
const MAX_GLOB_CHARACTERS = 1_000;
const RULE_FIELDS: Readonly<Record<keyof PermissionRule, true>> = {
  tool: true,
  match: true,
  path: true,
  action: true,
  reason: true,
};
/** Kinds of tools whose calls have file paths. */
export const FILE_TOOL_KINDS: readonly ToolKind[] = ["read", "edit", "delete", "search"];

/** Whether a text is valid as the `tool` of a rule. */
export function isToolGlob(text: string): boolean {
  // MCP servers may use any tool name.
  return /^[A-Za-z0-9_*?-]{1,64}$/.test(text) || /^mcp:[A-Za-z0-9_*?-]{1,64}\/[^\p{Cc}]{1,1000}$/u.test(text);
}

/** Whether a text is valid as the `match` of a rule. */
export function isCommandGlob(text: string): boolean {
  return (
    text.trim() !== "" &&
    text.length <= MAX_GLOB_CHARACTERS &&
    !/[;&|<>()$`"'\\{}\n\r\0]/.test(text) &&
    hasValidClasses(text)
  );
}

/** Whether a text is valid as the `path` of a rule. */
export function isPathGlob(text: string): boolean {
  if (text.trim() !== text || text === "" || text.length > MAX_GLOB_CHARACTERS || /[\n\r\0]|\\(\/|$)/.test(text))
    return false;
  if (text.split("/").includes("..")) return false;
  const unescapedText = text.replace(/\\[^]/g, "");
  return hasValidClasses(unescapedText) && hasValidBraces(unescapedText);
}

/** Whether every `[` has a `]`, and the character class between them is plain and not empty. */
function hasValidClasses(text: string): boolean {
  const isEmpty = (range: string) => range[0]! > range[2]!;
  const remainder = text.replace(/\[[!^]?([^[\]{},/\\!^][^[\]{},/\\]*)\]/g, (classText, characters: string) =>
    [...characters.matchAll(/.-./gsu)].some(([range]) => isEmpty(range)) ? classText : "",
  );
  return !/[[\]]/.test(remainder);
}

/** Whether the braces are balanced and expand to at most `MAX_BRACE_ALTERNATIVES`. */
function hasValidBraces(text: string): boolean {
  const commas: number[] = [];
  let alternatives = 1;
  for (const char of text) {
    if (char === "{") commas.push(0);
    else if (char === "," && commas.length > 0) commas[commas.length - 1]! += 1;
    else if (char === "}") {
      const commaCount = commas.pop();
      if (commaCount === undefined) return false;
      alternatives *= commaCount + 1;
    }
  }
  return commas.length === 0 && alternatives <= MAX_BRACE_ALTERNATIVES;
}

/** Checks a list of rules. Throws `InputError`. */
export function checkRules(field: string, rules: unknown): void {
  if (!Array.isArray(rules)) throw new InputError(field, "a list of permission rules");
  rules.forEach((rule: unknown, i) => {
    const ruleField = `${field}[${i}]`;
    if (!isRecord(rule)) throw new InputError(ruleField, "an object with tool and action");
    for (const key of Object.keys(rule))
      if (!Object.hasOwn(RULE_FIELDS, key))
        throw new InputError(`${ruleField}.${key}`, `one of ${Object.keys(RULE_FIELDS).join(", ")}`);
    const { tool, match = "a", path = "a", action, reason = "" } = rule;
    if (typeof tool !== "string" || !isToolGlob(tool)) throw new InputError(`${ruleField}.tool`, EXPECTED_VALUES.tool);
    if (typeof match !== "string" || !isCommandGlob(match))
      throw new InputError(`${ruleField}.match`, EXPECTED_VALUES.match);
    if (typeof path !== "string" || !isPathGlob(path)) throw new InputError(`${ruleField}.path`, EXPECTED_VALUES.path);
    if (!RULE_ACTIONS.includes(action as never))
      throw new InputError(
        `${ruleField}.action`,
        `one of ${RULE_ACTIONS.map((allowedAction) => JSON.stringify(allowedAction)).join(", ")}`,
      );
    if (typeof reason !== "string") throw new InputError(`${ruleField}.reason`, "a string");
  });
}

/** Whether a rule's `tool` matches a tool, by its name or its origin. */
export function matchesTool(
  { tool }: Pick<PermissionRule, "tool">,
  { name, origin }: Pick<ToolSpec, "name" | "origin">,
): boolean {
  return tool.startsWith(ORIGIN_PREFIX) ? origin !== undefined && matchesGlob(tool, origin) : matchesGlob(tool, name);
}

/** Whether a rule's `tool` names exactly this tool, without a glob. */
export function namesTool(
  { tool }: Pick<PermissionRule, "tool">,
  { name, origin }: Pick<ToolSpec, "name" | "origin">,
): boolean {
  return tool === name || tool === origin;
}

/** Prefix of an origin. Tool names never have it. */
const ORIGIN_PREFIX = "mcp:";

/** Whether a name matches a glob with `*` and `?`. After a mismatch, the last `*` takes one more character. */
function matchesGlob(glob: string, name: string): boolean {
  let [globIndex, starIndex, retryIndex] = [0, -1, 0];
  for (let i = 0; i < name.length;) {
    if (glob[globIndex] === "*") [starIndex, retryIndex] = [globIndex++, i];
    else if (glob[globIndex] === "?" || glob[globIndex] === name[i]) [globIndex, i] = [globIndex + 1, i + 1];
    else if (starIndex >= 0) [globIndex, i] = [starIndex + 1, ++retryIndex];
    else return false;
  }
  while (glob[globIndex] === "*") globIndex += 1;
  return globIndex === glob.length;
}

/**
 * Whether a rule applies to the tool of a call, or to the tools that the call acts as. An allow rule must match all of
 * these tools; an ask or deny rule needs to match only one.
 */
export function appliesToCall(rule: PermissionRule, { tool, actsAs = [] }: Pick<ToolCall, "tool" | "actsAs">): boolean {
  if (matchesTool(rule, tool)) return true;
  const matchCount = actsAs.filter((name) => matchesTool(rule, { name })).length;
  return matchCount > 0 && (rule.action !== "allow" || matchCount === actsAs.length);
}

/** A tool of kind `read`, for checking the reads of other calls. */
const READ_TOOL: ToolSpec = {
  ...{ name: "read", description: "", inputSchema: {}, kind: "read" },
  ...{ parallel: true, needsPermission: false },
};

/** Converts the reads of a call to a `read` call; undefined if the call reads nothing. */
export function toReadCall({ actsAs: _, reads = [], ...call }: ToolCall): ToolCall | undefined {
  return reads.length > 0 ? { ...call, tool: READ_TOOL, input: {}, locations: reads, diff: [] } : undefined;
}

/** Describes rules that have no effect with these tools. Each text starts with the path of the rule's field. */
export function describeUselessRules(
  rules: readonly PermissionRule[],
  tools: readonly { readonly name: string; readonly kind: ToolKind }[],
): string[] {
  return rules.flatMap((rule, i) => {
    // MCP servers and their tools are not known yet.
    if (rule.tool.startsWith(ORIGIN_PREFIX)) return [];
    const matchingTools = tools.filter((tool) => matchesTool(rule, tool));
    if (matchingTools.length === 0) return [`permissions.rules[${i}].tool: there is no tool ${rule.tool}`];
    const kinds = matchingTools.map(({ kind }) => kind);
    if (rule.match !== undefined && !kinds.some((kind) => kind === "execute" || kind === "other"))
      return [`permissions.rules[${i}].match: ${rule.tool} runs no commands`];
    if (rule.path !== undefined && kinds.every((kind) => !FILE_TOOL_KINDS.includes(kind) && kind !== "other"))
      return [`permissions.rules[${i}].path: ${rule.tool} names no paths`];
    return [];
  });
}
