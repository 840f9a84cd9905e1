import { toFlag, type CommandDescription, type FlagSpecs } from "./command-description.js";
import { COMMAND_DESCRIPTIONS } from "./descriptions/command-descriptions.js";
import { COMMAND_DETAILS } from "./descriptions/command-details.js";
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

function formatCommandHelp(command: CommandDescription): string {
  const { name, summary, usage, flags } = command;
  const details = COMMAND_DETAILS[name];
  return [
    `gantry ${name}: ${summary}\n`,
    `Usage\n${usage.map((line) => `  $ gantry ${name} ${line}`.trimEnd()).join("\n")}\n`,
    ...(command.commands ? [`Commands\n${formatColumns(toCommandRows(command))}\n`] : []),
    `Options\n${formatColumns(toFlagRows({ ...flags, ...COMMON_FLAGS }))}\n`,
    ...(details ? [`${details}\n`] : []),
  ].join("\n");
}

function toFlagRows(flags: FlagSpecs): [string, string][] {
  return Object.entries(flags).map(([key, { value, description, choices }]) => {
    const shortFlag = SHORT_FLAGS[key];
    return [
      `${shortFlag ? `${shortFlag}, ` : ""}${toFlag(key)}${value ? ` ${value}` : ""}`,
      choices ? `${description}: ${choices.join(", ")}` : description,
    ];
  });
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
  const prefix = parentName && `${parentName} `;
  const names = knownCommands.map(({ name }) => name.slice(prefix.length));
  const suggestion = findNearest(word, names);
  const advice = suggestion ? `did you mean gantry ${prefix}${suggestion}?` : `expected one of ${names.join(", ")}`;
  return `unknown command ${parentName && `of gantry ${prefix}`}${word}; ${advice} (see gantry ${prefix}--help)`;
}

export function describeUnknownFlag(flag: string, { name, flags }: CommandDescription): string {
  const helpHint = `(see gantry ${name} --help)`;
  // The parser reports a flag of every command as unknown only if it has a value.
  if (Object.keys(COMMON_FLAGS).map(toFlag).includes(flag)) return `${flag} takes no value ${helpHint}`;
  const suggestion = findNearest(flag, Object.keys({ ...flags, ...COMMON_FLAGS }).map(toFlag));
  const otherCommands = COMMAND_DESCRIPTIONS.flatMap((command) =>
    command.commands ? Object.values(command.commands) : [command],
  )
    .filter((command) => Object.keys(command.flags).some((key) => toFlag(key) === flag))
    .map((command) => `gantry ${command.name}`);
  if (otherCommands.length > 0)
    return `unknown flag ${flag} of gantry ${name}: it belongs to ${otherCommands.join(", ")} ${helpHint}`;
  // A prompt that begins with a dash is parsed as a flag.
  if (/\s/.test(flag) && name === "run") return `unknown flag: put a prompt that begins with - after -- ${helpHint}`;
  return `unknown flag ${flag}${suggestion ? `; did you mean ${suggestion}?` : ""} ${helpHint}`;
}
