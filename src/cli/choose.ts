import type { CommandDescription, FlagSpecs } from "./about.js";
import { ALL_COMMANDS } from "./about/all.js";
import type { CommandLine } from "./command-line.js";
import { helpOf, unknownCommand } from "./help.js";

/** Result of a command line: a command with its arguments, a text to print, or an error. */
export type CommandChoice =
  | { readonly about: CommandDescription; readonly args: readonly string[] }
  | { readonly text: string }
  | { readonly fault: string };

/** Command for a line without one. Without a terminal, `chat` fails and names the alternatives. */
const DEFAULT_COMMAND = "chat";

/**
 * Returns the flags of the command that the line begins with, otherwise the flags of all commands. Each flag slows down
 * parsing.
 *
 * A flag has the same type in all commands.
 */
export function flagsFor([first = DEFAULT_COMMAND]: readonly string[]): FlagSpecs {
  const named = ALL_COMMANDS.filter(({ name }) => name === first);
  const abouts = named.length > 0 ? named : ALL_COMMANDS;
  const flags = abouts.flatMap((about) => [about, ...Object.values(about.commands ?? {})].map((about) => about.flags));
  return Object.assign({}, ...flags) as FlagSpecs;
}

/** Finds the command in a command line. Flags can precede its name. */
export function choose(line: CommandLine, argv: readonly string[], atTerminal: boolean): CommandChoice {
  const isHelp = line.input[0] === "help";
  const wantsHelp = isHelp || line.flags["help"] === true;
  const [name, ...words] = isHelp ? line.input.slice(1) : line.input;
  if (name === undefined) {
    const about = ALL_COMMANDS.find((command) => command.name === DEFAULT_COMMAND);
    if (!wantsHelp && argv.length > 0 && !atTerminal)
      return {
        fault: `expected a command before ${argv[0]}: run for one prompt, serve for a server (see gantry --help)`,
      };
    return about && !wantsHelp ? { about, args: [] } : { text: helpOf(undefined) };
  }
  const about = ALL_COMMANDS.find((command) => command.name === name);
  if (!about) return { fault: unknownCommand(name) };
  const { commands } = about;
  if (!commands) return wantsHelp ? { text: helpOf(about) } : { about, args: words };
  const [second, ...args] = words;
  if (second === undefined)
    return wantsHelp
      ? { text: helpOf(about) }
      : { fault: `${name}: expected one of ${Object.keys(commands).join(", ")} (see gantry ${name} --help)` };
  const inner = Object.hasOwn(commands, second) ? commands[second] : undefined;
  if (!inner) return { fault: unknownCommand(second, Object.values(commands), name) };
  return wantsHelp ? { text: helpOf(inner) } : { about: inner, args };
}
