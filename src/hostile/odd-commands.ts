import type { Word } from "./command.js";

/** Of the shell itself, which look for commands in names of variables. */
const NAMING = new Set(["read", "unset", "printf", "test", "[", "wait", "export", "getopts", "env"]);
/** Variables in which a shell or git looks for commands. */
const COMMANDING =
  /^(PS[0-4]|PROMPT_COMMAND|BASH_ENV|BASH_FUNC_.*|BASH_ALIASES|BASH_CMDS|S?RANDOM|SECONDS|OPTIND|HISTCMD|LINENO|GIT_CONFIG.*)(\+?=|\[|$)/s;
/** Whether a variable of this name, or one that is set by this word, holds what a shell runs. */
export function isCommanding(text: string): boolean {
  return COMMANDING.test(text);
}

/** Whether a program may run, with these words, what is in none of them by itself. */
export function runsMore(name: string, words: readonly Word[]): boolean {
  if (NAMING.has(name)) return names(name, words);
  if (name === "jobs") return words.some(({ text, known }) => !known || text.startsWith("-x"));
  if (name === "set") return changesWords(words);
  return name === "git" && renames(words);
}

function names(name: string, words: readonly Word[]): boolean {
  if (name !== "env" && words.some(({ text }) => /\[[^]*[$`]/.test(text))) return true;
  if (words.some(({ text }) => isCommanding(text))) return true;
  const isUnknown = ({ known, assigns }: Word) => !known && !assigns;
  if (name === "read" || name === "getopts" || name === "unset") return words.some(isUnknown);
  // Behind these a name follows.
  const option = { printf: "-v", test: "-v", "[": "-v", wait: "-p" }[name];
  return words.some(({ text }, i) => text === option && words.slice(i + 1, i + 2).some(isUnknown));
}

/** Options of the shell by which words come to mean something else: variables behind the program, a history. */
function changesWords(words: readonly Word[]): boolean {
  const end = words.findIndex(({ text }) => text === "--" || text === "-");
  return (end < 0 ? words : words.slice(0, end)).some(
    ({ text, known }) => !known || /^-\w*[kH]/.test(text) || /^(keyword|hist\w*)$/.test(text),
  );
}

/** Whether git is told of commands by names or settings of its own. */
function renames(words: readonly Word[]): boolean {
  const texts = words.map(({ text }) => text);
  if (texts.some((text) => /^(alias\..*|--config-env.*|-c.*alias\..*)$/is.test(text))) return true;
  if (texts.includes("foreach") || (texts.includes("bisect") && texts.includes("run"))) return true;
  if (texts.includes("rebase") && texts.some((text) => /^(-x|--exec)/.test(text))) return true;
  // Of one that is not known before its `=` nobody knows whether it is an alias.
  const isUnknown = ({ text, known }: Word) => !known && !/^[\w.-]+=/.test(text);
  if (texts.includes("config")) return words.some(isUnknown);
  return words.some((word, i) => (texts[i - 1] === "-c" || word.text.startsWith("-c")) && isUnknown(word));
}
