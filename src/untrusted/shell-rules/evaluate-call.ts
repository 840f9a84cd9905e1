import { join, resolve, sep } from "node:path";
import { foldPath, isInside } from "../../files/names.js";
import { CommandPattern, type Fit } from "./command-pattern.js";
import { compileGlob } from "../search/globs.js";
import { TimeBudget } from "../search/path-rules.js";
import { readShellLine, type ShellCommand, type ShellLine } from "./shell-line.js";

/** The action of a rule for a tool call. */
export type RuleAction = "allow" | "ask" | "deny";

/** A rule that applies to the called tool. */
export interface RuleForCall {
  readonly action: RuleAction;
  readonly match?: string;
  readonly path?: string;
  /** Whether the rule names this tool exactly. */
  readonly isExact: boolean;
}

/** A path on which a call works. */
export interface CallLocation {
  /** All absolute paths to the file: the path in the call, and one more for each link that it contains. */
  readonly paths: readonly string[];
  /** The real path. */
  readonly realPath: string;
  /** Whether the call also works on everything below the path. */
  readonly isRecursive: boolean;
}

/** A tool call, and the rules that may apply to it. */
export interface CallEvaluationJob {
  readonly rules: readonly RuleForCall[];
  /** A shell line, or the words of a program; undefined if the call has neither. */
  readonly command: string | readonly string[] | undefined;
  /** Whether the tool starts programs. */
  readonly startsPrograms: boolean;
  readonly locations: readonly CallLocation[];
  /** Whether the tool works on files. */
  readonly isFileTool: boolean;
  readonly projectDir: string;
  readonly realProjectDir: string;
  /** Folder for `~`; undefined if unknown. */
  readonly homeDir: string | undefined;
}

/** The result for a call. `pass`: no rule applies to the call. */
export interface CallEvaluation {
  readonly action: RuleAction | "pass";
  /** Index of the deciding rule in the job's `rules`; -1 if there is none. */
  readonly rule: number;
  /** Whether the action is `ask` because the command could not be parsed. */
  readonly isUnparsed: boolean;
}

/** Actions from the strictest to the least strict. */
const ACTIONS_BY_STRICTNESS: readonly CallEvaluation["action"][] = ["deny", "ask", "pass", "allow"];
const NO_RULE_APPLIES: CallEvaluation = { action: "pass", rule: -1, isUnparsed: false };

interface ParsedRule extends RuleForCall {
  readonly pattern: CommandPattern | undefined;
  /** Whether the call's paths match the rule's path. */
  readonly pathResult: Fit;
}

/**
 * Evaluates a call. For each of its commands, the first rule that applies decides. The strictest of these results
 * applies.
 */
export async function evaluateCall(job: CallEvaluationJob): Promise<CallEvaluation> {
  const rules = job.rules.map((rule): ParsedRule => ({
    ...rule,
    pattern: rule.match === undefined ? undefined : new CommandPattern(rule.match),
    pathResult: rule.path === undefined ? "yes" : matchPath(rule.path, rule, job),
  }));
  const line = rules.some(({ pattern }) => pattern) ? await readLine(job) : undefined;
  if (!line) return evaluateCommand(rules, undefined);
  const evaluations = line.commands.map((command) => evaluateCommand(rules, command));
  if (line.commands.length === 0 && line.isUnderstood) evaluations.push(evaluateCommand(rules, undefined));
  if (!line.isUnderstood && !evaluations.some(({ action }) => action === "deny")) return evaluateUnparsed(rules);
  return evaluations.reduce((strictest, evaluation) => (isStricter(evaluation, strictest) ? evaluation : strictest));
}

/** Parses the command of a call. Undefined for a call without a command, if the tool starts no programs. */
async function readLine({ command, startsPrograms }: CallEvaluationJob): Promise<ShellLine | undefined> {
  if (command === undefined) return startsPrograms ? { commands: [], isUnderstood: false } : undefined;
  if (typeof command === "string") return readShellLine(command);
  const words = command.map((text) => ({ text, isLiteral: true, isSplit: false, expansion: undefined }));
  return { commands: [{ words, hasFiles: false }], isUnderstood: true };
}

function isStricter(left: CallEvaluation, right: CallEvaluation): boolean {
  return ACTIONS_BY_STRICTNESS.indexOf(left.action) < ACTIONS_BY_STRICTNESS.indexOf(right.action);
}

function evaluateCommand(rules: readonly ParsedRule[], command: ShellCommand | undefined): CallEvaluation {
  let strictestResult: CallEvaluation | undefined;
  for (const [i, rule] of rules.entries()) {
    const fit = combineFits(rule.pathResult, matchCommand(rule, command));
    if (fit === "no") continue;
    if (fit === "yes") return chooseStricter(strictestResult, { action: rule.action, rule: i, isUnparsed: false });
    // This rule may be the deciding one. The result is at least `ask`, because later rules cannot weaken it.
    if (rule.action !== "allow") strictestResult ??= { action: "ask", rule: i, isUnparsed: false };
  }
  return strictestResult ?? NO_RULE_APPLIES;
}

/** For a command that cannot be parsed, rules with a command pattern may or may not apply. */
function evaluateUnparsed(rules: readonly ParsedRule[]): CallEvaluation {
  let strictestResult: CallEvaluation | undefined;
  for (const [i, rule] of rules.entries()) {
    if (rule.pattern) strictestResult ??= { action: "ask", rule: i, isUnparsed: true };
    else if (rule.pathResult === "yes")
      return chooseStricter(strictestResult, { action: rule.action, rule: i, isUnparsed: false });
    else if (rule.pathResult === "maybe" && rule.action !== "allow")
      strictestResult ??= { action: "ask", rule: i, isUnparsed: false };
  }
  return strictestResult ?? NO_RULE_APPLIES;
}

function chooseStricter(strictestResult: CallEvaluation | undefined, nextResult: CallEvaluation): CallEvaluation {
  return strictestResult && nextResult.action !== "deny" ? strictestResult : nextResult;
}

function combineFits(left: Fit, right: Fit): Fit {
  return left === "no" || right === "no" ? "no" : left === "yes" && right === "yes" ? "yes" : "maybe";
}

function matchCommand({ pattern, action }: ParsedRule, command: ShellCommand | undefined): Fit {
  if (!pattern) return "yes";
  if (!command) return "no";
  return action !== "allow" ? pattern.forbids(command) : pattern.covers(command) ? "yes" : "no";
}

/**
 * A rule with the action `allow` must match the real path of every location of the call. A rule with another action
 * must match any path of any location.
 */
function matchPath(glob: string, { action, isExact }: RuleForCall, job: CallEvaluationJob): Fit {
  const { locations, isFileTool } = job;
  if (locations.length === 0) return action !== "allow" && (isFileTool || isExact) ? "maybe" : "no";
  const { homeDir } = job;
  // Without a known home folder, it is also unknown which paths are in it.
  if (homeDir === undefined && glob.startsWith("~/")) return action === "allow" ? "no" : "maybe";
  const expandedGlob = glob.replace(/^~(?=\/)/, homeDir ?? "~");
  if (action === "allow") {
    const covers = compileGlob(expandedGlob, new TimeBudget(Infinity));
    return locations.every(({ realPath, isRecursive }) => {
      const path = toGlobPath(realPath, job.realProjectDir, expandedGlob);
      return path !== undefined && covers(path) && (!isRecursive || expandedGlob.endsWith("**"));
    })
      ? "yes"
      : "no";
  }
  let fit: Fit = "no";
  for (const { paths, realPath, isRecursive } of locations)
    for (const path of [...paths, realPath])
      for (const root of [job.projectDir, job.realProjectDir]) {
        if (matchesPath(expandedGlob, path, root)) return "yes";
        if (isRecursive && mayLieBelow(expandedGlob, path, root)) fit = "maybe";
      }
  return fit;
}

/** Returns a path in the form that the glob requires; undefined if the path is outside `root`. */
function toGlobPath(path: string, root: string, glob: string): string | undefined {
  const toUnixPath = (nativePath: string) => nativePath.split(sep).join("/");
  if (glob.startsWith("/")) return toUnixPath(path).slice(1);
  if (!isInside(path, root)) return undefined;
  return toUnixPath(path.slice(root.length)).replace(/^\/+/, "");
}

/** Whether the glob matches the path or a folder that contains it, in lower case or unchanged. */
function matchesPath(glob: string, path: string, root: string): boolean {
  // A glob without a slash matches a name in any folder.
  const name = glob.includes("/")
    ? toGlobPath(path, root, glob)
    : (toGlobPath(path, root, glob) ?? toGlobPath(path, root, "/"));
  if (name === undefined) return false;
  return [(text: string) => text, foldPath].some((fold) => {
    const matches = compileGlob(fold(glob), new TimeBudget(Infinity));
    const names = fold(name).split("/");
    return names.some((_, i) => matches(names.slice(0, i + 1).join("/")));
  });
}

/** Whether a path that the glob matches may be below a folder. */
function mayLieBelow(glob: string, folder: string, root: string): boolean {
  if (!glob.includes("/")) return true;
  const wildcardIndex = glob.split("/").findIndex((name) => /[*?[{\\]/.test(name));
  const fixedPart = wildcardIndex < 0 ? glob : glob.split("/").slice(0, wildcardIndex).join("/");
  const fixedPath = foldPath(glob.startsWith("/") ? resolve("/", fixedPart) : join(root, fixedPart));
  const foldedFolder = foldPath(folder);
  return isInside(fixedPath, foldedFolder) || isInside(foldedFolder, fixedPath);
}
