import type { CommandDescription, FlagSpecs } from "./command-description.js";
import { COMMAND_DESCRIPTIONS } from "./descriptions/command-descriptions.js";
import type { CommandLine } from "./command-line.js";

/** Result of a command line: a command with its arguments, a text to print, or an error. */
export type CommandChoice =
  | { readonly command: CommandDescription; readonly args: readonly string[] }
  | { readonly text: string }
  | { readonly fault: string };

/** Command for a command line without a command. Without a terminal, `chat` fails and names the alternatives. */
const DEFAULT_COMMAND = "chat";

/**
 * Returns the flags of the command at the start of the line, because each flag slows down parsing. If the line does not
 * start with a command, returns the flags of all commands. A flag has the same type in all commands.
 */
export function getFlagsFor([firstWord = DEFAULT_COMMAND]: readonly string[]): FlagSpecs {
  const command = COMMAND_DESCRIPTIONS.find(({ name }) => name === firstWord);
  const flags = (command ? [command] : COMMAND_DESCRIPTIONS).flatMap((description) =>
    [description, ...Object.values(description.commands ?? {})].map((subcommand) => subcommand.flags),
  );
  return Object.assign({}, ...flags) as FlagSpecs;
}

/** Finds the command in a command line. Flags can precede the command's name. */
export async function chooseCommand(
  commandLine: CommandLine,
  argv: readonly string[],
  isAtTerminal: boolean,
): Promise<CommandChoice> {
  const isHelpCommand = commandLine.input[0] === "help";
  const wantsHelp = isHelpCommand || commandLine.flags["help"] === true;
  const [name, ...otherWords] = isHelpCommand ? commandLine.input.slice(1) : commandLine.input;
  if (name === undefined) {
    const defaultCommand = COMMAND_DESCRIPTIONS.find((command) => command.name === DEFAULT_COMMAND);
    if (!wantsHelp && argv.length > 0 && !isAtTerminal)
      return {
        fault: `expected a command before ${argv[0]}: run for one prompt, serve for a server (see gantry --help)`,
      };
    return defaultCommand && !wantsHelp ? { command: defaultCommand, args: [] } : showHelp(undefined);
  }
  const command = COMMAND_DESCRIPTIONS.find((command) => command.name === name);
  if (!command) return refuseUnknownCommand(name);
  const { commands } = command;
  if (!commands) return wantsHelp ? showHelp(command) : { command, args: otherWords };
  const [subcommandName, ...args] = otherWords;
  if (subcommandName === undefined)
    return wantsHelp
      ? showHelp(command)
      : { fault: `${name}: expected one of ${Object.keys(commands).join(", ")} (see gantry ${name} --help)` };
  const subcommand = Object.hasOwn(commands, subcommandName) ? commands[subcommandName] : undefined;
  if (!subcommand) return refuseUnknownCommand(subcommandName, Object.values(commands), name);
  return wantsHelp ? showHelp(subcommand) : { command: subcommand, args };
}

// A start that runs a command loads no help texts.
async function showHelp(command: CommandDescription | undefined): Promise<CommandChoice> {
  const { formatHelp } = await import("./help.js");
  return { text: formatHelp(command) };
}

async function refuseUnknownCommand(
  ...words: Parameters<(typeof import("./help.js"))["describeUnknownCommand"]>
): Promise<CommandChoice> {
  const { describeUnknownCommand } = await import("./help.js");
  return { fault: describeUnknownCommand(...words) };
}
