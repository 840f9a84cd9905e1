import type { About } from "./about.js";
import { ALL } from "./about/all.js";
import { placesOf } from "./command-line.js";
import { helpOf, unknownCommand } from "./help.js";

/** What a command line means: a command and the words that are left for it, a text to be printed, or what is wrong. */
export type Chosen =
  { readonly about: About; readonly rest: readonly string[] } | { readonly text: string } | { readonly fault: string };

/** What is done without a command; where nobody sits at a terminal it says what to use instead. */
const DEFAULT = "chat";

/** Which command is meant, wherever its name stands. `wantsHelp`: nothing is to be started. */
export function choose(argv: readonly string[], wantsHelp: boolean, atTerminal: boolean): Chosen {
  const every = ALL.flatMap(({ flags, commands = {} }) => [flags, ...Object.values(commands).map((one) => one.flags)]);
  const places = placesOf(argv, every);
  // `gantry help run`
  if (argv[places[0] ?? -1] === "help") places.shift();
  const rest = (used: number): string[] => argv.filter((_, at) => !places.slice(0, used).includes(at));
  const [name, second] = places.map((at) => argv[at] ?? "");
  if (name === undefined) {
    const about = ALL.find((one) => one.name === DEFAULT);
    if (!wantsHelp && argv.length > 0 && !atTerminal)
      return { fault: `expected a command before ${argv[0]}: run does a prompt, serve serves (see gantry --help)` };
    return about && !wantsHelp ? { about, rest: argv } : { text: helpOf(undefined) };
  }
  const about = ALL.find((one) => one.name === name);
  if (!about) return { fault: unknownCommand(name) };
  const { commands } = about;
  if (!commands) return wantsHelp ? { text: helpOf(about) } : { about, rest: rest(1) };
  if (second === undefined)
    return wantsHelp
      ? { text: helpOf(about) }
      : { fault: `${name}: expected one of ${Object.keys(commands).join(", ")} (see gantry ${name} --help)` };
  const inner = Object.hasOwn(commands, second) ? commands[second] : undefined;
  if (!inner) return { fault: unknownCommand(second, Object.values(commands), name) };
  return wantsHelp ? { text: helpOf(inner) } : { about: inner, rest: rest(2) };
}
