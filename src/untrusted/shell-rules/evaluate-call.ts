import { join, resolve, sep } from "node:path";
import { folded, isInside } from "../../files/names.js";
import { CommandPattern, type Fit } from "./command-pattern.js";
import { compileGlob } from "../search/globs.js";
import { Allowance } from "../search/path-rules.js";
import { readShellLine, type ShellCommand, type ShellLine } from "./shell-line.js";

/** What may become of a call. */
export type RuleAction = "allow" | "ask" | "deny";

/** A rule for the tool that is called. */
export interface RuleForCall {
  readonly action: RuleAction;
  readonly match?: string;
  readonly path?: string;
  /** Whether it speaks of this tool and no other. */
  readonly exact: boolean;
}

/** A place that a call works on. */
export interface CallPlace {
  /** All the paths that lead there, absolute: as the call says it, and one more for each link on the way. */
  readonly ways: readonly string[];
  /** What it leads to. */
  readonly real: string;
  /** Whether all below it is meant as well. */
  readonly whole: boolean;
}

/** A call, and the rules that may be for it. */
export interface JudgeJob {
  readonly rules: readonly RuleForCall[];
  /** What a shell is given, or a program's words; undefined where the call has neither. */
  readonly command: string | readonly string[] | undefined;
  /** Whether it is a tool that starts programs. */
  readonly executes: boolean;
  readonly places: readonly CallPlace[];
  /** Whether it is a tool that works on files. */
  readonly files: boolean;
  readonly projectDir: string;
  readonly realProjectDir: string;
  /** What `~` means. */
  readonly homeDir: string | undefined;
}

/** `pass`: no rule is for the call. */
export interface Judgement {
  readonly action: RuleAction | "pass";
  /** Place in the job's rules of the one that decided; -1 for none. */
  readonly rule: number;
  /** Whether it is asked because the command could not be read. */
  readonly unread: boolean;
}

/** Of several, the one that counts comes first. */
const STRICTEST: readonly Judgement["action"][] = ["deny", "ask", "pass", "allow"];
const PASS: Judgement = { action: "pass", rule: -1, unread: false };

interface ReadRule extends RuleForCall {
  readonly pattern: CommandPattern | undefined;
  /** Whether the call's paths fit. */
  readonly place: Fit;
}

/** The judgement of the rules: for each command of the call that of the first rule that fits, and the strictest of these. */
export async function judgeCall(job: JudgeJob): Promise<Judgement> {
  const rules = job.rules.map((rule): ReadRule => ({
    ...rule,
    pattern: rule.match === undefined ? undefined : new CommandPattern(rule.match),
    place: rule.path === undefined ? "yes" : placeFit(rule.path, rule, job),
  }));
  const line = rules.some(({ pattern }) => pattern) ? await lineOf(job) : undefined;
  if (!line) return first(rules, undefined);
  const judged = line.commands.map((command) => first(rules, command));
  if (line.commands.length === 0 && line.isUnderstood) judged.push(first(rules, undefined));
  if (!line.isUnderstood && !judged.some(({ action }) => action === "deny")) return unread(rules);
  return judged.reduce((worst, one) => (isStricter(one, worst) ? one : worst));
}

/** Undefined for a call without a command, of a tool that starts none. */
async function lineOf({ command, executes }: JudgeJob): Promise<ShellLine | undefined> {
  if (command === undefined) return executes ? { commands: [], isUnderstood: false } : undefined;
  if (typeof command === "string") return readShellLine(command);
  const words = command.map((text) => ({ text, isLiteral: true, isSplit: false, expansion: undefined }));
  return { commands: [{ words, hasFiles: false }], isUnderstood: true };
}

function isStricter(one: Judgement, other: Judgement): boolean {
  return STRICTEST.indexOf(one.action) < STRICTEST.indexOf(other.action);
}

function first(rules: readonly ReadRule[], command: ShellCommand | undefined): Judgement {
  let least: Judgement | undefined;
  for (const [i, rule] of rules.entries()) {
    const fit = both(rule.place, commandFit(rule, command));
    if (fit === "no") continue;
    if (fit === "yes") return strictest(least, { action: rule.action, rule: i, unread: false });
    // It may be the one that decides: whatever the next ones say, it is no less than a question.
    if (rule.action !== "allow") least ??= { action: "ask", rule: i, unread: false };
  }
  return least ?? PASS;
}

/** Of a command that cannot be read nobody knows whether a rule for commands is for it. */
function unread(rules: readonly ReadRule[]): Judgement {
  let least: Judgement | undefined;
  for (const [i, rule] of rules.entries()) {
    if (rule.pattern) least ??= { action: "ask", rule: i, unread: true };
    else if (rule.place === "yes") return strictest(least, { action: rule.action, rule: i, unread: false });
    else if (rule.place === "maybe" && rule.action !== "allow") least ??= { action: "ask", rule: i, unread: false };
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
  return action !== "allow" ? pattern.meets(command) : pattern.covers(command) ? "yes" : "no";
}

/** An `allow` is for what really lies there, in all places of the call; the others for one of them, by either name. */
function placeFit(glob: string, { action, exact }: RuleForCall, job: JudgeJob): Fit {
  const { places, files } = job;
  if (places.length === 0) return action !== "allow" && (files || exact) ? "maybe" : "no";
  const { homeDir } = job;
  // Where nobody knows the home folder, nobody knows what lies in it either.
  if (homeDir === undefined && glob.startsWith("~/")) return action === "allow" ? "no" : "maybe";
  const inside = glob.replace(/^~(?=\/)/, homeDir ?? "~");
  if (action === "allow") {
    const covers = compileGlob(inside, new Allowance(Infinity));
    return places.every(({ real, whole }) => {
      const path = nameIn(real, job.realProjectDir, inside);
      return path !== undefined && covers(path) && (!whole || inside.endsWith("**"));
    })
      ? "yes"
      : "no";
  }
  let fit: Fit = "no";
  for (const { ways, real, whole } of places)
    for (const path of [...ways, real])
      for (const root of [job.projectDir, job.realProjectDir]) {
        if (isMet(inside, path, root)) return "yes";
        if (whole && mayLieBelow(inside, path, root)) fit = "maybe";
      }
  return fit;
}

/** A path as globs of that sort see it; undefined for one elsewhere. */
function nameIn(path: string, root: string, glob: string): string | undefined {
  const unix = (one: string) => one.split(sep).join("/");
  if (glob.startsWith("/")) return unix(path).slice(1);
  if (!isInside(path, root)) return undefined;
  return unix(path.slice(root.length)).replace(/^\/+/, "");
}

/** Whether the glob, in small letters or as it is, fits a path or a folder that it lies in. */
function isMet(glob: string, path: string, root: string): boolean {
  // A name alone is meant wherever it stands.
  const name = glob.includes("/") ? nameIn(path, root, glob) : (nameIn(path, root, glob) ?? nameIn(path, root, "/"));
  if (name === undefined) return false;
  return [(text: string) => text, folded].some((fold) => {
    const fits = compileGlob(fold(glob), new Allowance(Infinity));
    const names = fold(name).split("/");
    return names.some((_, i) => fits(names.slice(0, i + 1).join("/")));
  });
}

/** Whether what the glob means may lie below a folder. */
function mayLieBelow(glob: string, folder: string, root: string): boolean {
  if (!glob.includes("/")) return true;
  const fixed = glob.split("/").findIndex((name) => /[*?[{\\]/.test(name));
  const head = fixed < 0 ? glob : glob.split("/").slice(0, fixed).join("/");
  const at = folded(glob.startsWith("/") ? resolve("/", head) : join(root, head));
  const plainFolder = folded(folder);
  return isInside(at, plainFolder) || isInside(plainFolder, at);
}
