import { VERSION } from "../base/version.js";
import type { About, FlagSpecs } from "./about.js";
import { serve } from "./about/serve.js";
import type { Chosen } from "./choose.js";
import type { Command, CommandContext, Output } from "./command.js";
import { beforeEnd, readLine, type CommandLine, type Fault } from "./command-line.js";

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
  const asked = wantsText(argv);
  if (asked === "version") return print(`${VERSION}\n`, terminal);
  const chosen = await choose(argv, asked === "help", terminal);
  if ("text" in chosen) return print(chosen.text, terminal);
  if ("fault" in chosen) return fail(chosen.fault, argv, terminal);
  const { about, rest } = chosen;
  const line = await read(rest, about);
  if ("fault" in line) return fail(line.fault, argv, terminal, about.wrongUsage);
  // A parser takes the name alone; `ps` shall tell one server from another.
  process.title = ["gantry", ...argv].join(" ");
  const [first = ""] = about.name.split(" ");
  try {
    const { run } = await COMMANDS[first]!();
    const context: CommandContext = {
      name: about.name,
      args: line.input,
      flags: line.flags as CommandContext["flags"],
      input: terminal.input,
      output: terminal,
      interrupted: () => terminal.interrupted(),
    };
    // Its flags are read by what it says of itself.
    const code = await run(context as never);
    if (code !== undefined) terminal.exit(code);
  } catch (error) {
    const { lineOf } = await import("./failed.js");
    return fail(lineOf(error, about.name), argv, terminal);
  }
}

async function choose(argv: readonly string[], wantsHelp: boolean, terminal: Terminal): Promise<Chosen> {
  // Whoever starts an agent waits for it, and what all commands say of themselves takes time.
  if (argv[0] === "serve" && !wantsHelp) return { about: serve, rest: argv.slice(1) };
  const { choose } = await import("./choose.js");
  return choose(argv, wantsHelp, terminal.input.isTerminal && terminal.isShown);
}

async function print(text: string, terminal: Terminal): Promise<never> {
  try {
    await terminal.write(text);
  } catch (error) {
    const { failureLine, lineOf } = await import("./failed.js");
    return terminal.fail(failureLine(lineOf(error, "help")));
  }
  return terminal.exit(0);
}

/** One line for whoever started this, then the end. A client that speaks a protocol with us gets it there as well: an editor shows no stderr. */
async function fail(message: string, argv: readonly string[], terminal: Terminal, code = 1): Promise<never> {
  const { failureLine } = await import("./failed.js");
  const line = failureLine(message);
  if (["serve", "--acp", "--stdio"].every((word) => argv.includes(word))) {
    const { refuseOverStdio } = await import("./serve.js");
    await refuseOverStdio(line);
  }
  return terminal.fail(line, code);
}

async function read(argv: readonly string[], about: About): Promise<CommandLine | Fault> {
  const line = readLine(argv, about.flags);
  if ("fault" in line) {
    if (line.unknown === undefined) return { fault: `${line.fault} (see gantry ${about.name} --help)` };
    const { unknownFlag } = await import("./help.js");
    return { fault: unknownFlag(line.unknown, about) };
  }
  // As above: the parser would be a tenth of the time that a start takes.
  return about.isQuick ? line : parse(argv, about.flags);
}

/** The command line, as meow reads it; of `readLine` the same. */
export async function parse(argv: readonly string[], specs: FlagSpecs): Promise<CommandLine> {
  const { default: meow } = await import("meow");
  const { flagName } = await import("./about.js");
  // Those that are not there shall not be there with a value either.
  const given = Object.entries(specs).filter(([key]) =>
    beforeEnd(argv).some((word) => word.split("=")[0] === flagName(key)),
  );
  const flags = given.map(([key, { type, isMultiple = false }]) => [key, { type, isMultiple }]);
  const cli = meow("", {
    importMeta: import.meta,
    argv,
    pkg: { name: "gantry", version: VERSION },
    description: false,
    autoHelp: false,
    autoVersion: false,
    flags: Object.fromEntries(flags) as Record<string, { type: "string" }>,
  });
  return { input: cli.input, flags: cli.flags as CommandLine["flags"] };
}

/** Help or version, wherever they are asked for. */
function wantsText(argv: readonly string[]): "help" | "version" | undefined {
  const [first] = argv;
  if (first === "help") return "help";
  if (first === "version") return "version";
  const words = beforeEnd(argv);
  if (words.some((word) => word === "--help" || word === "-h")) return "help";
  return words.some((word) => word === "--version" || word === "-v") ? "version" : undefined;
}
