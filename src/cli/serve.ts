import { resolve } from "node:path";
import { compose, type Composition } from "../serve/compose.js";
import type { LoadedConfig } from "../serve/config.js";
import { createLogger } from "../base/log.js";
import { limitHeapGrowth } from "../base/limit-heap-growth.js";
import type { Logger } from "../ports/logger.js";
import type { serve } from "./about/serve.js";
import { loadFor, type CommandHandler, type CommandOutput } from "./command.js";
import { refuseArguments } from "./refuse-arguments.js";

// Used by `main` if the start fails. Exported here because a separate entry would split the bundle that every start
// loads.
export { refuseOverStdio } from "../serve/plugins.js";

/** Time limit for a stop, after which the process exits. */
const STOP_TIMEOUT_MS = 4_900;
const EXIT_DELAY_MS = 300;
/**
 * Delay of the start messages after the listen line. Detecting the sandbox starts two processes, which must not delay
 * the first client.
 */
const START_MESSAGE_DELAY_MS = 200;

/** `gantry serve`: starts what the config selects, prints the addresses, and runs until a signal. */
export const run: CommandHandler<typeof serve.flags> = async ({ args, flags, output }) => {
  refuseArguments(args);
  const { loaded, home } = await loadFor(flags);
  const logger = makeLogger(loaded, output);
  if (flags.stdio) output.keepStdoutClean();
  const composition = await compose({ loaded, home, projectDir: resolve("."), logger });
  serveUntilStopped(composition, loaded.config.server.drainDelay * 1000, logger);
  // The first client may already be connected: answer it first.
  setTimeout(() => {
    if (composition.listening.every(({ address }) => address === "stdio")) limitHeapGrowth();
    void import("./start-lines.js").then(({ logStart }) => logStart(loaded, home, composition, logger));
  }, START_MESSAGE_DELAY_MS).unref();
  return undefined;
};

function makeLogger({ config, secrets }: LoadedConfig, output: CommandOutput): Logger {
  return createLogger({ level: config.log.level, write: (entry) => output.report(entry), secrets: () => secrets });
}

/** Prints the addresses. Handles signals, fatal errors and the end of a transport. */
function serveUntilStopped({ agent, listening, stop }: Composition, drainMs: number, logger: Logger): void {
  let stopping = false;
  let draining = false;
  const end = (code: number) => {
    if (stopping) return;
    stopping = true;
    process.exitCode = code;
    setTimeout(() => process.exit(code), STOP_TIMEOUT_MS).unref();
    // Everything is closed by now. An open handle of a plugin must not keep the process alive.
    void stop().then(() => setTimeout(() => process.exit(code), EXIT_DELAY_MS).unref());
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      if (stopping || draining) process.exit(1);
      if (signal !== "SIGTERM" || drainMs === 0) return end(0);
      // Load balancers have time to stop sending requests.
      draining = true;
      agent.drain();
      logger.info(`draining for ${drainMs / 1000} s`);
      setTimeout(() => end(0), drainMs);
    });
  }
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") return end(0);
    logger.error("standard output not writable; stopping", { error });
    end(1);
  });
  process.stderr.on("error", () => undefined);
  process.on("unhandledRejection", (error) => logger.error("unhandled promise rejection", { error }));
  process.on("uncaughtException", (error) => {
    logger.error("uncaught exception; stopping", { error });
    end(1);
  });
  for (const { ended, transport } of listening) {
    ended.then(
      () => end(0),
      (error: unknown) => {
        logger.error(`${serverName(transport)} ended`, { error });
        end(1);
      },
    );
  }
  // After the signal handlers: a reader of these lines may send a signal at once.
  for (const { transport, address } of listening) {
    // The console is part of the HTTP server, whose address is already printed.
    if (address !== "stdio" && transport !== "web-console")
      process.stdout.write(`${serverName(transport)} listening on ${address}\n`);
  }
}

/** Display name of a transport: the protocol for built-in ones, otherwise the adapter's name. */
function serverName(transport: string): string {
  return `${{ "koa-http-api": "http", "acp-http-sse-ws": "acp", "acp-stdio": "acp" }[transport] ?? transport} server`;
}
