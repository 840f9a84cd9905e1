import { flagName, type About, type FlagSpec, type FlagSpecs } from "./about.js";
import { ALL } from "./about/all.js";
import { nearest } from "./nearest.js";

const ALWAYS: FlagSpecs = {
  version: { type: "boolean", about: "print the version" },
  help: { type: "boolean", about: "print this text" },
};
const SHORT: Readonly<Record<string, string>> = { version: "-v", help: "-h" };

/** Returns the help of a command. Undefined gives the help of the program. */
export function helpOf(about: About | undefined): string {
  return about ? commandHelp(about) : programHelp();
}

function programHelp(): string {
  return [
    "gantry: a headless AI coding agent\n",
    `Usage\n${table(ALL.flatMap(rowsOf))}\n`,
    `Options\n${table(flagRows(ALWAYS))}\n`,
    "gantry COMMAND --help tells of one. The agent works on the folder that it is started in.\n",
  ].join("\n");
}

/** Rows of a command, or of its subcommands. */
function rowsOf({ name, summary, commands }: About): [string, string][] {
  return commands ? Object.values(commands).flatMap(rowsOf) : [[`gantry ${name}`, summary]];
}

function commandHelp({ name, summary, usage, flags, details, commands }: About): string {
  return [
    `gantry ${name}: ${summary}\n`,
    `Usage\n${usage.map((line) => `  $ gantry ${name} ${line}`.trimEnd()).join("\n")}\n`,
    ...(commands ? [`Commands\n${table(Object.values(commands).flatMap(rowsOf))}\n`] : []),
    `Options\n${table(flagRows({ ...flags, ...ALWAYS }))}\n`,
    ...(details === undefined ? [] : [`${details}\n`]),
  ].join("\n");
}

function flagRows(flags: FlagSpecs): [string, string][] {
  return Object.entries(flags).map(([key, spec]) => [wordOf(key, spec), aboutOf(spec)]);
}

function wordOf(key: string, { value }: FlagSpec): string {
  const short = SHORT[key];
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
export function unknownCommand(word: string, among: readonly About[] = ALL, of = ""): string {
  const names = among.map(({ name }) => name.slice(of === "" ? 0 : of.length + 1));
  const near = nearest(word, names);
  const meant = near === undefined ? "" : `; did you mean gantry ${of === "" ? "" : `${of} `}${near}?`;
  const what = of === "" ? "command" : `command of gantry ${of}`;
  return `unknown ${what} ${word}${meant || `; expected one of ${names.join(", ")}`} (see gantry ${of === "" ? "" : `${of} `}--help)`;
}

/** One-line error for a flag that the command does not have. */
export function unknownFlag(flag: string, { name, flags }: About): string {
  const see = `(see gantry ${name} --help)`;
  // These flags of every command are unknown only if they have a value.
  if (Object.keys(ALWAYS).map(flagName).includes(flag)) return `${flag} takes no value ${see}`;
  const own = [...Object.keys(flags).map(flagName), "--help", "--version"];
  const near = nearest(flag, own);
  const others = ALL.flatMap((one) => (one.commands ? Object.values(one.commands) : [one]))
    .filter((one) => Object.keys(one.flags).some((key) => flagName(key) === flag))
    .map((one) => `gantry ${one.name}`);
  if (others.length > 0) return `unknown flag ${flag} of gantry ${name}: it is one of ${others.join(", ")} ${see}`;
  // A prompt that begins with a dash is parsed as a flag.
  if (/\s/.test(flag) && name === "run") return `unknown flag: a prompt that begins with - stands behind -- ${see}`;
  return `unknown flag ${flag}${near === undefined ? "" : `; did you mean ${near}?`} ${see}`;
}
