import { shellQuote } from "../base/shell-quote.js";
import { ConfigError } from "../ports/errors.js";
import { toFlag, type CommandDescription, type FlagSpec } from "./command-description.js";
import { COMMAND_DESCRIPTIONS } from "./descriptions/command-descriptions.js";
import { SHELLS } from "./descriptions/completion.js";
import type { CommandHandler } from "./command.js";

/** `gantry completion SHELL`: prints a completion script, generated from the command descriptions. */
export const run: CommandHandler = async ({ args, output }) => {
  const [shell = "", extraArgument] = args;
  if (extraArgument !== undefined || !Object.hasOwn(SCRIPTS, shell))
    throw new ConfigError(`completion: expected one of ${SHELLS.join(", ")}`);
  await output.write(SCRIPTS[shell as keyof typeof SCRIPTS]());
  return 0;
};

const SCRIPTS: Readonly<Record<(typeof SHELLS)[number], () => string>> = {
  bash: createBashScript,
  zsh: createZshScript,
  fish: createFishScript,
};

const COMMON_FLAGS = {
  help: { type: "boolean", description: "print help" },
  version: { type: "boolean", description: "print the version" },
};

/** Returns all commands, each followed by its subcommands. */
function listCommands(): CommandDescription[] {
  return COMMAND_DESCRIPTIONS.flatMap((command) => [command, ...Object.values(command.commands ?? {})]);
}

function listFlags({ flags }: CommandDescription): [string, FlagSpec][] {
  return Object.entries({ ...flags, ...COMMON_FLAGS } as Record<string, FlagSpec>).map(([key, spec]) => [
    toFlag(key),
    spec,
  ]);
}

/** Returns the possible words after a command's name. */
function listFirstWords({ commands, firstArguments = [] }: CommandDescription): readonly string[] {
  return commands ? Object.keys(commands) : firstArguments;
}

function createBashScript(): string {
  const commands = listCommands().map((command) => {
    const flags = listFlags(command).map(([flag]) => flag);
    return `    "${command.name}") words="${[...listFirstWords(command), ...flags].join(" ")}" ;;`;
  });
  const names = COMMAND_DESCRIPTIONS.map(({ name }) => name).join(" ");
  const parentCommands = COMMAND_DESCRIPTIONS.filter(({ commands }) => commands).map(({ name }) => name);
  return `# bash completion of gantry
_gantry_files() {
  # File names can contain blanks and stars. The bash of macOS has no mapfile.
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
      ${parentCommands.join("|")}) name="$name $word" ;;
    esac
  done
  COMPREPLY=()
  case "$before" in
${[...getChoicesByFlag()].map(([flag, choices]) => `    ${flag}) value="${choices.join(" ")}" ;;`).join("\n")}
    ${listFlagsWithCompletion("file").join("|")}) _gantry_files -f "$cur"; return ;;
    ${listFlagsWithCompletion("folder").join("|")}) _gantry_files -d "$cur"; return ;;
    ${listOtherValueFlags().join("|")}) return ;;
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

function createZshScript(): string {
  const formatPairs = (pairs: readonly (readonly [string, string])[]): string =>
    pairs.map(([word, description]) => shellQuote(`${word.replaceAll(":", "\\:")}:${description}`)).join(" ");
  const commands = listCommands().map((command) => {
    const subcommands = Object.entries(command.commands ?? {}).map(([word, { summary }]) => [word, summary] as const);
    const words = (command.firstArguments ?? []).map((word) => [word, ""] as const);
    const flags = listFlags(command).map(([flag, { description }]) => [flag, description] as const);
    return `    ${shellQuote(command.name)}) offered=(${formatPairs([...subcommands, ...words])}); flags=(${formatPairs(flags)}) ;;`;
  });
  const parentCommands = COMMAND_DESCRIPTIONS.filter((command) => command.commands).map(({ name }) => name);
  return `#compdef gantry
_gantry() {
  local name= word before=\${words[CURRENT-1]}
  local -a given flags
  given=("\${(@)words[2,CURRENT-1]}")
  for word in $given; do
    [[ $word == -* ]] && continue
    case $name in
      "") name=$word ;;
      ${parentCommands.join("|")}) name="$name $word" ;;
    esac
  done
  case $before in
${[...getChoicesByFlag()].map(([flag, choices]) => `    ${flag}) compadd -- ${choices.join(" ")}; return ;;`).join("\n")}
    ${listFlagsWithCompletion("file").join("|")}) _files; return ;;
    ${listFlagsWithCompletion("folder").join("|")}) _files -/; return ;;
    ${listOtherValueFlags().join("|")}) _message value; return ;;
  esac
  local -a offered
  case $name in
    "") offered=(${formatPairs(COMMAND_DESCRIPTIONS.map(({ name, summary }) => [name, summary] as const))}); flags=('--help:print help' '--version:print the version') ;;
${commands.join("\n")}
    *) _files; return ;;
  esac
  (( $#offered )) && _describe -t commands command offered
  if [[ $PREFIX == -* || $#offered -eq 0 ]]; then _describe -o -t flags flag flags; fi
}
compdef _gantry gantry
`;
}

function createFishScript(): string {
  const lines = ["# fish completion of gantry", "complete -c gantry -f"];
  const addLine = (condition: string, options: string): void =>
    void lines.push(`complete -c gantry -n ${shellQuote(condition)} ${options}`);
  for (const { name, summary } of COMMAND_DESCRIPTIONS)
    addLine("__fish_use_subcommand", `-a ${name} -d ${shellQuote(summary)}`);
  for (const command of listCommands()) {
    const [commandName = "", subcommandName] = command.name.split(" ");
    const subcommands = Object.entries(command.commands ?? {});
    const createSeenCondition = (words: readonly string[]): string => `__fish_seen_subcommand_from ${words.join(" ")}`;
    const commandCondition =
      subcommandName === undefined
        ? createSeenCondition([commandName])
        : `${createSeenCondition([commandName])}; and ${createSeenCondition([subcommandName])}`;
    const condition =
      subcommands.length > 0
        ? `${commandCondition}; and not ${createSeenCondition(subcommands.map(([word]) => word))}`
        : commandCondition;
    for (const [word, { summary }] of subcommands) addLine(condition, `-a ${word} -d ${shellQuote(summary)}`);
    for (const word of command.firstArguments ?? []) addLine(condition, `-a ${word}`);
    for (const [flag, spec] of listFlags(command))
      addLine(condition, `-l ${flag.slice(2)} ${formatFishValue(spec)}-d ${shellQuote(spec.description)}`);
  }
  return `${lines.join("\n")}\n`;
}

function formatFishValue({ type, choices, completionKind }: FlagSpec): string {
  if (type === "boolean") return "";
  if (choices) return `-x -a ${shellQuote(choices.join(" "))} `;
  if (completionKind === "folder") return "-x -a '(__fish_complete_directories)' ";
  return completionKind === "file" ? "-r -F " : "-x ";
}

function getChoicesByFlag(): Map<string, readonly string[]> {
  const allFlags = listCommands().flatMap((command) => listFlags(command));
  return new Map(allFlags.flatMap(([flag, { choices }]) => (choices ? [[flag, choices] as const] : [])));
}

function listFlagsWithCompletion(completion: FlagSpec["completionKind"]): string[] {
  const allFlags = listCommands().flatMap((command) => listFlags(command));
  return [...new Set(allFlags.filter(([, { completionKind }]) => completionKind === completion).map(([flag]) => flag))];
}

/** Returns the flags that have a value which shells cannot complete. */
function listOtherValueFlags(): string[] {
  const allFlags = listCommands().flatMap((command) => listFlags(command));
  const valueFlags = allFlags.filter(
    ([, { type, choices, completionKind }]) => type !== "boolean" && !choices && !completionKind,
  );
  return [...new Set(valueFlags.map(([flag]) => flag))];
}
