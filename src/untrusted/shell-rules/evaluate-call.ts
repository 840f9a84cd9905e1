import { join, resolve, sep } from "node:path";
import { folded, isInside } from "../../files/names.js";
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

/** A path that a call works on. */
export interface CallPlace {
  /** All absolute paths that lead to it: as the call contains it, and one more for each link on the way. */
  readonly paths: readonly string[];
  /** The real path. */
  readonly realPath: string;
  /** Whether everything below the path is meant as well. */
  readonly isRecursive: boolean;
}

/** A tool call, and the rules that may apply to it. */
export interface JudgeJob {
  readonly rules: readonly RuleForCall[];
  /** A shell line, or the words of a program; undefined if the call has neither. */
  readonly command: string | readonly string[] | undefined;
  /** Whether the tool starts programs. */
  readonly startsPrograms: boolean;
  readonly places: readonly CallPlace[];
  /** Whether the tool works on files. */
  readonly isFileTool: boolean;
  readonly projectDir: string;
  readonly realProjectDir: string;
  /** Folder for `~`; undefined if unknown. */
  readonly homeDir: string | undefined;
}

/** `pass`: no rule applies to the call. */
export interface Judgement {
  readonly action: RuleAction | "pass";
  /** Index in the job's rules of the deciding rule; -1 for none. */
  readonly rule: number;
  /** Whether the action is `ask` because the command could not be parsed. */
  readonly isUnparsed: boolean;
}

/** From the strictest to the least strict action. */
const STRICTEST: readonly Judgement["action"][] = ["deny", "ask", "pass", "allow"];
const PASS: Judgement = { action: "pass", rule: -1, isUnparsed: false };

interface ReadRule extends RuleForCall {
  readonly pattern: CommandPattern | undefined;
  /** Whether the call's paths match the rule's path. */
  readonly place: Fit;
}

/**
 * Evaluates a call: for each of its commands the first rule that applies decides, and the strictest of these results
 * applies.
 */
export async function evaluateCall(job: JudgeJob): Promise<Judgement> {
  const rules = job.rules.map((rule): ReadRule => ({
    ...rule,
    pattern: rule.match === undefined ? undefined : new CommandPattern(rule.match),
    place: rule.path === undefined ? "yes" : pathFit(rule.path, rule, job),
  }));
  const line = rules.some(({ pattern }) => pattern) ? await lineOf(job) : undefined;
  if (!line) return evaluateCommand(rules, undefined);
  const judged = line.commands.map((command) => evaluateCommand(rules, command));
  if (line.commands.length === 0 && line.isUnderstood) judged.push(evaluateCommand(rules, undefined));
  if (!line.isUnderstood && !judged.some(({ action }) => action === "deny")) return evaluateUnparsed(rules);
  return judged.reduce((worst, judgement) => (isStricter(judgement, worst) ? judgement : worst));
}

/** Undefined for a call without a command, if the tool starts no programs. */
async function lineOf({ command, startsPrograms }: JudgeJob): Promise<ShellLine | undefined> {
  if (command === undefined) return startsPrograms ? { commands: [], isUnderstood: false } : undefined;
  if (typeof command === "string") return readShellLine(command);
  const words = command.map((text) => ({ text, isLiteral: true, isSplit: false, expansion: undefined }));
  return { commands: [{ words, hasFiles: false }], isUnderstood: true };
}

function isStricter(left: Judgement, right: Judgement): boolean {
  return STRICTEST.indexOf(left.action) < STRICTEST.indexOf(right.action);
}

function evaluateCommand(rules: readonly ReadRule[], command: ShellCommand | undefined): Judgement {
  let least: Judgement | undefined;
  for (const [i, rule] of rules.entries()) {
    const fit = both(rule.place, commandFit(rule, command));
    if (fit === "no") continue;
    if (fit === "yes") return strictest(least, { action: rule.action, rule: i, isUnparsed: false });
    // This rule may be the deciding one. The result is at least `ask`, because later rules cannot weaken it.
    if (rule.action !== "allow") least ??= { action: "ask", rule: i, isUnparsed: false };
  }
  return least ?? PASS;
}

/** For a command that cannot be parsed, rules with a command pattern may or may not apply. */
function evaluateUnparsed(rules: readonly ReadRule[]): Judgement {
  let least: Judgement | undefined;
  for (const [i, rule] of rules.entries()) {
    if (rule.pattern) least ??= { action: "ask", rule: i, isUnparsed: true };
    else if (rule.place === "yes") return strictest(least, { action: rule.action, rule: i, isUnparsed: false });
    else if (rule.place === "maybe" && rule.action !== "allow") least ??= { action: "ask", rule: i, isUnparsed: false };
  }
  return least ?? PASS;
}

function strictest(least: Judgement | undefined, then: Judgement): Judgement {
  return least && then.action !== "deny" ? least : then;
}

function both(a: Fit, b: Fit): Fit {
  return a === "no" || b === "no" ? "no" : a === "yes" && b === "yes" ? "yes" : "maybe";
}

function commandFit({ pattern, action }: ReadRule, command: ShellCommand | undefined): Fit {
  if (!pattern) return "yes";
  if (!command) return "no";
  return action !== "allow" ? pattern.forbids(command) : pattern.covers(command) ? "yes" : "no";
}

/** `allow` must match the real path of every place of the call. Other actions must match any path of any place. */
function pathFit(glob: string, { action, isExact }: RuleForCall, job: JudgeJob): Fit {
  const { places, isFileTool } = job;
  if (places.length === 0) return action !== "allow" && (isFileTool || isExact) ? "maybe" : "no";
  const { homeDir } = job;
  // Without a known home folder, it is also unknown which paths are in it.
  if (homeDir === undefined && glob.startsWith("~/")) return action === "allow" ? "no" : "maybe";
  const inside = glob.replace(/^~(?=\/)/, homeDir ?? "~");
  if (action === "allow") {
    const covers = compileGlob(inside, new TimeBudget(Infinity));
    return places.every(({ realPath, isRecursive }) => {
      const path = nameIn(realPath, job.realProjectDir, inside);
      return path !== undefined && covers(path) && (!isRecursive || inside.endsWith("**"));
    })
      ? "yes"
      : "no";
  }
  let fit: Fit = "no";
  for (const { paths, realPath: real, isRecursive } of places)
    for (const path of [...paths, real])
      for (const root of [job.projectDir, job.realProjectDir]) {
        if (matchesPath(inside, path, root)) return "yes";
        if (isRecursive && mayLieBelow(inside, path, root)) fit = "maybe";
      }
  return fit;
}

/** A path in the form that the glob requires; undefined if the path is outside `root`. */
function nameIn(path: string, root: string, glob: string): string | undefined {
  const unix = (nativePath: string) => nativePath.split(sep).join("/");
  if (glob.startsWith("/")) return unix(path).slice(1);
  if (!isInside(path, root)) return undefined;
  return unix(path.slice(root.length)).replace(/^\/+/, "");
}

/** Whether the glob matches the path or a folder that contains it, in lower case or unchanged. */
function matchesPath(glob: string, path: string, root: string): boolean {
  // A glob without a slash matches a name in any folder.
  const name = glob.includes("/") ? nameIn(path, root, glob) : (nameIn(path, root, glob) ?? nameIn(path, root, "/"));
  if (name === undefined) return false;
  return [(text: string) => text, folded].some((fold) => {
    const fits = compileGlob(fold(glob), new TimeBudget(Infinity));
    const names = fold(name).split("/");
    return names.some((_, i) => fits(names.slice(0, i + 1).join("/")));
  });
}

/** Whether a path that the glob matches may be below a folder. */
function mayLieBelow(glob: string, folder: string, root: string): boolean {
  if (!glob.includes("/")) return true;
  const fixed = glob.split("/").findIndex((name) => /[*?[{\\]/.test(name));
  const head = fixed < 0 ? glob : glob.split("/").slice(0, fixed).join("/");
  const at = folded(glob.startsWith("/") ? resolve("/", head) : join(root, head));
  const plainFolder = folded(folder);
  return isInside(at, plainFolder) || isInside(plainFolder, at);
}
