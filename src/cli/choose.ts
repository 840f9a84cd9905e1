import type { About, FlagSpecs } from "./about.js";
import { ALL } from "./about/all.js";
import type { CommandLine } from "./command-line.js";
import { helpOf, unknownCommand } from "./help.js";

/** Result of a command line: a command with its arguments, a text to print, or an error. */
export type Chosen =
  { readonly about: About; readonly args: readonly string[] } | { readonly text: string } | { readonly fault: string };

/** Command for a line without one. Without a terminal, `chat` fails and names the alternatives. */
const DEFAULT = "chat";

/**
 * Returns the flags of the command that the line begins with, otherwise the flags of all commands. Each flag slows down
 * parsing.
 *
 * A flag has the same type in all commands.
 */
export function flagsFor([first = DEFAULT]: readonly string[]): FlagSpecs {
  const named = ALL.filter(({ name }) => name === first);
  const abouts = named.length > 0 ? named : ALL;
  const flags = abouts.flatMap((about) => [about, ...Object.values(about.commands ?? {})].map((about) => about.flags));
  return Object.assign({}, ...flags) as FlagSpecs;
}

/** Finds the command in a command line. Flags can precede its name. */
export function choose(line: CommandLine, argv: readonly string[], atTerminal: boolean): Chosen {
  const isHelp = line.input[0] === "help";
  const wantsHelp = isHelp || line.flags["help"] === true;
  const [name, ...rest] = isHelp ? line.input.slice(1) : line.input;
  if (name === undefined) {
    const about = ALL.find((command) => command.name === DEFAULT);
    if (!wantsHelp && argv.length > 0 && !atTerminal)
      return { fault: `expected a command before ${argv[0]}: run does a prompt, serve serves (see gantry --help)` };
    return about && !wantsHelp ? { about, args: [] } : { text: helpOf(undefined) };
  }
  const about = ALL.find((command) => command.name === name);
  if (!about) return { fault: unknownCommand(name) };
  const { commands } = about;
  if (!commands) return wantsHelp ? { text: helpOf(about) } : { about, args: rest };
  const [second, ...args] = rest;
  if (second === undefined)
    return wantsHelp
      ? { text: helpOf(about) }
      : { fault: `${name}: expected one of ${Object.keys(commands).join(", ")} (see gantry ${name} --help)` };
  const inner = Object.hasOwn(commands, second) ? commands[second] : undefined;
  if (!inner) return { fault: unknownCommand(second, Object.values(commands), name) };
  return wantsHelp ? { text: helpOf(inner) } : { about: inner, args };
}
