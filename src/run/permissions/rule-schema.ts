import { isRecord } from "../../base/json.js";
import { InputError } from "../../ports/errors.js";
import type { PermissionRule } from "../../ports/permission-policy.js";
import type { ToolCall, ToolKind, ToolSpec } from "../../ports/tool.js";
import { EXPECTED, RULE_ACTIONS } from "./rule-words.js";

/** Ways that braces can be chosen in a glob. */
const MAX_CHOICES = 256;
const KNOWN: Readonly<Record<keyof PermissionRule, true>> = {
  tool: true,
  match: true,
  path: true,
  action: true,
  reason: true,
};
/** Kinds of tools whose calls name files. */
export const ON_FILES: readonly ToolKind[] = ["read", "edit", "delete", "search"];

/** Whether this can be a rule's `tool`. */
export function isToolGlob(text: string): boolean {
  // What a server calls its tools is its own affair.
  return /^[A-Za-z0-9_*?-]{1,64}$/.test(text) || /^mcp:[A-Za-z0-9_*?-]{1,64}\/[^\p{Cc}]{1,1000}$/u.test(text);
}

/** Whether this can be a rule's `match`. */
export function isCommandGlob(text: string): boolean {
  return text.trim() !== "" && text.length <= 1000 && !/[;&|<>()$`"'\\{}\n\r\0]/.test(text) && areClasses(text);
}

/** Whether this can be a rule's `path`. */
export function isPathGlob(text: string): boolean {
  if (text.trim() !== text || text === "" || text.length > 1000 || /[\n\r\0]|\\(\/|$)/.test(text)) return false;
  if (text.split("/").includes("..")) return false;
  const bare = text.replace(/\\[^]/g, "");
  return areClasses(bare) && areBraces(bare);
}

/** Every `[` has its `]`, with something plain between them that stands for some character. */
function areClasses(text: string): boolean {
  const isEmpty = (range: string) => range[0]! > range[2]!;
  const rest = text.replace(/\[[!^]?([^[\]{},/\\!^][^[\]{},/\\]*)\]/g, (all, of: string) =>
    [...of.matchAll(/.-./gsu)].some(([range]) => isEmpty(range)) ? all : "",
  );
  return !/[[\]]/.test(rest);
}

function areBraces(text: string): boolean {
  const commas: number[] = [];
  let choices = 1;
  for (const char of text) {
    if (char === "{") commas.push(0);
    else if (char === "," && commas.length > 0) commas[commas.length - 1]! += 1;
    else if (char === "}") {
      const own = commas.pop();
      if (own === undefined) return false;
      choices *= own + 1;
    }
  }
  return commas.length === 0 && choices <= MAX_CHOICES;
}

/** Throws `InputError` for what is no list of rules. */
export function checkRules(field: string, rules: unknown): void {
  if (!Array.isArray(rules)) throw new InputError(field, "a list of permission rules");
  rules.forEach((rule: unknown, i) => {
    const at = `${field}[${i}]`;
    if (!isRecord(rule)) throw new InputError(at, "an object with tool and action");
    for (const key of Object.keys(rule))
      if (!Object.hasOwn(KNOWN, key)) throw new InputError(`${at}.${key}`, `one of ${Object.keys(KNOWN).join(", ")}`);
    const { tool, match = "a", path = "a", action, reason = "" } = rule;
    if (typeof tool !== "string" || !isToolGlob(tool)) throw new InputError(`${at}.tool`, EXPECTED.tool);
    if (typeof match !== "string" || !isCommandGlob(match)) throw new InputError(`${at}.match`, EXPECTED.match);
    if (typeof path !== "string" || !isPathGlob(path)) throw new InputError(`${at}.path`, EXPECTED.path);
    if (!RULE_ACTIONS.includes(action as never))
      throw new InputError(`${at}.action`, `one of ${RULE_ACTIONS.map((one) => JSON.stringify(one)).join(", ")}`);
    if (typeof reason !== "string") throw new InputError(`${at}.reason`, "a string");
  });
}

/** Whether a rule's `tool` means this one: by its name, or by where it comes from. */
export function isFor(
  { tool }: Pick<PermissionRule, "tool">,
  { name, origin }: Pick<ToolSpec, "name" | "origin">,
): boolean {
  return tool.startsWith(ORIGIN) ? origin !== undefined && fits(tool, origin) : fits(tool, name);
}

/** Whether a rule's `tool` means this one and no other. */
export function isExactlyFor(
  { tool }: Pick<PermissionRule, "tool">,
  { name, origin }: Pick<ToolSpec, "name" | "origin">,
): boolean {
  return tool === name || tool === origin;
}

/** No name of a tool has this. */
const ORIGIN = "mcp:";

function fits(glob: string, name: string): boolean {
  let [at, star, from] = [0, -1, 0];
  for (let i = 0; i < name.length;) {
    if (glob[at] === "*") [star, from] = [at++, i];
    else if (glob[at] === "?" || glob[at] === name[i]) [at, i] = [at + 1, i + 1];
    else if (star >= 0) [at, i] = [star + 1, ++from];
    else return false;
  }
  while (glob[at] === "*") at += 1;
  return at === glob.length;
}

/**
 * Whether a rule is for a call: for its tool, or for the work of others that it does. What may be all of that work may be
 * the call; what may not be a part of it, or is asked about, is so with the call.
 */
export function isForCall(rule: PermissionRule, { tool, actsAs = [] }: Pick<ToolCall, "tool" | "actsAs">): boolean {
  if (isFor(rule, tool)) return true;
  const named = actsAs.filter((name) => isFor(rule, { name })).length;
  return named > 0 && (rule.action !== "allow" || named === actsAs.length);
}

/** Looks like a call of `read`. */
const READING: ToolSpec = {
  ...{ name: "read", description: "", inputSchema: {}, kind: "read" },
  ...{ parallel: true, needsPermission: false },
};

/** The reading that a call does beside its work, as a call; undefined for none. */
export function readingIn({ actsAs: _, reads = [], ...call }: ToolCall): ToolCall | undefined {
  return reads.length > 0 ? { ...call, tool: READING, input: {}, locations: reads, diff: [] } : undefined;
}

/** What of the rules means nothing with these tools, each a sentence that begins with its place. */
export function emptyRules(
  rules: readonly PermissionRule[],
  tools: readonly { readonly name: string; readonly kind: ToolKind }[],
): string[] {
  return rules.flatMap((rule, i) => {
    // Which servers there will be, and what they have, nobody knows yet.
    if (rule.tool.startsWith(ORIGIN)) return [];
    const meant = tools.filter((tool) => isFor(rule, tool));
    if (meant.length === 0) return [`permissions.rules[${i}].tool: there is no tool ${rule.tool}`];
    const kinds = meant.map(({ kind }) => kind);
    if (rule.match !== undefined && !kinds.some((kind) => kind === "execute" || kind === "other"))
      return [`permissions.rules[${i}].match: ${rule.tool} runs no commands`];
    if (rule.path !== undefined && kinds.every((kind) => !ON_FILES.includes(kind) && kind !== "other"))
      return [`permissions.rules[${i}].path: ${rule.tool} names no paths`];
    return [];
  });
}
