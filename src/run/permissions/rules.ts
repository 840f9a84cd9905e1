import { homedir } from "node:os";
import { resolve } from "node:path";
import { attempt } from "../../base/attempt.js";
import { isRecord } from "../../base/json.js";
import { shellQuote } from "../../base/shell-quote.js";
import { PathGuard } from "../../files/path-guard.js";
import type { CallLocation, CallEvaluation } from "../../untrusted/shell-rules/evaluate-call.js";
import { withWorker } from "../../untrusted/workers.js";
import type { PermissionRule } from "../../ports/permission-policy.js";
import type { ToolCall } from "../../ports/tool.js";
import { namesTool, matchesTool, appliesToCall, FILE_TOOL_KINDS, toReadCall } from "./rule-schema.js";

/** Time limit for evaluating the rules for one call, in ms. */
const EVALUATION_TIMEOUT_MS = 5_000;
/** Argument names that may contain a command. */
const COMMAND_ARGUMENTS = ["command", "cmd", "script"];
const PASS_VERDICT = { action: "pass", reason: "", rule: undefined, mayBeDenied: false } as const;

/** The result of the rules for a call, with the rule that decided. */
export interface RuleVerdict {
  readonly action: CallEvaluation["action"];
  readonly reason: string;
  /** Index of the deciding rule, from 0; undefined if none decided. */
  readonly rule: number | undefined;
  /**
   * Whether a deny rule may apply, but the rules cannot determine that. True only if `action` is `ask`; then only a
   * user may allow the call.
   */
  readonly mayBeDenied: boolean;
}

/**
 * Evaluates the rules for a call. `args` are the arguments as parsed by the tool. Rejects if the rules cannot be
 * evaluated.
 */
export async function evaluateRules(
  rules: readonly PermissionRule[],
  call: ToolCall,
  args: unknown,
  signal: AbortSignal,
): Promise<RuleVerdict> {
  const callVerdict = await evaluateSingleCall(rules, call, args, signal);
  const readCall = toReadCall(call);
  if (!readCall || callVerdict.action === "deny") return callVerdict;
  const readVerdict = await evaluateSingleCall(rules, readCall, {}, signal);
  const decidingRule = rules[readVerdict.rule ?? -1];
  // A rule that also applies to the call itself has already been evaluated, in order.
  if (
    !decidingRule ||
    appliesToCall(decidingRule, call) ||
    readVerdict.action === "pass" ||
    readVerdict.action === "allow"
  )
    return callVerdict;
  return callVerdict.action === "ask" && readVerdict.action === "ask" ? callVerdict : readVerdict;
}

async function evaluateSingleCall(
  rules: readonly PermissionRule[],
  call: ToolCall,
  args: unknown,
  signal: AbortSignal,
): Promise<RuleVerdict> {
  const { tool, projectDir } = call;
  const command = readCommand(args);
  const isExecution = tool.kind === "execute";
  const isFileTool = FILE_TOOL_KINDS.includes(tool.kind);
  const canMatch = (rule: PermissionRule): boolean => {
    if (!appliesToCall(rule, call)) return false;
    if (rule.match !== undefined && command === undefined && !isExecution) return false;
    // An allow rule with `match` does not apply to a call that only acts as the tool, for example input for a running
    // command. Ask and deny rules do apply.
    if (rule.match !== undefined && rule.action === "allow" && !matchesTool(rule, tool)) return false;
    return rule.path === undefined || call.locations.length > 0 || isFileTool || namesTool(rule, tool);
  };
  const ruleIndexes = rules.flatMap((rule, i) => (canMatch(rule) ? [i] : []));
  const matchingRules = ruleIndexes.map((i) => rules[i]!);
  const [firstRule] = matchingRules;
  if (!firstRule) return PASS_VERDICT;
  // Shortcut for the common case: the first rule that can match has neither `match` nor `path`.
  if (firstRule.match === undefined && firstRule.path === undefined)
    return toVerdict(firstRule, ruleIndexes[0], firstRule.action, false);
  const guard = await PathGuard.create({ roots: "anywhere", deniedPaths: [] });
  const job = {
    rules: matchingRules.map((rule) => ({
      action: rule.action,
      ...(rule.match === undefined ? {} : { match: rule.match }),
      ...(rule.path === undefined ? {} : { path: rule.path }),
      isExact: namesTool(rule, tool),
    })),
    command,
    startsPrograms: isExecution,
    locations: await Promise.all(
      call.locations.map(({ path }) => toCallLocation(guard, resolve(projectDir, path), call)),
    ),
    isFileTool,
    projectDir,
    realProjectDir: (await guard.resolve(projectDir)).path,
    // The user may have neither a passwd entry nor a HOME variable.
    homeDir: attempt(() => homedir(), undefined),
  };
  const { action, rule, isUnparsed } = await withWorker(signal, (thread) =>
    thread.runJob("judge", job, { ms: EVALUATION_TIMEOUT_MS }),
  );
  const decidingRule = matchingRules[rule];
  if (!decidingRule || action === "pass") return PASS_VERDICT;
  const mayBeDenied =
    action === "ask" &&
    (isUnparsed || decidingRule.action === "deny") &&
    matchingRules.some((matchingRule) => matchingRule.action === "deny");
  return { ...toVerdict(decidingRule, ruleIndexes[rule], action, isUnparsed), mayBeDenied };
}

/**
 * Creates the verdict of a deciding rule. `action`: the result of the rule, which may be `ask` although the rule itself
 * is stricter or less strict.
 */
function toVerdict(
  { reason }: PermissionRule,
  rule: number | undefined,
  action: PermissionRule["action"],
  isUnparsed: boolean,
): RuleVerdict {
  const mayBeDenied = false;
  if (isUnparsed) return { action, reason: "the rules cannot parse the command", rule, mayBeDenied };
  const defaultReasons = {
    allow: "",
    ask: "a rule requires confirmation",
    deny: "a rule denies it. Continue without it.",
  };
  return { action, reason: reason ?? defaultReasons[action], rule, mayBeDenied };
}

/**
 * Returns the command of a call; undefined if it has none. If the call has a `workdir`, the command begins with a `cd`
 * to it.
 */
function readCommand(args: unknown): string | string[] | undefined {
  if (!isRecord(args)) return undefined;
  const { workdir } = args;
  const command = COMMAND_ARGUMENTS.map((name) => args[name]).find((value) => value !== undefined);
  const isWordList = Array.isArray(command) && command.every((word) => typeof word === "string");
  if (typeof command !== "string" && !isWordList) return undefined;
  if (typeof workdir !== "string") return command;
  return `cd ${shellQuote(workdir)}\n${isWordList ? command.map(shellQuote).join(" ") : command}`;
}

async function toCallLocation(guard: PathGuard, path: string, { tool }: ToolCall): Promise<CallLocation> {
  const { traversedPaths, path: realPath, isFolder } = await guard.resolve(path);
  // Reading a folder includes everything below it.
  return {
    paths: traversedPaths,
    realPath,
    isRecursive: tool.kind === "search" || (isFolder && (tool.kind === "delete" || tool.kind === "read")),
  };
}
