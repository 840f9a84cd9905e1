import { resolve } from "node:path";
import { compose, type Composition } from "../serve/compose.js";
import { limitHeapGrowth } from "../base/limit-heap-growth.js";
import type { Logger } from "../ports/logger.js";
import type { serve } from "./descriptions/serve.js";
import { loadConfigWithFlags, type CommandHandler } from "./command.js";
import { createCommandLogger } from "./log-writer.js";
import { refuseArguments } from "./refuse-arguments.js";
import { suspendSafely } from "./suspend.js";

// `main` uses this function if the start fails. The export is here because a separate entry would split the bundle that
// every start loads.
export { refuseOverStdio } from "../serve/plugins.js";

/** Maximum duration of the stop. The process exits afterwards. */
const STOP_TIMEOUT_MS = 4_900;
/** Time for handles to close after the stop, before the process exits. */
const EXIT_DELAY_MS = 300;
/**
 * Interval of the checks whether the process is idle. The log lines about the start wait for an idle interval, because
 * detecting the sandbox starts two processes, which must not delay the first clients.
 */
const IDLE_CHECK_INTERVAL_MS = 200;
/** Maximum share of an idle interval in which the event loop works. */
const MAX_IDLE_UTILIZATION = 0.25;
/** Maximum number of checks. The log lines appear then even if the process is busy. */
const MAX_IDLE_CHECKS = 25;

/** `gantry serve`: starts what the config selects, prints the addresses, and runs until a signal. */
export const run: CommandHandler<typeof serve.flags> = async ({ args, flags, output }) => {
  refuseArguments(args);
  const { loadedConfig, home } = await loadConfigWithFlags(flags);
  const logger = await createCommandLogger(loadedConfig, output);
  if (flags.stdio) output.redirectConsoleToStderr();
  const composition = await compose({ loadedConfig, home, projectDir: resolve("."), logger });
  serveUntilStopped(composition, loadedConfig.config.server.drainDelay * 1000, logger);
  callWhenIdle(
    () => void import("./start-lines.js").then(({ logStart }) => logStart(loadedConfig, home, composition, logger)),
  );
  if (composition.startedTransports.every(({ address }) => address === "stdio")) limitHeapAfterRun(composition.agent);
  return undefined;
};

/**
 * Limits the growth of the heap when the first run has ended. With other flags V8 rejects the stored code of Node's own
 * modules, and loading the modules of a run would take three times as long.
 */
function limitHeapAfterRun(agent: Composition["agent"]): void {
  const stopListening = agent.on("run.finished", () => {
    stopListening();
    callWhenIdle(limitHeapGrowth);
  });
}

/** Calls `work` after the first idle interval. Does not keep the process alive. */
function callWhenIdle(work: () => void, remainingChecks = MAX_IDLE_CHECKS): void {
  const start = performance.eventLoopUtilization();
  setTimeout(() => {
    const { utilization } = performance.eventLoopUtilization(start);
    if (utilization <= MAX_IDLE_UTILIZATION || remainingChecks === 1) work();
    else callWhenIdle(work, remainingChecks - 1);
  }, IDLE_CHECK_INTERVAL_MS).unref();
}

/** Prints the addresses. Handles signals, fatal errors and the end of a transport. */
function serveUntilStopped({ agent, startedTransports, stop }: Composition, drainMs: number, logger: Logger): void {
  let isStopping = false;
  let isDraining = false;
  const stopAndExit = (code: number) => {
    if (isStopping) return;
    isStopping = true;
    process.exitCode = code;
    setTimeout(() => process.exit(code), STOP_TIMEOUT_MS).unref();
    // An open handle of a plugin must not keep the process alive after the stop.
    void stop().then(() => setTimeout(() => process.exit(code), EXIT_DELAY_MS).unref());
  };
  suspendSafely();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      if (isStopping || isDraining) process.exit(1);
      if (signal !== "SIGTERM" || drainMs === 0) return stopAndExit(0);
      // The delay gives load balancers time to stop sending requests.
      isDraining = true;
      agent.drain();
      logger.info(`draining for ${drainMs / 1000} s`);
      setTimeout(() => stopAndExit(0), drainMs);
    });
  }
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") return stopAndExit(0);
    logger.error("standard output not writable; stopping", { error });
    stopAndExit(1);
  });
  process.stderr.on("error", () => undefined);
  process.on("unhandledRejection", (error) => logger.error("unhandled promise rejection", { error }));
  process.on("uncaughtException", (error) => {
    logger.error("uncaught exception; stopping", { error });
    stopAndExit(1);
  });
  for (const { ended, transportName: transport } of startedTransports) {
    ended.then(
      () => stopAndExit(0),
      (error: unknown) => {
        logger.error(`${toServerName(transport)} ended`, { error });
        stopAndExit(1);
      },
    );
  }
  // Print these lines after the signal handlers are set: a reader of the lines may send a signal at once.
  for (const { transportName: transport, address } of startedTransports) {
    // The console is part of the HTTP server, whose address is already printed.
    if (address !== "stdio" && transport !== "web-console")
      process.stdout.write(`${toServerName(transport)} listening on ${address}\n`);
  }
}

/** Display name of a transport: the protocol for built-in ones, otherwise the adapter's name. */
function toServerName(transport: string): string {
  return `${{ "koa-http-api": "http", "acp-http-sse-ws": "acp", "acp-stdio": "acp" }[transport] ?? transport} server`;
}
