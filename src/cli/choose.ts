import type { About, FlagSpecs } from "./about.js";
import { ALL } from "./about/all.js";
import type { CommandLine } from "./command-line.js";
import { helpOf, unknownCommand } from "./help.js";

/** The meaning of a command line: a command with its arguments, a text to print, or a fault. */
export type Chosen =
  { readonly about: About; readonly args: readonly string[] } | { readonly text: string } | { readonly fault: string };

/** What is done without a command; where nobody sits at a terminal it says what to use instead. */
const DEFAULT = "chat";

/**
 * The flags of the command that a line begins with, else those of all commands: reading a line takes longer with each of
 * them. A flag has the same type wherever it is one.
 */
export function flagsFor([first = DEFAULT]: readonly string[]): FlagSpecs {
  const named = ALL.filter(({ name }) => name === first);
  const abouts = named.length > 0 ? named : ALL;
  const flags = abouts.flatMap((about) => [about, ...Object.values(about.commands ?? {})].map((about) => about.flags));
  return Object.assign({}, ...flags) as FlagSpecs;
}

/** Finds the command in a command line, wherever its name stands. */
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
