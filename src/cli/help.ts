import { flagName, type CommandDescription, type FlagSpec, type FlagSpecs } from "./about.js";
import { ALL_COMMANDS } from "./about/all.js";
import { nearest } from "./nearest.js";

const COMMON_FLAGS: FlagSpecs = {
  version: { type: "boolean", about: "print the version" },
  help: { type: "boolean", about: "print this text" },
};
const SHORT_FLAGS: Readonly<Record<string, string>> = { version: "-v", help: "-h" };

/** Returns the help of a command. Undefined gives the help of the program. */
export function helpOf(about: CommandDescription | undefined): string {
  return about ? commandHelp(about) : programHelp();
}

function programHelp(): string {
  return [
    "gantry: a headless AI coding agent\n",
    `Usage\n${table(ALL_COMMANDS.flatMap(rowsOf))}\n`,
    `Options\n${table(flagRows(COMMON_FLAGS))}\n`,
    "gantry COMMAND --help describes a command. The agent works in the current folder.\n",
  ].join("\n");
}

/** Rows of a command, or of its subcommands. */
function rowsOf({ name, summary, commands }: CommandDescription): [string, string][] {
  return commands ? Object.values(commands).flatMap(rowsOf) : [[`gantry ${name}`, summary]];
}

function commandHelp({ name, summary, usage, flags, details, commands }: CommandDescription): string {
  return [
    `gantry ${name}: ${summary}\n`,
    `Usage\n${usage.map((line) => `  $ gantry ${name} ${line}`.trimEnd()).join("\n")}\n`,
    ...(commands ? [`Commands\n${table(Object.values(commands).flatMap(rowsOf))}\n`] : []),
    `Options\n${table(flagRows({ ...flags, ...COMMON_FLAGS }))}\n`,
    ...(details === undefined ? [] : [`${details}\n`]),
  ].join("\n");
}

function flagRows(flags: FlagSpecs): [string, string][] {
  return Object.entries(flags).map(([key, spec]) => [wordOf(key, spec), aboutOf(spec)]);
}

function wordOf(key: string, { value }: FlagSpec): string {
  const short = SHORT_FLAGS[key];
  return `${short === undefined ? "" : `${short}, `}${flagName(key)}${value === undefined ? "" : ` ${value}`}`;
}

function aboutOf({ about, choices }: FlagSpec): string {
  return choices ? `${about}: ${choices.join(", ")}` : about;
}

function table(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([first]) => first.length));
  return rows.map(([first, second]) => `  ${first.padEnd(width)}  ${second}`).join("\n");
}

/** One-line error for an unknown command. */
export function unknownCommand(word: string, among: readonly CommandDescription[] = ALL_COMMANDS, of = ""): string {
  const names = among.map(({ name }) => name.slice(of === "" ? 0 : of.length + 1));
  const near = nearest(word, names);
  const meant = near === undefined ? "" : `; did you mean gantry ${of === "" ? "" : `${of} `}${near}?`;
  const what = of === "" ? "command" : `command of gantry ${of}`;
  return `unknown ${what} ${word}${meant || `; expected one of ${names.join(", ")}`} (see gantry ${of === "" ? "" : `${of} `}--help)`;
}

/** One-line error for a flag that the command does not have. */
export function unknownFlag(flag: string, { name, flags }: CommandDescription): string {
  const see = `(see gantry ${name} --help)`;
  // These flags of every command are unknown only if they have a value.
  if (Object.keys(COMMON_FLAGS).map(flagName).includes(flag)) return `${flag} takes no value ${see}`;
  const commandFlags = [...Object.keys(flags).map(flagName), "--help", "--version"];
  const near = nearest(flag, commandFlags);
  const otherCommands = ALL_COMMANDS.flatMap((about) => (about.commands ? Object.values(about.commands) : [about]))
    .filter((about) => Object.keys(about.flags).some((key) => flagName(key) === flag))
    .map((about) => `gantry ${about.name}`);
  if (otherCommands.length > 0)
    return `unknown flag ${flag} of gantry ${name}: it belongs to ${otherCommands.join(", ")} ${see}`;
  // A prompt that begins with a dash is parsed as a flag.
  if (/\s/.test(flag) && name === "run") return `unknown flag: put a prompt that begins with - after -- ${see}`;
  return `unknown flag ${flag}${near === undefined ? "" : `; did you mean ${near}?`} ${see}`;
}
