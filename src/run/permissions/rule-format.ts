import type { PermissionRule } from "../../ports/permission-policy.js";

export const RULE_ACTIONS: readonly PermissionRule["action"][] = ["allow", "ask", "deny"];
/** Expected values of a rule's fields, as shown after `expected`. */
export const EXPECTED_VALUES = {
  tool: "the name of a tool, mcp:server/tool, or a glob for one of them",
  match: "words of one command, each a glob, without quotes and operators",
  path: "a glob from the project folder, or one that begins with / or ~/",
} as const;
