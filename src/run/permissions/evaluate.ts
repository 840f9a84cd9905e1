import { resolve } from "node:path";
import { abortable } from "../../base/abort.js";
import type { Permission, PermissionRule } from "../../ports/permission-policy.js";
import type { ToolCall, ToolCallPreview } from "../../ports/tool.js";
import { MODE_POLICY, refreshMode, findModeDenial, hasResponder, isAttended } from "./modes.js";
import type { PermissionRun } from "./permission-run.js";
import { appliesToCall, toReadCall } from "./rule-schema.js";
import type { RuleVerdict } from "./rules.js";

/** Output of a call that a cancel prevented, for the model. */
export const CANCELLED_TEXT = "[cancelled before it ran]";

export const CONTINUE_TEXT = "It was not rejected: continue without it, or say why you need it.";
export const NO_RESPONDER_TEXT = `This call needs permission and no client could answer, so it did not run. ${CONTINUE_TEXT}`;

/** The result of evaluating a call: it runs, it is denied with a reason, or a user is asked with a reason. */
export type Verdict =
  | "allow"
  | { readonly denialReason: string }
  /** `grantScope`: scope of a permanent permission grant. `preview`: the tool's preview of the call, for the user. */
  | { readonly askReason: string; readonly grantScope: string; readonly preview?: ToolCallPreview };

/**
 * Evaluates a call: first the session's mode, then the policies and rules in order until one does not pass. `args`: the
 * arguments as parsed by the tool. Never rejects: an error denies the call.
 */
export async function evaluate(call: ToolCall, args: unknown, run: PermissionRun): Promise<Verdict> {
  const { signal, permissions } = run;
  const { logger } = run.channels;
  const unattended = permissions.unattended.policy;
  let decidedBy = "mode";
  let isDenialPossible = false;
  try {
    const mode = await refreshMode(run);
    const denialReason = findModeDenial(mode, call.tool);
    if (denialReason !== undefined) return { denialReason };
    const request = { ...call, mode, canAsk: hasResponder(run) };
    let decision: { action: Action; reason: string } | undefined;
    for (const policy of permissions.policies) {
      decidedBy = policy.name;
      decision = readPermission(await abortable((async () => policy.judge(request, signal))(), signal));
      if (decision.action !== "pass") break;
    }
    if (decision === undefined || decision.action === "pass") {
      decidedBy = "rules";
      const { rule, mayBeDenied, ...ruleDecision } = await evaluateByRules(call, args, permissions.rules, signal);
      isDenialPossible = mayBeDenied;
      if (rule !== undefined) decidedBy = `permissions.rules[${rule}]`;
      decision = ruleDecision;
    }
    if (decision.action === "pass") {
      decidedBy = MODE_POLICY.name;
      decision = readPermission(await MODE_POLICY.judge(request, signal));
    }
    if (decidedBy !== MODE_POLICY.name)
      logger.debug("permission decided", {
        tool: call.tool.name,
        call: call.callId,
        by: decidedBy,
        action: decision.action,
      });
    const { action, reason } = decision;
    if (action === "deny") return { denialReason: `This call is not allowed: ${reason || "continue without it."}` };
    if (action === "allow") return "allow";
    if (isAttended(run) || unattended === "wait")
      return { askReason: reason, grantScope: await createGrantScope(call) };
    return unattended === "allow" && !isDenialPossible ? "allow" : { denialReason: NO_RESPONDER_TEXT };
  } catch (error) {
    if (signal.aborted) return { denialReason: CANCELLED_TEXT };
    logger.error("permission could not be decided; tool call denied", {
      tool: call.tool.name,
      policy: decidedBy,
      error,
    });
    return {
      denialReason: "The permission of this call could not be determined, so it did not run. Continue without it.",
    };
  }
}

type Action = Permission["action"];
const ACTIONS: readonly unknown[] = ["allow", "deny", "ask", "pass"] satisfies Action[];

/** Reads the answer of a policy, each field once. Throws if it is invalid. */
function readPermission(answer: Permission): { action: Action; reason: string } {
  const { action, reason } = answer;
  if (!ACTIONS.includes(action)) throw new Error("the policy returned none of allow, deny, ask, pass");
  return { action, reason: typeof reason === "string" ? reason : "" };
}

async function evaluateByRules(
  call: ToolCall,
  args: unknown,
  rules: readonly PermissionRule[],
  signal: AbortSignal,
): Promise<RuleVerdict> {
  const calls = [call, toReadCall(call)];
  if (!rules.some((rule) => calls.some((candidate) => candidate && appliesToCall(rule, candidate))))
    return { action: "pass", reason: "", rule: undefined, mayBeDenied: false };
  const { evaluateRules } = await import("./rules.js");
  return evaluateRules(rules, call, args, signal);
}

/**
 * Returns why an allowed call must not start: the session's mode was changed during the evaluation. Returns undefined
 * if the call may start. `hasHook`: whether a hook was called since. Never rejects.
 */
export async function recheckMode(
  { tool }: ToolCall,
  verdict: Verdict,
  run: PermissionRun,
  hasHook: boolean,
): Promise<string | undefined> {
  const { policies, rules } = run.permissions;
  // Without policies, rules and hooks, the mode was read immediately before.
  const isModeCurrent = policies.length + rules.length === 0 && !hasHook;
  if (verdict === "allow" && isModeCurrent) return undefined;
  try {
    return findModeDenial(await refreshMode(run), tool);
  } catch (error) {
    run.channels.logger.error("session mode could not be read; tool call denied", { tool: tool.name, error });
    return CANCELLED_TEXT;
  }
}

/**
 * Returns the scope of a permanent grant: for edits the files, for other tools the exact input, because one allowed
 * command does not allow the next.
 */
async function createGrantScope({ tool, input, locations, projectDir }: ToolCall): Promise<string> {
  if (tool.kind !== "edit" || locations.length === 0) return JSON.stringify({ projectDir, input });
  const paths = locations.map(({ path }) => path).sort();
  return JSON.stringify(await Promise.all(paths.map((path) => toScopePath(path, projectDir))));
}

/** Returns a path, with its real path if that differs: the path could be replaced by a link later. */
async function toScopePath(path: string, projectDir: string): Promise<string | [string, string]> {
  const { PathGuard } = await import("../../files/path-guard.js");
  const findRealPath = async () => {
    const guard = await PathGuard.create({ roots: "anywhere", deniedPaths: [] });
    return (await guard.resolve(resolve(projectDir, path))).path;
  };
  const realPath = await findRealPath().catch(() => "");
  return realPath === path ? path : [path, realPath];
}
