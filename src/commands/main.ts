import meow from "meow";
import { GantryError } from "../ports/errors.js";
import { VERSION } from "../base/version.js";
import type { Command, Output } from "./command.js";

const HELP = `
  gantry: a headless AI coding agent

  Usage
    $ gantry serve [options]              serve the agent
    $ gantry adapters [--json]            list what can be plugged in, and what the config selects
    $ gantry sessions export [ID ...]     write sessions to stdout, as JSON lines
    $ gantry sessions import              read them from stdin

  Options
    --host HOST              address to bind (server.host, default 127.0.0.1)
    --port PORT              port; 0 for any free one (server.port, default 8080)
    --config FILE            config file (default ~/.gantry/config.json)
    --transport NAME         what to serve, may be repeated (server.transports)
    --session-driver NAME    sqlite, json or a module (session.driver)
    --acp                    serve the Agent Client Protocol over HTTP
    --stdio                  with --acp: over standard input and output
    --acp-profile PROFILE    auto, spec or official (acp.profile, default auto)
    --insecure               bind beyond loopback without authentication
    --json                   with adapters: as JSON
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
} as const;

/** The streams and the end of the process, which only the command line's first file has. */
export interface Terminal extends Output {
  readonly input: AsyncIterable<Uint8Array>;
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
  const fault = faultOf(argv);
  if (fault !== undefined) return fail(`${fault} (see gantry --help)`, argv, terminal);
  const cli = parse(argv);
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
    const code = await run({ args, flags: cli.flags, input: terminal.input, output: terminal });
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

function parse(argv: readonly string[]) {
  // Each flag costs the parser time in every start, and most are not there.
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
  // The parser takes the name alone; `ps` shall tell one server from another.
  process.title = ["gantry", ...argv].join(" ");
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

/** What the parser would take in silence, or refuse with a stack: flags that are unknown, given twice, or without a value. */
function faultOf(argv: readonly string[]): string | undefined {
  const known = new Map<string, (typeof FLAGS)[keyof typeof FLAGS]>();
  for (const [name, flag] of Object.entries(FLAGS)) known.set(`--${kebab(name)}`, flag);
  const seen = new Set<string>();
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? "";
    if (!word.startsWith("-") || word === "-") continue;
    const [name = "", ...value] = word.split("=");
    const flag = known.get(name);
    if (!flag) return `unknown flag ${name}`;
    if (seen.has(name) && !("isMultiple" in flag)) return `${name} was given twice`;
    seen.add(name);
    if (flag.type === "boolean") {
      if (value.length > 0) return `${name} takes no value`;
    } else if (value.length === 0) {
      const next = argv[at + 1];
      if (next === undefined || next.startsWith("-")) return `${name} needs a value`;
      at += 1;
    }
  }
  return undefined;
}

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
