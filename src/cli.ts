#!/usr/bin/env node
import { resolve } from "node:path";
import meow from "meow";
import { compose, type Composition } from "./compose.js";
import { homeFolder, loadConfig, type LoadedConfig } from "./config.js";
import { GantryError } from "./errors.js";
import { createLogger } from "./log.js";
import type { Logger } from "./ports/logger.js";
import { VERSION } from "./version.js";

const HELP = `
  gantry: a headless AI coding agent

  Usage
    $ gantry serve [options]

  Options
    --host HOST              address to bind (server.host, default 127.0.0.1)
    --port PORT              port; 0 for any free one (server.port, default 8080)
    --config FILE            config file (default ~/.gantry/config.json)
    --transport NAME         what to serve, may be repeated (server.transports)
    --session-driver NAME    sqlite, json or a module (session.driver)
    --acp                    serve the Agent Client Protocol over HTTP
    --stdio                  with --acp: over standard input and output
    --insecure               bind beyond loopback without authentication
    --version                print the version
    --help                   print this text

  The agent works on the folder that it is started in. Its tools run without asking.
`;

/** Nothing may keep the process longer than this, in ms, once it was told to stop. */
const LAST_MS = 4_900;
const LEFT_OVER_MS = 300;

function line(text: string): string {
  return text.replace(/\s*[\r\n]+\s*/g, " ");
}

/** One line on stderr, then the end. */
function fail(message: string): never {
  console.error(`gantry: ${line(message)}`);
  process.exit(1);
}

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
      insecure: { type: "boolean" },
    },
  });
}

async function main(): Promise<void> {
  const cli = flags();
  const [command, ...rest] = cli.input;
  if (command === undefined) cli.showHelp(0);
  if (command !== "serve") fail(`unknown command ${command}; expected serve (see gantry --help)`);
  if (rest.length > 0) fail(`unexpected argument ${rest[0]}; see gantry --help`);
  await serve(cli.flags);
}

async function serve(given: ReturnType<typeof flags>["flags"]): Promise<void> {
  if (given.stdio && !given.acp) fail("--stdio needs --acp");
  const port = given.port === undefined ? undefined : /^\d+$/.test(given.port) ? Number(given.port) : NaN;
  if (port !== undefined && !(port <= 65_535))
    fail(`--port: expected a whole number from 0 to 65535, got ${given.port}`);
  const transports = given.acp
    ? [given.stdio ? "acp-stdio" : "acp-http-sse-ws"]
    : (given.transport?.length ?? 0) > 0
      ? given.transport
      : undefined;
  const home = homeFolder();
  let logger: Logger | undefined;
  let composition: Composition;
  try {
    const loaded = await loadConfig({
      home,
      ...(given.config === undefined ? {} : { path: given.config }),
      overrides: {
        "server.host": given.host,
        "server.port": port,
        "server.transports": transports,
        "server.insecure": given.insecure || undefined,
        "session.driver": given.sessionDriver,
      },
    });
    logger = makeLogger(loaded);
    // A transport that speaks on stdout must not find other words there.
    if (given.stdio) console.log = console.info = console.debug = console.error;
    composition = await compose({ loaded, home, projectDir: resolve("."), logger });
  } catch (error) {
    fail(
      error instanceof GantryError
        ? error.message
        : `cannot start: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  for (const { label, address } of composition.listening) {
    if (address !== "stdio") process.stdout.write(`${label} listening on ${address}\n`);
  }
  await live(composition, logger);
}

function makeLogger({ config, secrets }: LoadedConfig): Logger {
  return createLogger({ level: config.log.level, write: (entry) => console.error(entry), secrets: () => secrets });
}

/** Until a signal, or until a transport has ended. */
async function live({ agent, listening, stop }: Composition, logger: Logger): Promise<void> {
  let stopping = false;
  const end = (code: number) => {
    if (stopping) return;
    stopping = true;
    process.exitCode = code;
    setTimeout(() => process.exit(code), LAST_MS).unref();
    // All is closed then; a handle that a plugin forgot must not keep the process.
    void stop().then(() => setTimeout(() => process.exit(code), LEFT_OVER_MS).unref());
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      if (stopping) process.exit(1);
      end(0);
    });
  }
  process.stdout.on("error", () => end(0));
  process.stderr.on("error", () => undefined);
  process.on("unhandledRejection", (error) => logger.error("a promise was left alone", { error }));
  process.on("uncaughtException", (error) => {
    logger.error("an error that nobody caught", { error });
    end(1);
  });
  for (const { ended, label } of listening) {
    ended.then(
      () => end(0),
      (error: unknown) => {
        logger.error(`${label} ended`, { error });
        end(1);
      },
    );
  }
  try {
    // Now, and not with the first prompt: a store that cannot be opened must not be found out by a user.
    await agent.open();
  } catch (error) {
    if (!stopping) fail(error instanceof Error ? error.message : String(error));
  }
}

await main();
