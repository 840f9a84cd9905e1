import type { ShellCommand, ShellWord } from "./shell-line.js";

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
const INLINE_CODE = /^(-[a-zA-Z]*[ceEpr].*|--(eval|print|command|execute|require|import|loader)\b.*|-|eval)$/;
/** Arguments by which other programs start a command. A file of this name can be the result of a pattern, too. */
const STARTING_ARGUMENTS: Readonly<Record<string, RegExp>> = {
  "[": /^-[vR]$|\[.*[$`]/s,
  fd: /^(-[a-zA-Z]*[xX]|--exec)/,
  fdfind: /^(-[a-zA-Z]*[xX]|--exec)/,
  find: /^-(exec|execdir|ok|okdir)$/,
  jobs: /^-x/,
  npm: /^(exec$|x$|-c|--call|--script-shell)/,
  pnpm: /^(exec$|dlx$|-c)/,
  printf: /^-v/,
  rg: /^--(pre|hostname-bin)(=|$)/,
  rsync: /^(-[a-zA-Z]*e|--rsh)/,
  sort: /^--compress-p/,
  ssh: /^-o/,
  tar: /^(-?[a-zA-Z]*[IF]|--(checkpoint-a|to-c|use-c|rsh|info-s|new-v))/,
  test: /^-[vR]$|\[.*[$`]/s,
  wait: /^-p/,
  yarn: /^(exec|dlx)$/,
};
/** The same for git: the subcommand, and an argument of it. */
const GIT_STARTS =
  /^((config|bisect|filter-branch|difftool|mergetool) |submodule foreach$|rebase (-x|--exec)|grep (-O|--open)|\S+ (--upload-p|--receive-p|--exec|ext::))/;
/** Options of git before the subcommand that have a value. */
const GIT_VALUES = setOf("-C --git-dir --work-tree --namespace");
/** Options of `set` that change no word. */
const PLAIN_SET = /^(-[euxo]+|[-+]o|pipefail|errexit|nounset|xtrace)$/;

/** Undefined if a command starts no other one that is known here. */
export function starterOf({ words }: ShellCommand): Starter | undefined {
  const [program, ...rest] = words;
  if (!program) return undefined;
  const unknown: Starter = { fixedWords: Infinity, starts: "anything" };
  if (!program.isLiteral) return unknown;
  const name = program.text.slice(program.text.lastIndexOf("/") + 1).toLowerCase();
  if (EVALUATING.has(name) || /^ld(-linux.*)?\.so/.test(name)) return unknown;
  if (name === "set") return rest.every(({ text }) => PLAIN_SET.test(text)) ? undefined : unknown;
  if (name === "git") return gitStarts(rest) ? unknown : undefined;
  if (name === "command" && /^-[vV]$/.test(rest[0]?.text ?? "")) return undefined;
  const head = headOf(rest);
  if (WRAPPERS.has(name) || RUNNERS.has(name)) {
    const isWritten = rest.every(({ text, isLiteral }) => isLiteral && !/[\s;&|$`]/.test(text));
    return {
      fixedWords: RUNNERS.has(name) ? head.length + 1 : Infinity,
      starts: isWritten && !APPENDING.has(name) ? "arguments" : "anything",
    };
  }
  if (SHELLS.has(name)) return { fixedWords: head.length + 1, starts: "anything" };
  if (INTERPRETERS.test(name)) {
    const isFile = rest.length > 0 && head.every(({ text, isLiteral }) => isLiteral && !INLINE_CODE.test(text));
    return { fixedWords: head.length + 1, starts: isFile ? "nothing" : "anything" };
  }
  const starting = STARTING_ARGUMENTS[name];
  const starts = ({ text, isLiteral }: ShellWord): boolean =>
    starting?.test(text) === true || (starting !== undefined && !isLiteral && mayBeOption(text));
  return argumentsOf(name, rest).some(starts) ? unknown : undefined;
}

/** Up to the first word that is no option. */
function headOf(words: readonly ShellWord[]): readonly ShellWord[] {
  const operand = words.findIndex(({ text }) => !text.startsWith("-") || text === "-");
  return operand < 0 ? words : words.slice(0, operand + 1);
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
