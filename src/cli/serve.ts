import { resolve } from "node:path";
import { compose, type Composition } from "../serve/compose.js";
import type { LoadedConfig } from "../serve/config.js";
import { createLogger } from "../base/log.js";
import { staySmall } from "../base/limit-heap-growth.js";
import type { Logger } from "../ports/logger.js";
import type { serve } from "./about/serve.js";
import { loadFor, type Command, type Output } from "./command.js";
import { refuseArguments } from "./refuse-arguments.js";

// What `main` needs where nothing came of it; from here, so that it is no entry of its own that cuts what every start loads.
export { refuseOverStdio } from "../serve/plugins.js";

/** Nothing may keep the process longer than this, in ms, once it was told to stop. */
const LAST_MS = 4_900;
const LEFT_OVER_MS = 300;
/** What people are told of what was started begins so long after it, in ms; the sandbox takes two processes to find out. */
const TELL_MS = 200;

/** `gantry serve`: start what the config selects, print where it listens, and live until a signal. */
export const run: Command<typeof serve.flags> = async ({ args, flags, output }) => {
  refuseArguments(args);
  const { loaded, home } = await loadFor(flags);
  const logger = makeLogger(loaded, output);
  if (flags.stdio) output.keepStdoutClean();
  const composition = await compose({ loaded, home, projectDir: resolve("."), logger });
  live(composition, loaded.config.server.drainDelay * 1000, logger);
  // The first client is on its way, or there already: it is answered first.
  setTimeout(() => {
    if (composition.listening.every(({ address }) => address === "stdio")) staySmall();
    void import("./start-lines.js").then(({ tellStart }) => tellStart(loaded, home, composition, logger));
  }, TELL_MS).unref();
  return undefined;
};

function makeLogger({ config, secrets }: LoadedConfig, output: Output): Logger {
  return createLogger({ level: config.log.level, write: (entry) => output.tell(entry), secrets: () => secrets });
}

/** Say where it listens, and live until a signal or until a transport has ended. */
function live({ agent, listening, stop }: Composition, drainMs: number, logger: Logger): void {
  let stopping = false;
  let draining = false;
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
      if (stopping || draining) process.exit(1);
      if (signal !== "SIGTERM" || drainMs === 0) return end(0);
      // Whoever sends requests here has time to see that it should not any more.
      draining = true;
      agent.drain();
      logger.info(`draining for ${drainMs / 1000} s`);
      setTimeout(() => end(0), drainMs);
    });
  }
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") return end(0);
    logger.error("standard output cannot be written", { error });
    end(1);
  });
  process.stderr.on("error", () => undefined);
  process.on("unhandledRejection", (error) => logger.error("a promise was left alone", { error }));
  process.on("uncaughtException", (error) => {
    logger.error("an error that nobody caught", { error });
    end(1);
  });
  for (const { ended, transport } of listening) {
    ended.then(
      () => end(0),
      (error: unknown) => {
        logger.error(`${serverOf(transport)} ended`, { error });
        end(1);
      },
    );
  }
  // Only now: whoever reads these lines may send a signal at once.
  for (const { transport, address } of listening) {
    // The console is of the server that says so already.
    if (address !== "stdio" && transport !== "web-console")
      process.stdout.write(`${serverOf(transport)} listening on ${address}\n`);
  }
}

/** What a transport is called to whoever started it: those that ship by their protocol, others by their name. */
function serverOf(transport: string): string {
  return `${{ "koa-http-api": "http", "acp-http-sse-ws": "acp", "acp-stdio": "acp" }[transport] ?? transport} server`;
}
