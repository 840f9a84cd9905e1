import { VERSION } from "../base/version.js";
import type { About } from "./about.js";
import { serve } from "./about/serve.js";
import type { Chosen } from "./choose.js";
import type { Command, CommandContext, Output } from "./command.js";
import { flagsOf, parse, type Fault } from "./command-line.js";

/** Each is loaded when it is called for, by the first word of its name; what they say of themselves is in `about`. */
const COMMANDS: Readonly<Record<string, () => Promise<{ run: (context: never) => ReturnType<Command> }>>> = {
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

/** The streams and the end of the process, which only the command line's first file has. */
export interface Terminal extends Output, Pick<CommandContext, "input" | "interrupted"> {
  /** A line on stderr, then the end; with 1 where no code is given. */
  fail(line: string, code?: number): never;
  /** The end. */
  exit(code: number): never;
}

/** Read the command line and do what it says. */
export async function main(argv: readonly string[], terminal: Terminal): Promise<void> {
  // Starting an agent waits for nothing that it does not need: the descriptions of all commands take time to load.
  const all = argv[0] === "serve" ? undefined : await import("./choose.js");
  const line = parse(argv, all ? all.flagsFor(argv) : serve.flags);
  if (line.flags["version"] === true || line.input[0] === "version") return print(`${VERSION}\n`, terminal);
  // Making the stream of standard input takes 3 ms, and `serve` reads nothing from it.
  const isAtTerminal = (): boolean => terminal.input.isTerminal && terminal.isShown;
  const chosen: Chosen =
    all || line.flags["help"] === true
      ? (all ?? (await import("./choose.js"))).choose(line, argv, isAtTerminal())
      : { about: serve, args: line.input.slice(1) };
  if ("text" in chosen) return print(chosen.text, terminal);
  if ("fault" in chosen) return fail(chosen.fault, argv, terminal);
  const { about, args } = chosen;
  const read = flagsOf(line, about.flags, argv);
  if ("fault" in read) return fail(await wordsOf(read, about), argv, terminal, about.wrongUsage);
  // meow sets the name alone; `ps` shall tell one server from another.
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
    // Its flags are read by what it says of itself.
    const code = await run(context as never);
    if (code !== undefined) terminal.exit(code);
  } catch (error) {
    const { lineOf } = await import("./failure.js");
    return fail(lineOf(error, about.name), argv, terminal);
  }
}

async function print(text: string, terminal: Terminal): Promise<never> {
  try {
    await terminal.write(text);
  } catch (error) {
    const { failureLine, lineOf } = await import("./failure.js");
    return terminal.fail(failureLine(lineOf(error, "help")));
  }
  return terminal.exit(0);
}

/** One line for whoever started this, then the end. A client that speaks a protocol with us gets it there as well: an editor shows no stderr. */
async function fail(message: string, argv: readonly string[], terminal: Terminal, code = 1): Promise<never> {
  const { failureLine } = await import("./failure.js");
  const line = failureLine(message);
  if (["serve", "--acp", "--stdio"].every((word) => argv.includes(word))) {
    const { refuseOverStdio } = await import("./serve.js");
    await refuseOverStdio(line);
  }
  return terminal.fail(line, code);
}

async function wordsOf({ fault, unknown }: Fault, about: About): Promise<string> {
  if (unknown === undefined) return `${fault} (see gantry ${about.name} --help)`;
  const { unknownFlag } = await import("./help.js");
  return unknownFlag(unknown, about);
}
