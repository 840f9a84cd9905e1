import { shellQuote } from "../base/shell-quote.js";
import { ConfigError } from "../ports/errors.js";
import { flagName, type CommandDescription, type FlagSpec } from "./about.js";
import { ALL_COMMANDS } from "./about/all.js";
import { SHELLS } from "./about/completion.js";
import type { CommandHandler } from "./command.js";

/** `gantry completion SHELL`: prints a completion script, generated from the command descriptions. */
export const run: CommandHandler = async ({ args, output }) => {
  const [shell = "", another] = args;
  if (another !== undefined || !Object.hasOwn(SCRIPTS, shell))
    throw new ConfigError(`completion: expected one of ${SHELLS.join(", ")}`);
  await output.write(SCRIPTS[shell as keyof typeof SCRIPTS]());
  return 0;
};

const SCRIPTS: Readonly<Record<(typeof SHELLS)[number], () => string>> = { bash, zsh, fish };

const COMMON_FLAGS = {
  help: { type: "boolean", about: "print help" },
  version: { type: "boolean", about: "print the version" },
};

/** All commands, each followed by its subcommands. */
function allCommands(): CommandDescription[] {
  return ALL_COMMANDS.flatMap((about) => [about, ...Object.values(about.commands ?? {})]);
}

function flagsOf({ flags }: CommandDescription): [string, FlagSpec][] {
  return Object.entries({ ...flags, ...COMMON_FLAGS } as Record<string, FlagSpec>).map(([key, spec]) => [
    flagName(key),
    spec,
  ]);
}

/** Possible words after a command's name. */
function wordsOf({ commands, firstArguments = [] }: CommandDescription): readonly string[] {
  return commands ? Object.keys(commands) : firstArguments;
}

function bash(): string {
  const commands = allCommands().map((about) => {
    const flags = flagsOf(about).map(([flag]) => flag);
    return `    "${about.name}") words="${[...wordsOf(about), ...flags].join(" ")}" ;;`;
  });
  const names = ALL_COMMANDS.map(({ name }) => name).join(" ");
  const withInner = ALL_COMMANDS.filter(({ commands }) => commands).map(({ name }) => name);
  return `# bash completion of gantry
_gantry_files() {
  # A name may have blanks and stars, and macOS has a bash that knows no mapfile.
  local file
  while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen "$1" -- "$2")
  compopt -o filenames 2>/dev/null
}
_gantry() {
  local cur=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]} name= word words= i
  local value=
  [[ $before == = && COMP_CWORD -gt 1 ]] && before=\${COMP_WORDS[COMP_CWORD - 2]}
  [[ $cur == = ]] && { before=\${COMP_WORDS[COMP_CWORD - 1]}; cur=; }
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    [[ $word == -* || $word == = ]] && continue
    case $name in
      "") name=$word ;;
      ${withInner.join("|")}) name="$name $word" ;;
    esac
  done
  COMPREPLY=()
  case "$before" in
${[...choicesByFlag()].map(([flag, choices]) => `    ${flag}) value="${choices.join(" ")}" ;;`).join("\n")}
    ${flagsThatComplete("file").join("|")}) _gantry_files -f "$cur"; return ;;
    ${flagsThatComplete("folder").join("|")}) _gantry_files -d "$cur"; return ;;
    ${otherFlags().join("|")}) return ;;
  esac
  if [[ -n $value ]]; then
    COMPREPLY=($(compgen -W "$value" -- "$cur"))
    return
  fi
  case "$name" in
    "") words="${names} help version --help --version" ;;
${commands.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _gantry gantry
`;
}

function zsh(): string {
  const described = (pairs: readonly (readonly [string, string])[]): string =>
    pairs.map(([word, about]) => shellQuote(`${word.replaceAll(":", "\\:")}:${about}`)).join(" ");
  const commands = allCommands().map((about) => {
    const inner = Object.entries(about.commands ?? {}).map(([word, { summary }]) => [word, summary] as const);
    const words = (about.firstArguments ?? []).map((word) => [word, ""] as const);
    const flags = flagsOf(about).map(([flag, { about: line }]) => [flag, line] as const);
    return `    ${shellQuote(about.name)}) offered=(${described([...inner, ...words])}); flags=(${described(flags)}) ;;`;
  });
  const withInner = ALL_COMMANDS.filter((about) => about.commands).map(({ name }) => name);
  return `#compdef gantry
_gantry() {
  local name= word before=\${words[CURRENT-1]}
  local -a given flags
  given=("\${(@)words[2,CURRENT-1]}")
  for word in $given; do
    [[ $word == -* ]] && continue
    case $name in
      "") name=$word ;;
      ${withInner.join("|")}) name="$name $word" ;;
    esac
  done
  case $before in
${[...choicesByFlag()].map(([flag, choices]) => `    ${flag}) compadd -- ${choices.join(" ")}; return ;;`).join("\n")}
    ${flagsThatComplete("file").join("|")}) _files; return ;;
    ${flagsThatComplete("folder").join("|")}) _files -/; return ;;
    ${otherFlags().join("|")}) _message value; return ;;
  esac
  local -a offered
  case $name in
    "") offered=(${described(ALL_COMMANDS.map(({ name, summary }) => [name, summary] as const))}); flags=('--help:print help' '--version:print the version') ;;
${commands.join("\n")}
    *) _files; return ;;
  esac
  (( $#offered )) && _describe -t commands command offered
  if [[ $PREFIX == -* || $#offered -eq 0 ]]; then _describe -o -t flags flag flags; fi
}
compdef _gantry gantry
`;
}

function fish(): string {
  const lines = ["# fish completion of gantry", "complete -c gantry -f"];
  const line = (condition: string, options: string): void =>
    void lines.push(`complete -c gantry -n ${shellQuote(condition)} ${options}`);
  for (const { name, summary } of ALL_COMMANDS) line("__fish_use_subcommand", `-a ${name} -d ${shellQuote(summary)}`);
  for (const about of allCommands()) {
    const [first = "", second] = about.name.split(" ");
    const inner = Object.entries(about.commands ?? {});
    const seen = (words: readonly string[]): string => `__fish_seen_subcommand_from ${words.join(" ")}`;
    const commandCondition = second === undefined ? seen([first]) : `${seen([first])}; and ${seen([second])}`;
    const undecided =
      inner.length > 0 ? `${commandCondition}; and not ${seen(inner.map(([word]) => word))}` : commandCondition;
    for (const [word, { summary }] of inner) line(undecided, `-a ${word} -d ${shellQuote(summary)}`);
    for (const word of about.firstArguments ?? []) line(undecided, `-a ${word}`);
    for (const [flag, spec] of flagsOf(about))
      line(undecided, `-l ${flag.slice(2)} ${fishValue(spec)}-d ${shellQuote(spec.about)}`);
  }
  return `${lines.join("\n")}\n`;
}

function fishValue({ type, choices, completes }: FlagSpec): string {
  if (type === "boolean") return "";
  if (choices) return `-x -a ${shellQuote(choices.join(" "))} `;
  if (completes === "folder") return "-x -a '(__fish_complete_directories)' ";
  return completes === "file" ? "-r -F " : "-x ";
}

function choicesByFlag(): Map<string, readonly string[]> {
  const all = allCommands().flatMap((about) => flagsOf(about));
  return new Map(all.flatMap(([flag, { choices }]) => (choices ? [[flag, choices] as const] : [])));
}

function flagsThatComplete(what: FlagSpec["completes"]): string[] {
  const all = allCommands().flatMap((about) => flagsOf(about));
  return [...new Set(all.filter(([, { completes }]) => completes === what).map(([flag]) => flag))];
}

/** Flags that take any value. */
function otherFlags(): string[] {
  const all = allCommands().flatMap((about) => flagsOf(about));
  const valueFlags = all.filter(([, { type, choices, completes }]) => type !== "boolean" && !choices && !completes);
  return [...new Set(valueFlags.map(([flag]) => flag))];
}
