import { VERSION } from "../base/version.js";
import type { CommandDescription } from "./about.js";
import { serve } from "./about/serve.js";
import type { CommandChoice } from "./choose.js";
import type { CommandHandler, CommandContext, CommandOutput } from "./command.js";
import { flagsOf, parse, type FlagFault } from "./command-line.js";

/** Loaders of the commands, by the first word of the name. The descriptions are in `about`. */
const COMMANDS: Readonly<Record<string, () => Promise<{ run: (context: never) => ReturnType<CommandHandler> }>>> = {
  chat: () => import("./chat.js"),
  serve: () => import("./serve.js"),
  console: () => import("./console.js"),
  run: () => import("./run.js"),
  adapters: () => import("./adapters.js"),
  sessions: () => import("./sessions.js"),
  models: () => import("./models.js"),
  mcp: () => import("./mcp.js"),
  check: () => import("./check.js"),
  new: () => import("./new.js"),
  completion: () => import("./completion.js"),
};

/** Streams and exit of the process. Only the entry point has them. */
export interface Terminal extends CommandOutput, Pick<CommandContext, "input" | "interrupted"> {
  /** Writes a line to stderr and ends the process. Default exit code 1. */
  fail(line: string, code?: number): never;
  /** Ends the process. */
  exit(code: number): never;
}

/** Parses the command line and runs the command. */
export async function main(argv: readonly string[], terminal: Terminal): Promise<void> {
  // The descriptions of all commands take time to load, and `serve` does not need them.
  const all = argv[0] === "serve" ? undefined : await import("./choose.js");
  const line = parse(argv, all ? all.flagsFor(argv) : serve.flags);
  if (line.flags["version"] === true || line.input[0] === "version") return print(`${VERSION}\n`, terminal);
  // Creating the stdin stream takes 3 ms, and `serve` does not read it.
  const isAtTerminal = (): boolean => terminal.input.isTerminal && terminal.isShown;
  const chosen: CommandChoice =
    all || line.flags["help"] === true
      ? (all ?? (await import("./choose.js"))).choose(line, argv, isAtTerminal())
      : { about: serve, args: line.input.slice(1) };
  if ("text" in chosen) return print(chosen.text, terminal);
  if ("fault" in chosen) return fail(chosen.fault, argv, terminal);
  const { about, args } = chosen;
  const read = flagsOf(line, about.flags, argv);
  if ("fault" in read) return fail(await wordsOf(read, about), argv, terminal, about.usageExitCode);
  // Meow sets the title to the name only. With the arguments, `ps` distinguishes several servers.
  process.title = ["gantry", ...argv].join(" ");
  const [first = ""] = about.name.split(" ");
  try {
    const { run } = await COMMANDS[first]!();
    const context: CommandContext = {
      name: about.name,
      args,
      flags: read.flags as CommandContext["flags"],
      input: terminal.input,
      output: terminal,
      interrupted: () => terminal.interrupted(),
    };
    // The flags have been parsed with the command's own description.
    const code = await run(context as never);
    if (code !== undefined) terminal.exit(code);
  } catch (error) {
    const { failureReason } = await import("./failure.js");
    return fail(failureReason(error, about.name), argv, terminal);
  }
}

async function print(text: string, terminal: Terminal): Promise<never> {
  try {
    await terminal.write(text);
  } catch (error) {
    const { failureLine, failureReason } = await import("./failure.js");
    return terminal.fail(failureLine(failureReason(error, "help")));
  }
  return terminal.exit(0);
}

/**
 * Reports an error in one line and ends the process. An ACP client on standard output also receives it as a protocol
 * error, because editors do not show stderr.
 */
async function fail(message: string, argv: readonly string[], terminal: Terminal, code = 1): Promise<never> {
  const { failureLine } = await import("./failure.js");
  const line = failureLine(message);
  if (["serve", "--acp", "--stdio"].every((word) => argv.includes(word))) {
    const { refuseOverStdio } = await import("./serve.js");
    await refuseOverStdio(line);
  }
  return terminal.fail(line, code);
}

async function wordsOf({ fault, unknown }: FlagFault, about: CommandDescription): Promise<string> {
  if (unknown === undefined) return `${fault} (see gantry ${about.name} --help)`;
  const { unknownFlag } = await import("./help.js");
  return unknownFlag(unknown, about);
}
