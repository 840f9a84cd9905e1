#!/usr/bin/env node
import meow from "meow";
import type { Command, Output } from "./commands/command.js";
import { GantryError } from "./errors.js";
import { VERSION } from "./version.js";

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
    --version                print the version
    --help                   print this text

  The agent works on the folder that it is started in. Its tools run without asking.
`;

/** Each is loaded when it is called for. */
const COMMANDS: Readonly<Record<string, () => Promise<{ run: Command }>>> = {
  serve: () => import("./commands/serve.js"),
  adapters: () => import("./commands/adapters.js"),
  sessions: () => import("./commands/sessions.js"),
};

function oneLine(message: string): string {
  return `gantry: ${message.replace(/\s*[\r\n]+\s*/g, " ")}`;
}

/** One line on stderr, then the end. */
function fail(message: string): never {
  console.error(oneLine(message));
  process.exit(1);
}

/** The same line to whoever started this and speaks a protocol with it: an editor shows no standard error. */
async function tellClient(message: string): Promise<void> {
  const { refuseOverStdio } = await import("./plugins.js");
  await refuseOverStdio(oneLine(message));
}

const output: Output = {
  write: (text) =>
    new Promise((resolve, reject) => {
      process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
    }),
  tell: (line) => console.error(line),
  keepStdoutClean: () => void (console.log = console.info = console.debug = console.error),
};

function flags() {
  return meow(HELP, {
    importMeta: import.meta,
    pkg: { name: "gantry", version: VERSION },
    description: false,
    allowUnknownFlags: false,
    flags: {
      host: { type: "string" },
      port: { type: "string" },
      config: { type: "string" },
      transport: { type: "string", isMultiple: true },
      sessionDriver: { type: "string" },
      acp: { type: "boolean", default: false },
      stdio: { type: "boolean", default: false },
      acpProfile: { type: "string" },
      insecure: { type: "boolean" },
      json: { type: "boolean", default: false },
    },
  });
}

async function main(): Promise<void> {
  const cli = flags();
  const [name, ...args] = cli.input;
  if (name === undefined) return cli.showHelp(0);
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!load) fail(`unknown command ${name}; expected one of ${Object.keys(COMMANDS).join(", ")} (see gantry --help)`);
  let readerLeft = false;
  process.stdout.on("error", () => (readerLeft = true));
  try {
    const { run } = await load();
    const code = await run({ args, flags: cli.flags, input: process.stdin, output });
    if (code !== undefined) process.exit(code);
  } catch (error) {
    // `gantry sessions export | head`
    if (readerLeft) process.exit(0);
    const message = error instanceof Error ? error.message : String(error);
    const line =
      error instanceof GantryError ? message : `${name === "serve" ? "cannot start" : `${name} failed`}: ${message}`;
    if (name === "serve" && cli.flags.acp && cli.flags.stdio) await tellClient(line);
    fail(line);
  }
}

await main();
