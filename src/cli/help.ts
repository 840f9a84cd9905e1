import { toFlag, type CommandDescription, type FlagSpec, type FlagSpecs } from "./command-description.js";
import { COMMAND_DESCRIPTIONS } from "./descriptions/command-descriptions.js";
import { findNearest } from "./nearest-name.js";

const COMMON_FLAGS: FlagSpecs = {
  version: { type: "boolean", description: "print the version" },
  help: { type: "boolean", description: "print this text" },
};
const SHORT_FLAGS: Readonly<Record<string, string>> = { version: "-v", help: "-h" };

/** Returns the help of a command. Undefined gives the help of the program. */
export function formatHelp(command: CommandDescription | undefined): string {
  return command ? formatCommandHelp(command) : formatProgramHelp();
}

function formatProgramHelp(): string {
  return [
    "gantry: a headless AI coding agent\n",
    `Usage\n${formatColumns(COMMAND_DESCRIPTIONS.flatMap(toCommandRows))}\n`,
    `Options\n${formatColumns(toFlagRows(COMMON_FLAGS))}\n`,
    "gantry COMMAND --help describes a command. The agent works in the current folder.\n",
  ].join("\n");
}

/** Returns the row of a command, or the rows of its subcommands. */
function toCommandRows({ name, summary, commands }: CommandDescription): [string, string][] {
  return commands ? Object.values(commands).flatMap(toCommandRows) : [[`gantry ${name}`, summary]];
}

function formatCommandHelp({ name, summary, usage, flags, details, commands }: CommandDescription): string {
  return [
    `gantry ${name}: ${summary}\n`,
    `Usage\n${usage.map((line) => `  $ gantry ${name} ${line}`.trimEnd()).join("\n")}\n`,
    ...(commands ? [`Commands\n${formatColumns(Object.values(commands).flatMap(toCommandRows))}\n`] : []),
    `Options\n${formatColumns(toFlagRows({ ...flags, ...COMMON_FLAGS }))}\n`,
    ...(details === undefined ? [] : [`${details}\n`]),
  ].join("\n");
}

function toFlagRows(flags: FlagSpecs): [string, string][] {
  return Object.entries(flags).map(([key, spec]) => [formatFlag(key, spec), describeFlag(spec)]);
}

function formatFlag(key: string, { value }: FlagSpec): string {
  const shortFlag = SHORT_FLAGS[key];
  return `${shortFlag === undefined ? "" : `${shortFlag}, `}${toFlag(key)}${value === undefined ? "" : ` ${value}`}`;
}

function describeFlag({ description, choices }: FlagSpec): string {
  return choices ? `${description}: ${choices.join(", ")}` : description;
}

function formatColumns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.map(([label, description]) => `  ${label.padEnd(width)}  ${description}`).join("\n");
}

export function describeUnknownCommand(
  word: string,
  knownCommands: readonly CommandDescription[] = COMMAND_DESCRIPTIONS,
  parentName = "",
): string {
  const names = knownCommands.map(({ name }) => name.slice(parentName === "" ? 0 : parentName.length + 1));
  const suggestion = findNearest(word, names);
  const suggestionText =
    suggestion === undefined ? "" : `; did you mean gantry ${parentName === "" ? "" : `${parentName} `}${suggestion}?`;
  const commandKind = parentName === "" ? "command" : `command of gantry ${parentName}`;
  return `unknown ${commandKind} ${word}${suggestionText || `; expected one of ${names.join(", ")}`} (see gantry ${parentName === "" ? "" : `${parentName} `}--help)`;
}

export function describeUnknownFlag(flag: string, { name, flags }: CommandDescription): string {
  const helpHint = `(see gantry ${name} --help)`;
  // The parser reports a flag of every command as unknown only if it has a value.
  if (Object.keys(COMMON_FLAGS).map(toFlag).includes(flag)) return `${flag} takes no value ${helpHint}`;
  const commandFlags = [...Object.keys(flags).map(toFlag), "--help", "--version"];
  const suggestion = findNearest(flag, commandFlags);
  const otherCommands = COMMAND_DESCRIPTIONS.flatMap((command) =>
    command.commands ? Object.values(command.commands) : [command],
  )
    .filter((command) => Object.keys(command.flags).some((key) => toFlag(key) === flag))
    .map((command) => `gantry ${command.name}`);
  if (otherCommands.length > 0)
    return `unknown flag ${flag} of gantry ${name}: it belongs to ${otherCommands.join(", ")} ${helpHint}`;
  // A prompt that begins with a dash is parsed as a flag.
  if (/\s/.test(flag) && name === "run") return `unknown flag: put a prompt that begins with - after -- ${helpHint}`;
  return `unknown flag ${flag}${suggestion === undefined ? "" : `; did you mean ${suggestion}?`} ${helpHint}`;
}
