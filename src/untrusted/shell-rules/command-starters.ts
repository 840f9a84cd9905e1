import type { ShellCommand, ShellWord } from "./shell-line.js";

/** Words of a command that are tried as the program that it starts. Limits the time for long commands. */
export const MAX_STARTS = 64;

/** How much of a command a rule must spell out, because the rest decides which program runs. */
export interface Starter {
  /** Number of words, the program included, that an `allow` must name without a wildcard. */
  readonly fixedWords: number;
  /**
   * `"arguments"`: it starts a command that is written in its words. `"anything"`: what it runs is not among them.
   * `"nothing"`: it runs a file, which no rule looks into.
   */
  readonly starts: "nothing" | "arguments" | "anything";
}

const setOf = (names: string): ReadonlySet<string> => new Set(names.split(" "));

/** Programs that start the command in their arguments. */
const WRAPPERS = setOf(
  "batch busybox bwrap capsh cgexec choom chroot chrt command builtin cpulimit dbus-launch dbus-run-session doas " +
    "entr env exec expect fakeroot faketime firejail flock gosu i386 i686 ionice linux32 linux64 logsave " +
    "ltrace newgrp nice nohup nsenter numactl parallel perf pkexec prlimit proot runcon runuser " +
    "script setarch setpriv setsid sg ssh-agent start-stop-daemon stdbuf strace su su-exec sudo systemd-run taskset " +
    "time timeout toybox uname26 unbuffer unshare valgrind watch x86_64 xargs xvfb-run",
);
/** Programs that start the one of a package. */
const RUNNERS = setOf("bunx npx pipx pnpx uvx");
/** Programs that hand a command in their arguments on. An `allow` with a wildcard permits whatever they do. */
const CARRIERS =
  /^(cross-env|dotenv|hyperfine|nix-shell|ssh|watchexec|(conda|pipenv|poetry|uv) run|(bundle|direnv|mise) exec) /;
/** Words that follow the written command while it runs, so that the words alone do not say what it does. */
const APPENDING = setOf("entr parallel xargs");
/** Commands that change what later words of the line mean, or evaluate their arguments. */
const EVALUATING = setOf(
  ". alias at bind compgen complete compopt declare enable eval export fc gdb getopts hash history let local mapfile " +
    "read readarray readonly run-parts screen shopt source tmux trap typeset unalias unset",
);
const SHELLS = setOf("ash bash csh dash fish ksh mksh powershell pwsh rbash sh tcsh zsh");
/** Programs that run a file or the code in their arguments. */
const INTERPRETERS =
  /^(awk|bun|deno|gawk|lua|luajit|mawk|nawk|node|nodejs|osascript|perl|php|pypy|python|ruby|tclsh|tsx)[\d.]*$/;
/** Their first operand is code. Only with one of these it starts a command. */
const AWK = /^[gmn]?awk/;
const AWK_STARTS = /system|@|(?<!\|)\|(?!\|)/;
/** Options of interpreters and runners whose value is the next word. */
const HAS_VALUE =
  /^(\S*awk\S* -[Fv]|lua\S* -l|node\S* (-C|--conditions|--title)|(perl|ruby)\S* -I|php\S* -d|py\S* -[WX]|\w*sh ([-+]\w*[oO]|--(rc|init-)file)|\S+x (-p|--package|--from|--with))$/;
const INLINE_CODE = /^(-[a-zA-Z]*[ceEpr].*|--(eval|print|command|execute|require|import|loader)\b.*|-|eval)$/;
/** Arguments by which other programs start a command. A file of this name can be the result of a pattern, too. */
const STARTING_ARGUMENTS: Readonly<Record<string, RegExp>> = {
  "[": /^-[vR]$|\[.*[$`]/s,
  fd: /^(-[a-zA-Z]*[xX]|--exec)/,
  fdfind: /^(-[a-zA-Z]*[xX]|--exec)/,
  find: /^-(exec|execdir|ok|okdir)$/,
  jobs: /^-x/,
  npm: /^(exec$|x$|-c|--call|--script-s)/,
  pnpm: /^(exec$|dlx$|-c)/,
  printf: /^-v/,
  rg: /^--(pre|hostname-bin)(=|$)/,
  rsync: /^(-[a-zA-Z]*e|--rsh)/,
  // The command `e`, with or without an address, and the flag `e` of `s`.
  sed: /(^|[;{}\n,~])\s*(\d+|\$|\/([^/\\]|\\.)*\/[IM]*)[\s!]*e|^e(.*\s|$)|s(?<mark>[^\w\s]).*\k<mark>[gpiImM\d]*e[gpiImMw\d]*\s*($|[;}\n])/s,
  sort: /^--co/,
  split: /^--f/,
  ssh: /^-o/,
  tar: /^(-?[a-zA-Z]*[IF]|--(checkpoint-|to-c|us|rs|rm|inf|new-))/,
  test: /^-[vR]$|\[.*[$`]/s,
  wait: /^-p/,
  yarn: /^(exec|dlx)$/,
};
/**
 * The same for git: the subcommand, and an argument of it. Git reads `-ix` as `-i -x`, and `--ex` as `--exec`. The hooks of
 * a template run during a clone.
 */
const GIT_STARTS = new RegExp(
  "^((config|bisect|filter-branch|difftool|mergetool|for-each-repo|merge-index|send-email|instaweb) " +
    "|submodule foreach$|rebase (-\\w*x|--ex)|grep (-\\w*O|--op)|clone (-\\w*[uc]|--(u|co|te))|init --te" +
    "|\\S+ (--upl|--rece|--ex(ec?)?(=|$)|ext::))",
);
/** Options of git before the subcommand that have a value. */
const GIT_VALUES = setOf("-C --attr-source --git-dir --namespace --super-prefix --work-tree");
/** Options of `set` that change no word. */
const PLAIN_SET = /^(-[euxo]+|[-+]o|pipefail|errexit|nounset|xtrace)$/;

/** Undefined if a command starts no other one that is known here. */
export function starterOf({ words }: ShellCommand): Starter | undefined {
  const [program, ...rest] = words;
  if (!program) return undefined;
  const unknown: Starter = { fixedWords: Infinity, starts: "anything" };
  if (!program.isLiteral) return unknown;
  const name = nameOf(program.text);
  if (EVALUATING.has(name) || /^ld(-linux.*)?\.so/.test(name)) return unknown;
  if (name === "set") return rest.every(({ text }) => PLAIN_SET.test(text)) ? undefined : unknown;
  if (name === "git") return gitStarts(rest) ? unknown : undefined;
  if (name === "command" && /^-[vV]$/.test(rest[0]?.text ?? "")) return undefined;
  if (WRAPPERS.has(name) || RUNNERS.has(name))
    return {
      fixedWords: RUNNERS.has(name) ? headOf(name, rest).length + 1 : Infinity,
      starts: isWritten(name, rest) ? "arguments" : "anything",
    };
  if (SHELLS.has(name) || INTERPRETERS.test(name)) return interpreterOf(name, rest);
  const starting = STARTING_ARGUMENTS[name];
  const starts = ({ text, isLiteral }: ShellWord): boolean =>
    starting?.test(text) === true || (starting !== undefined && !isLiteral && mayBeOption(text));
  if (argumentsOf(name, rest).some(starts)) return unknown;
  const operands = rest.filter(({ text }) => !text.startsWith("-")).map(({ text }) => text);
  if (!CARRIERS.test(`${name} ${operands.join(" ")}`)) return undefined;
  return { fixedWords: 0, starts: isWritten(name, rest) ? "arguments" : "anything" };
}

function interpreterOf(name: string, words: readonly ShellWord[]): Starter {
  const head = headOf(name, words);
  const isFile =
    words.length > 0 &&
    !SHELLS.has(name) &&
    head.every(({ text, isLiteral }) => isLiteral && !INLINE_CODE.test(text)) &&
    !(AWK.test(name) && AWK_STARTS.test(head.at(-1)!.text));
  return { fixedWords: head.length + 1, starts: isFile ? "nothing" : "anything" };
}

/** Whether a program that starts the command in its words starts none that is not among them. */
function isWritten(name: string, words: readonly ShellWord[]): boolean {
  if (APPENDING.has(name) || !words.every(({ text, isLiteral }) => isLiteral && !/[\s;&|$`]/.test(text))) return false;
  // A builtin is reached through these two alone; elsewhere its name is an ordinary word.
  const isBuiltin = name === "command" || name === "builtin";
  return words.slice(0, MAX_STARTS).every(({ text }, at) => {
    const inner = nameOf(text);
    if (WRAPPERS.has(inner) || RUNNERS.has(inner)) return !APPENDING.has(inner);
    if (EVALUATING.has(inner)) return !isBuiltin;
    return starterOf({ words: words.slice(at), hasFiles: false })?.starts !== "anything";
  });
}

/** Up to the first word that is neither an option nor the value of one. */
function headOf(name: string, words: readonly ShellWord[]): readonly ShellWord[] {
  const operand = words.findIndex(
    ({ text }, at) => !/^[-+]./.test(text) && !HAS_VALUE.test(`${name} ${words[at - 1]?.text}`),
  );
  return operand < 0 ? words : words.slice(0, operand + 1);
}

function nameOf(program: string): string {
  return program.slice(program.lastIndexOf("/") + 1).toLowerCase();
}

/** Without the words after `--`, which a package manager passes to the script. */
function argumentsOf(name: string, words: readonly ShellWord[]): readonly ShellWord[] {
  const end = /^(npm|pnpm|yarn)$/.test(name) ? words.findIndex(({ text }) => text === "--") : -1;
  return end < 0 ? words : words.slice(0, end);
}

function gitStarts(words: readonly ShellWord[]): boolean {
  let at = 0;
  for (; words[at]?.text.startsWith("-"); at++) {
    const { text } = words[at]!;
    if (/^(-c|--config-env|--exec-path=)/.test(text)) return true;
    if (GIT_VALUES.has(text)) at++;
  }
  // A pattern or a variable can become options.
  if (words.slice(0, at + 1).some(({ isLiteral }) => !isLiteral)) return true;
  const subcommand = words[at]?.text ?? "";
  const rest = words.slice(at + 1);
  return (
    GIT_STARTS.test(`${subcommand} `) ||
    rest.some(
      ({ text, isLiteral }) =>
        GIT_STARTS.test(`${subcommand} ${text}`) ||
        (!isLiteral && /^(grep|rebase|clone|fetch|pull|push|ls-remote)$/.test(subcommand) && mayBeOption(text)),
    )
  );
}

/** Whether a pattern or a variable can become an option. */
function mayBeOption(source: string): boolean {
  return /^[-*?[{$]/.test(source);
}
