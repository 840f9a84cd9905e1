import { homedir } from "node:os";
import { resolve } from "node:path";
import { attempt } from "../../base/attempt.js";
import { isRecord } from "../../base/json.js";
import { shellQuote } from "../../base/shell-quote.js";
import { PathGuard } from "../../files/path-guard.js";
import type { CallPlace, Judgement } from "../../untrusted/shell-rules/evaluate-call.js";
import { withWorker } from "../../untrusted/workers.js";
import type { PermissionRule } from "../../ports/permission-policy.js";
import type { ToolCall } from "../../ports/tool.js";
import { namesTool, matchesTool, appliesToCall, FILE_TOOL_KINDS, toReadCall } from "./rule-schema.js";

/** Time limit for evaluating the rules for one call, in ms. */
const EVALUATION_TIMEOUT_MS = 5_000;
/** Argument names that may contain a command. */
const COMMAND_ARGUMENTS = ["command", "cmd", "script"];
const PASS = { action: "pass", reason: "", rule: undefined, mayBeDenied: false } as const;

/** The result of the rules for a call, with the rule that decided. */
export interface RuleVerdict {
  readonly action: Judgement["action"];
  readonly reason: string;
  /** Index of the deciding rule, from 0; undefined if none decided. */
  readonly rule: number | undefined;
  /**
   * Whether a deny rule may apply, which could not be determined. Set for `ask` only; then only a user may allow the
   * call.
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
  const reading = toReadCall(call);
  if (!reading || callVerdict.action === "deny") return callVerdict;
  const read = await evaluateSingleCall(rules, reading, {}, signal);
  const decided = rules[read.rule ?? -1];
  // A rule that also applies to the call itself has already been evaluated, in order.
  if (!decided || appliesToCall(decided, call) || read.action === "pass" || read.action === "allow") return callVerdict;
  return callVerdict.action === "ask" && read.action === "ask" ? callVerdict : read;
}

async function evaluateSingleCall(
  rules: readonly PermissionRule[],
  call: ToolCall,
  args: unknown,
  signal: AbortSignal,
): Promise<RuleVerdict> {
  const { tool, projectDir } = call;
  const command = commandOf(args);
  const executes = tool.kind === "execute";
  const files = FILE_TOOL_KINDS.includes(tool.kind);
  const canFit = (rule: PermissionRule): boolean => {
    if (!appliesToCall(rule, call)) return false;
    if (rule.match !== undefined && command === undefined && !executes) return false;
    // An allow rule with `match` does not apply to a call that only acts as the tool, for example input for a running
    // command. Ask and deny rules do apply.
    if (rule.match !== undefined && rule.action === "allow" && !matchesTool(rule, tool)) return false;
    return rule.path === undefined || call.locations.length > 0 || files || namesTool(rule, tool);
  };
  const places = rules.flatMap((rule, i) => (canFit(rule) ? [i] : []));
  const matchingRules = places.map((i) => rules[i]!);
  const [only] = matchingRules;
  if (!only) return PASS;
  // Shortcut for the common case: the first rule has neither `match` nor `path`.
  if (only.match === undefined && only.path === undefined) return toVerdict(only, places[0], only.action, false);
  const guard = await PathGuard.create({ roots: "anywhere", denied: [] });
  const job = {
    rules: matchingRules.map((rule) => ({
      action: rule.action,
      ...(rule.match === undefined ? {} : { match: rule.match }),
      ...(rule.path === undefined ? {} : { path: rule.path }),
      isExact: namesTool(rule, tool),
    })),
    command,
    startsPrograms: executes,
    places: await Promise.all(call.locations.map(({ path }) => toCallPlace(guard, resolve(projectDir, path), call))),
    isFileTool: files,
    projectDir,
    realProjectDir: (await guard.resolve(projectDir)).path,
    homeDir: homeOf(),
  };
  const { action, rule, isUnparsed } = await withWorker(signal, (thread) =>
    thread.runJob("judge", job, { ms: EVALUATION_TIMEOUT_MS }),
  );
  const decided = matchingRules[rule];
  if (!decided || action === "pass") return PASS;
  const mayBeDenied = action === "ask" && (isUnparsed || decided.action === "deny") && matchingRules.some(isDenying);
  return { ...toVerdict(decided, places[rule], action, isUnparsed), mayBeDenied };
}

/** Undefined if the user has neither a passwd entry nor a HOME variable. */
function homeOf(): string | undefined {
  return attempt(() => homedir(), undefined);
}

/** `action`: the result of the rule. It may be `ask` although the rule itself is stricter or less strict. */
function toVerdict(
  { reason }: PermissionRule,
  rule: number | undefined,
  action: PermissionRule["action"],
  unread: boolean,
): RuleVerdict {
  const mayBeDenied = false;
  if (unread) return { action, reason: "the rules cannot parse the command", rule, mayBeDenied };
  const standard = { allow: "", ask: "a rule requires confirmation", deny: "a rule denies it. Continue without it." };
  return { action, reason: reason ?? standard[action], rule, mayBeDenied };
}

function isDenying({ action }: PermissionRule): boolean {
  return action === "deny";
}

/** The command of a call. If the call has a `workdir`, a `cd` to it comes first. */
function commandOf(args: unknown): string | string[] | undefined {
  if (!isRecord(args)) return undefined;
  const { workdir } = args;
  const command = COMMAND_ARGUMENTS.map((name) => args[name]).find((value) => value !== undefined);
  const isWords = Array.isArray(command) && command.every((word) => typeof word === "string");
  if (typeof command !== "string" && !isWords) return undefined;
  if (typeof workdir !== "string") return command;
  return `cd ${shellQuote(workdir)}\n${isWords ? command.map(shellQuote).join(" ") : command}`;
}

async function toCallPlace(guard: PathGuard, path: string, { tool }: ToolCall): Promise<CallPlace> {
  const { traversedPaths, path: real, isFolder } = await guard.resolve(path);
  // Reading a folder includes everything below it.
  return {
    paths: traversedPaths,
    realPath: real,
    isRecursive: tool.kind === "search" || (isFolder && (tool.kind === "delete" || tool.kind === "read")),
  };
}
