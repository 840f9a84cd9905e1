import { VERSION } from "../base/version.js";
import type { CommandDescription } from "./command-description.js";
import { serve } from "./descriptions/serve.js";
import type { CommandChoice } from "./command-choice.js";
import type { CommandHandler, CommandContext, CommandOutput } from "./command.js";
import { parseFlags, parseCommandLine, type FlagFault } from "./command-line.js";

/** Loaders of the commands, by the first word of the name. The descriptions are in `descriptions`. */
const COMMAND_LOADERS: Readonly<
  Record<string, () => Promise<{ run: (context: never) => ReturnType<CommandHandler> }>>
> = {
  chat: () => import("./chat.js"),
  init: () => import("./init.js"),
  serve: () => import("./serve.js"),
  console: () => import("./console.js"),
  run: () => import("./run.js"),
  adapters: () => import("./adapters.js"),
  sessions: () => import("./sessions.js"),
  models: () => import("./models.js"),
  mcp: () => import("./mcp.js"),
  token: () => import("./token.js"),
  doctor: () => import("./doctor.js"),
  check: () => import("./check.js"),
  new: () => import("./new.js"),
  completion: () => import("./completion.js"),
};

/** Streams and exit of the process, which only the entry point accesses. */
export interface Terminal extends CommandOutput, Pick<CommandContext, "input" | "handleInterrupts"> {
  /** Writes a line to stderr and ends the process. Default exit code 1. */
  fail(line: string, code?: number): never;
  /** Ends the process. */
  exit(code: number): never;
}

/** Parses the command line and runs the command. */
export async function main(argv: readonly string[], terminal: Terminal): Promise<void> {
  // The descriptions of all commands take time to load, and `serve` does not need them.
  const chooseModule = argv[0] === "serve" ? undefined : await import("./command-choice.js");
  const commandLine = parseCommandLine(argv, chooseModule ? chooseModule.getFlagsFor(argv) : serve.flags);
  if (commandLine.flags["version"] === true || commandLine.input[0] === "version")
    return print(`${VERSION}\n`, terminal);
  // Creating the stdin stream takes 3 ms, and `serve` does not read it.
  const isAtTerminal = (): boolean => terminal.input.isTerminal && terminal.isStdoutTerminal;
  const choice: CommandChoice =
    chooseModule || commandLine.flags["help"] === true
      ? await (chooseModule ?? (await import("./command-choice.js"))).chooseCommand(commandLine, argv, isAtTerminal())
      : { command: serve, args: commandLine.input.slice(1) };
  if ("text" in choice) return print(choice.text, terminal);
  if ("fault" in choice) return fail(choice.fault, argv, terminal);
  const { command, args } = choice;
  const parsedFlags = parseFlags(commandLine, command.flags, argv);
  if ("fault" in parsedFlags)
    return fail(await describeFlagFault(parsedFlags, command), argv, terminal, command.usageExitCode);
  // Meow sets the title to the name only. With the arguments, `ps` distinguishes several servers.
  process.title = ["gantry", ...argv].join(" ");
  const [firstWord = ""] = command.name.split(" ");
  try {
    const { run } = await COMMAND_LOADERS[firstWord]!();
    const context: CommandContext = {
      name: command.name,
      args,
      flags: parsedFlags.flags as CommandContext["flags"],
      input: terminal.input,
      output: terminal,
      handleInterrupts: () => terminal.handleInterrupts(),
    };
    // The flags have been parsed with the command's own description.
    const code = await run(context as never);
    if (code !== undefined) terminal.exit(code);
  } catch (error) {
    const { describeFailure } = await import("./failure-message.js");
    return fail(describeFailure(error, command.name), argv, terminal);
  }
}

/** Prints a text to stdout and ends the process. */
async function print(text: string, terminal: Terminal): Promise<never> {
  try {
    await terminal.write(text);
  } catch (error) {
    const { formatFailureLine, describeFailure } = await import("./failure-message.js");
    return terminal.fail(formatFailureLine(describeFailure(error, "help")));
  }
  return terminal.exit(0);
}

/**
 * Reports an error in one line and ends the process. An ACP client on standard output also receives a protocol error,
 * because editors do not show stderr.
 */
async function fail(message: string, argv: readonly string[], terminal: Terminal, code = 1): Promise<never> {
  const { formatFailureLine } = await import("./failure-message.js");
  const line = formatFailureLine(message);
  if (["serve", "--acp", "--stdio"].every((word) => argv.includes(word))) {
    const { refuseOverStdio } = await import("./serve.js");
    await refuseOverStdio(line);
  }
  return terminal.fail(line, code);
}

async function describeFlagFault({ fault, unknownFlag }: FlagFault, command: CommandDescription): Promise<string> {
  if (unknownFlag === undefined) {
    const { addSuggestion } = await import("./suggestion.js");
    return `${addSuggestion(fault)} (see gantry ${command.name} --help)`;
  }
  const { describeUnknownFlag } = await import("./help.js");
  return describeUnknownFlag(unknownFlag, command);
}
