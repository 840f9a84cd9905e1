import { GantryError } from "../ports/errors.js";
import { VERSION } from "../base/version.js";
import type { Command, CommandContext, Flags, Output } from "./command.js";

const HELP = `
  gantry: a headless AI coding agent

  Usage
    $ gantry serve [options]              serve the agent
    $ gantry adapters [--json]            list what can be plugged in, and what the config selects
    $ gantry sessions export [ID ...]     write sessions to stdout, as JSON lines
    $ gantry sessions import              read them from stdin; what exists already is left out

  Options
    --host HOST              address to bind (server.host, default 127.0.0.1)
    --port PORT              port; 0 for any free one (server.port, default 8080)
    --config FILE            config file (default ~/.gantry/config.json)
    --transport NAME         what to serve, may be repeated (server.transports)
    --session-driver NAME    sqlite, json, postgres or a module (session.driver)
    --acp                    serve the Agent Client Protocol over HTTP
    --stdio                  with --acp: over standard input and output
    --acp-profile PROFILE    auto, spec or official (acp.profile, default auto)
    --insecure               bind beyond loopback without authentication
    --json                   with adapters: as JSON
    --output FILE            with sessions export: into this file, which is there when it is whole
    --resume                 with it: go on with an export that was broken off
    -v, --version            print the version
    -h, --help               print this text

  The agent works on the folder that it is started in. Its tools run without asking.
`;

/** Each is loaded when it is called for. */
const COMMANDS: Readonly<Record<string, () => Promise<{ run: Command }>>> = {
  serve: () => import("./serve.js"),
  adapters: () => import("./adapters.js"),
  sessions: () => import("./sessions.js"),
};

const FLAGS = {
  host: { type: "string" },
  port: { type: "string" },
  config: { type: "string" },
  transport: { type: "string", isMultiple: true },
  sessionDriver: { type: "string" },
  acp: { type: "boolean" },
  stdio: { type: "boolean" },
  acpProfile: { type: "string" },
  insecure: { type: "boolean" },
  json: { type: "boolean" },
  output: { type: "string" },
  resume: { type: "boolean" },
} as const;

/** The streams and the end of the process, which only the command line's first file has. */
export interface Terminal extends Output, Pick<CommandContext, "input" | "interrupted"> {
  /** A line on stderr, then the end. */
  fail(line: string): never;
  /** The end. */
  exit(code: number): never;
}

/** Read the command line and do what it says. */
export async function main(argv: readonly string[], terminal: Terminal): Promise<void> {
  const asked = wantsText(argv);
  if (asked !== undefined) {
    await terminal.write(asked === "help" ? HELP.slice(1) : `${VERSION}\n`);
    return terminal.exit(0);
  }
  const line = readLine(argv);
  if ("fault" in line) return fail(`${line.fault} (see gantry --help)`, argv, terminal);
  // Whoever starts an agent waits for it, and the parser would be a tenth of that time.
  const cli = line.input[0] === "serve" ? line : await parse(argv);
  // A parser takes the name alone; `ps` shall tell one server from another.
  process.title = ["gantry", ...argv].join(" ");
  const [name = "", ...args] = cli.input;
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!load)
    return fail(
      `unknown command ${name}; expected one of ${Object.keys(COMMANDS).join(", ")} (see gantry --help)`,
      argv,
      terminal,
    );
  try {
    const { run } = await load();
    const { input } = terminal;
    const code = await run({
      args,
      flags: cli.flags,
      input,
      output: terminal,
      interrupted: () => terminal.interrupted(),
    });
    if (code !== undefined) terminal.exit(code);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const what = name === "serve" ? "cannot start" : `${name} failed`;
    return fail(error instanceof GantryError ? message : `${what}: ${message}`, argv, terminal);
  }
}

/** One line for whoever started this, then the end. A client that speaks a protocol with us gets it there as well: an editor shows no stderr. */
async function fail(message: string, argv: readonly string[], terminal: Terminal): Promise<never> {
  const line = `gantry: ${message.replace(/\s*[\r\n]+\s*/g, " ")}`;
  if (["serve", "--acp", "--stdio"].every((word) => argv.includes(word))) {
    const { refuseOverStdio } = await import("./serve.js");
    await refuseOverStdio(line);
  }
  return terminal.fail(line);
}

/** The command line, as meow reads it. */
export async function parse(argv: readonly string[]): Promise<CommandLine> {
  const { default: meow } = await import("meow");
  // Those that are not there shall not be there with a value either.
  const given = Object.entries(FLAGS).filter(([name]) =>
    argv.some((word) => word.split("=")[0] === `--${kebab(name)}`),
  );
  const cli = meow("", {
    importMeta: import.meta,
    argv,
    pkg: { name: "gantry", version: VERSION },
    description: false,
    autoHelp: false,
    autoVersion: false,
    flags: Object.fromEntries(given),
  });
  return { input: cli.input, flags: { acp: false, stdio: false, json: false, ...cli.flags } };
}

/** Help or version, wherever they are asked for; help too where nothing is. */
function wantsText(argv: readonly string[]): "help" | "version" | undefined {
  const [first] = argv;
  if (first === undefined || first === "help") return "help";
  if (first === "version") return "version";
  if (argv.some((word) => word === "--help" || word === "-h")) return "help";
  return argv.some((word) => word === "--version" || word === "-v") ? "version" : undefined;
}

/** The words of a command line that are no flags, and the flags. */
interface CommandLine {
  readonly input: readonly string[];
  readonly flags: Flags;
}

/**
 * The same as `parse`, without its time; and what that would take in silence, or refuse with a stack: flags that are
 * unknown, given twice, or without a value.
 */
export function readLine(argv: readonly string[]): CommandLine | { fault: string } {
  const known = new Map(Object.entries(FLAGS).map(([key, flag]) => [`--${kebab(key)}`, { key, ...flag }]));
  const input: string[] = [];
  const flags: Record<string, string | boolean | string[]> = {};
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? "";
    if (!word.startsWith("-") || word === "-") {
      input.push(word);
      continue;
    }
    const [name = "", ...rest] = word.split("=");
    const flag = known.get(name);
    if (!flag) return { fault: `unknown flag ${name}` };
    const { key } = flag;
    const before = flags[key];
    if (before !== undefined && !("isMultiple" in flag)) return { fault: `${name} was given twice` };
    if (flag.type === "boolean") {
      if (rest.length > 0) return { fault: `${name} takes no value` };
      flags[key] = true;
      continue;
    }
    let value = rest.join("=");
    if (rest.length === 0) {
      const next = argv[at + 1];
      if (next === undefined || next.startsWith("-")) return { fault: `${name} needs a value` };
      value = next;
      at += 1;
    }
    flags[key] = "isMultiple" in flag ? [...(Array.isArray(before) ? before : []), value] : value;
  }
  return { input, flags: { acp: false, stdio: false, json: false, ...flags } };
}

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
