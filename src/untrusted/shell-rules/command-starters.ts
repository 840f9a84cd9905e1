import type { ShellCommand, ShellWord } from "./shell-line.js";

/** Maximum words of a command that are tried as the program that it starts. Limits the time for long commands. */
export const MAX_TRIED_PROGRAMS = 64;

/** How a program starts another command. */
export interface Starter {
  /** Number of words, including the program, that an `allow` rule must name without a wildcard. */
  readonly fixedWords: number;
  /**
   * - `"arguments"`: the program starts a command that is written in its arguments.
   * - `"anything"`: the program starts a command that is not written in its arguments.
   * - `"nothing"`: the program runs a file, which rules do not inspect.
   */
  readonly starts: "nothing" | "arguments" | "anything";
}

const createSet = (names: string): ReadonlySet<string> => new Set(names.split(" "));

/** Programs that start the command in their arguments. */
const WRAPPERS = createSet(
  "batch busybox bwrap capsh cgexec choom chroot chrt command builtin cpulimit dbus-launch dbus-run-session doas " +
    "entr env exec expect fakeroot faketime firejail flock gosu i386 i686 ionice linux32 linux64 logsave " +
    "ltrace newgrp nice nohup nsenter numactl parallel perf pkexec prlimit proot runcon runuser " +
    "script setarch setpriv setsid sg ssh-agent start-stop-daemon stdbuf strace su su-exec sudo systemd-run taskset " +
    "time timeout toybox uname26 unbuffer unshare valgrind watch x86_64 xargs xvfb-run",
);
/** Programs that run a package's program. */
const RUNNERS = createSet("bunx npx pipx pnpx uvx");
/**
 * Programs that pass on a command in their arguments. An `allow` rule with a wildcard permits whatever that command
 * does.
 */
const CARRIERS =
  /^(cross-env|dotenv|hyperfine|nix-shell|ssh|watchexec|(conda|pipenv|poetry|uv) run|(bundle|direnv|mise) exec) /;
/** Programs that append words to the written command at run time, so the arguments alone do not show the command. */
const APPENDING_PROGRAMS = createSet("entr parallel xargs");
/** Commands that change what later words of the line mean, or evaluate their arguments. */
const EVALUATING_COMMANDS = createSet(
  ". alias at bind compgen complete compopt declare enable eval export fc gdb getopts hash history let local mapfile " +
    "read readarray readonly run-parts screen shopt source tmux trap typeset unalias unset",
);
const SHELLS = createSet("ash bash csh dash fish ksh mksh powershell pwsh rbash sh tcsh zsh");
/** Programs that run a file or the code in their arguments. */
const INTERPRETERS =
  /^(awk|bun|deno|gawk|lua|luajit|mawk|nawk|node|nodejs|osascript|perl|php|pypy|python|ruby|tclsh|tsx)[\d.]*$/;
/** The first operand of awk is code. The code starts a command only if it matches `AWK_STARTS`. */
const AWK_NAME = /^[gmn]?awk/;
const AWK_STARTS = /system|@|(?<!\|)\|(?!\|)/;
/** Options of interpreters and runners whose value is the next word. */
const OPTION_WITH_VALUE =
  /^(\S*awk\S* -[Fv]|lua\S* -l|node\S* (-C|--conditions|--title)|(perl|ruby)\S* -I|php\S* -d|py\S* -[WX]|\w*sh ([-+]\w*[oO]|--(rc|init-)file)|\S+x (-p|--package|--from|--with))$/;
const INLINE_CODE = /^(-[a-zA-Z]*[ceEpr].*|--(eval|print|command|execute|require|import|loader)\b.*|-|eval)$/;
/**
 * Arguments with which other programs start a command. A file name that results from a pattern can equal such an
 * argument.
 */
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
 * Arguments with which git starts a command: the subcommand, and one of its arguments. Git reads `-ix` as `-i -x`, and
 * `--ex` as `--exec`. Hooks of a template run during a clone.
 */
const GIT_STARTS = new RegExp(
  "^((config|bisect|filter-branch|difftool|mergetool|for-each-repo|merge-index|send-email|instaweb) " +
    "|submodule foreach$|rebase (-\\w*x|--ex)|grep (-\\w*O|--op)|clone (-\\w*[uc]|--(u|co|te))|init --te" +
    "|\\S+ (--upl|--rece|--ex(ec?)?(=|$)|ext::))",
);
/** Options with a value that precede git's subcommand. */
const GIT_VALUES = createSet("-C --attr-source --git-dir --namespace --super-prefix --work-tree");
/** Options of `set` that do not change later words. */
const PLAIN_SET_OPTION = /^(-[euxo]+|[-+]o|pipefail|errexit|nounset|xtrace)$/;

/**
 * Returns how the command starts another command. Undefined if the command starts no other command that is known here.
 */
export function findStarter({ words }: ShellCommand): Starter | undefined {
  const [program, ...args] = words;
  if (!program) return undefined;
  const unknownStarter: Starter = { fixedWords: Infinity, starts: "anything" };
  if (!program.isLiteral) return unknownStarter;
  const name = nameOf(program.text);
  if (EVALUATING_COMMANDS.has(name) || /^ld(-linux.*)?\.so/.test(name)) return unknownStarter;
  if (name === "set") return args.every(({ text }) => PLAIN_SET_OPTION.test(text)) ? undefined : unknownStarter;
  if (name === "git") return gitStartsCommand(args) ? unknownStarter : undefined;
  if (name === "command" && /^-[vV]$/.test(args[0]?.text ?? "")) return undefined;
  if (WRAPPERS.has(name) || RUNNERS.has(name))
    return {
      fixedWords: RUNNERS.has(name) ? takeLeadingWords(name, args).length + 1 : Infinity,
      starts: startsOnlyWrittenCommand(name, args) ? "arguments" : "anything",
    };
  if (SHELLS.has(name) || INTERPRETERS.test(name)) return createInterpreterStarter(name, args);
  const startingArgument = STARTING_ARGUMENTS[name];
  const startsCommand = ({ text, isLiteral }: ShellWord): boolean =>
    startingArgument?.test(text) === true || (startingArgument !== undefined && !isLiteral && mayBeOption(text));
  if (takeProgramArguments(name, args).some(startsCommand)) return unknownStarter;
  const operands = args.filter(({ text }) => !text.startsWith("-")).map(({ text }) => text);
  if (!CARRIERS.test(`${name} ${operands.join(" ")}`)) return undefined;
  return { fixedWords: 0, starts: startsOnlyWrittenCommand(name, args) ? "arguments" : "anything" };
}

function createInterpreterStarter(name: string, words: readonly ShellWord[]): Starter {
  const leadingWords = takeLeadingWords(name, words);
  const isFile =
    words.length > 0 &&
    !SHELLS.has(name) &&
    leadingWords.every(({ text, isLiteral }) => isLiteral && !INLINE_CODE.test(text)) &&
    !(AWK_NAME.test(name) && AWK_STARTS.test(leadingWords.at(-1)!.text));
  return { fixedWords: leadingWords.length + 1, starts: isFile ? "nothing" : "anything" };
}

/** Whether a program that starts the command in its arguments starts no other command. */
function startsOnlyWrittenCommand(name: string, words: readonly ShellWord[]): boolean {
  if (APPENDING_PROGRAMS.has(name) || !words.every(({ text, isLiteral }) => isLiteral && !/[\s;&|$`]/.test(text)))
    return false;
  // Only these two programs reach a builtin. Elsewhere its name is an ordinary word.
  const isBuiltin = name === "command" || name === "builtin";
  return words.slice(0, MAX_TRIED_PROGRAMS).every(({ text }, i) => {
    const innerName = nameOf(text);
    if (WRAPPERS.has(innerName) || RUNNERS.has(innerName)) return !APPENDING_PROGRAMS.has(innerName);
    if (EVALUATING_COMMANDS.has(innerName)) return !isBuiltin;
    return findStarter({ words: words.slice(i), hasFiles: false })?.starts !== "anything";
  });
}

/** Returns the words up to and including the first that is neither an option nor an option's value. */
function takeLeadingWords(name: string, words: readonly ShellWord[]): readonly ShellWord[] {
  const operandIndex = words.findIndex(
    ({ text }, i) => !/^[-+]./.test(text) && !OPTION_WITH_VALUE.test(`${name} ${words[i - 1]?.text}`),
  );
  return operandIndex < 0 ? words : words.slice(0, operandIndex + 1);
}

function nameOf(program: string): string {
  return program.slice(program.lastIndexOf("/") + 1).toLowerCase();
}

/** Returns the arguments before `--`. A package manager passes the arguments after `--` to the script. */
function takeProgramArguments(name: string, words: readonly ShellWord[]): readonly ShellWord[] {
  const end = /^(npm|pnpm|yarn)$/.test(name) ? words.findIndex(({ text }) => text === "--") : -1;
  return end < 0 ? words : words.slice(0, end);
}

function gitStartsCommand(words: readonly ShellWord[]): boolean {
  let index = 0;
  for (; words[index]?.text.startsWith("-"); index++) {
    const { text } = words[index]!;
    if (/^(-c|--config-env|--exec-path=)/.test(text)) return true;
    if (GIT_VALUES.has(text)) index++;
  }
  // A pattern or a variable can become options.
  if (words.slice(0, index + 1).some(({ isLiteral }) => !isLiteral)) return true;
  const subcommand = words[index]?.text ?? "";
  const subcommandArgs = words.slice(index + 1);
  return (
    GIT_STARTS.test(`${subcommand} `) ||
    subcommandArgs.some(
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
