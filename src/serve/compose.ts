import { chmodSync, statSync } from "node:fs";
import { createDeadline } from "../base/abort.js";
import { createFolder } from "../base/create-folder.js";
import type { Agent } from "../agent/agent.js";
import { HTTP_HOST } from "../plugin/adapter.js";
import { AdapterError, ConfigError, GantryError, hasCode } from "../ports/errors.js";
import { isUnavailable, throttleOutageLogs } from "../sessions/outage.js";
import type { HookSet } from "../ports/hooks.js";
import type { HttpHost } from "../ports/http-host.js";
import type { Logger } from "../ports/logger.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Listening, Transport } from "../plugin/transport.js";
import { createContainer, type CompositionInput } from "./container.js";
import { findListeningFault } from "./port-check.js";
import { isBuiltIn } from "./plugins.js";
import { reasonOf } from "./error-reason.js";
import type { SelectedAdapter } from "./selected-adapters.js";
import { CloseTracker, stopInReverse, stopWithin, type StartedPart } from "./shutdown.js";
import {
  AGENT,
  HOOKS,
  MODEL_PROVIDERS,
  SESSION_DRIVER,
  TELEMETRY,
  TOOLS,
  TRANSPORTS,
  type SelectedTransport,
} from "./tokens.js";

export interface ComposeOptions extends CompositionInput {
  /** Whether only this process uses the agent: no transport is started, and the store is opened on first use. */
  isProcessLocal?: boolean;
  /** Start timeout of a third-party transport, in ms. Default 10,000. */
  startTimeoutMs?: number;
}

/** A started transport. */
export interface StartedTransport extends Listening {
  /** The transport's own name. */
  readonly transportName: string;
}

interface StartedTransportPart extends StartedPart {
  readonly startedTransport: StartedTransport;
}

/** A running server: agent, providers and transports. */
export interface Composition {
  readonly agent: Agent;
  /** Names of the model providers, in order of preference. */
  readonly providerNames: readonly string[];
  readonly startedTransports: readonly StartedTransport[];
  /** Logs the sandbox of commands. The detection starts processes, so call this after clients can connect. */
  logSandbox(): Promise<void>;
  /** Waits 2 s for running work, then cancels it. Resolves within 5 s. Safe to call twice. */
  stop(): Promise<void>;
}

const START_TIMEOUT_MS = 10_000;
/** Grace period for active runs and requests, in ms. */
const SHUTDOWN_GRACE_MS = 2_000;
/** Deadlines in ms from the start of the stop. A part that misses its deadline is logged and abandoned. */
const STOP_DEADLINES_MS = { transports: 3_800, port: 4_000, agent: 4_600, hooks: 4_900 };

/**
 * Builds what the config selects and starts its transports.
 *
 * A third-party transport that fails to start is logged, and the others continue. Any other failure stops everything
 * and rejects.
 */
export async function compose(options: ComposeOptions): Promise<Composition> {
  try {
    return await buildComposition(options);
  } catch (error) {
    // An adapter's error can quote the rejected value, which can be a misplaced key.
    if (error instanceof GantryError) error.message = options.loadedConfig.redactMessage(error.message);
    throw error;
  }
}

async function buildComposition(composeOptions: ComposeOptions): Promise<Composition> {
  const options = { ...composeOptions, logger: throttleOutageLogs(composeOptions.logger) };
  const { loadedConfig, home, logger } = options;
  createHome(home);
  const container = createContainer(options);
  const [agent, transports, driver, providers, hooks, telemetry] = await Promise.all([
    container.resolve(AGENT),
    options.isProcessLocal === true ? [] : container.resolve(TRANSPORTS),
    container.resolve(SESSION_DRIVER),
    container.resolve(MODEL_PROVIDERS),
    container.resolve(HOOKS),
    container.resolve(TELEMETRY),
  ]);
  const closeTracker = new CloseTracker();
  closeTracker.track(`the session driver ${loadedConfig.config.session.driver}`, driver);
  for (const provider of providers) closeTracker.track(`the provider ${provider.name}`, provider);
  const startedParts: StartedTransportPart[] = [];
  let sandboxLog: Promise<void> | undefined;
  const stop = createRunOnce(async () => {
    // Skip the sandbox log if it has not started.
    sandboxLog ??= Promise.resolve();
    const host = container.isRegistered(HTTP_HOST) ? container.resolve(HTTP_HOST) : undefined;
    await stopAll({ agent, host, startedParts, closeTracker, hooks, telemetry, logger });
    await sandboxLog;
  });
  try {
    if (options.isProcessLocal !== true) await openStoreOrWarn(agent, logger);
    await startTransports(transports, agent, options, startedParts);
    const host = container.isRegistered(HTTP_HOST) ? container.resolve(HTTP_HOST) : undefined;
    await telemetry?.start({ readStatistics: () => agent.statistics(), host, redact: loadedConfig.redactMessage });
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    agent,
    providerNames: providers.map(({ name }) => name),
    startedTransports: startedParts.map(({ startedTransport }) => startedTransport),
    logSandbox: () => (sandboxLog ??= container.resolve(TOOLS).then((tools) => tools.logSandbox())),
    stop,
  };
}

/**
 * Starts the transports and adds them to `startedParts`. Starts concurrently, because HTTP transports share a listener
 * that starts with the first HTTP transport.
 */
async function startTransports(
  transports: readonly SelectedTransport[],
  agent: Agent,
  options: ComposeOptions,
  startedParts: StartedTransportPart[],
): Promise<void> {
  const outcomes = await Promise.allSettled(
    transports.map(({ transport, selected }) => startTransport(transport, selected, agent, options)),
  );
  let failure: unknown;
  const thirdPartyErrors: Error[] = [];
  for (const [i, { transport, selected }] of transports.entries()) {
    const outcome = outcomes[i]!;
    if (outcome.status === "fulfilled") {
      const { address, ended } = outcome.value;
      const stop = (signal: AbortSignal) => outcome.value.stop(signal);
      const startedTransport = { transportName: transport.name, address, ended, stop };
      startedParts.push({ name: `the transport ${selected.name}`, startedTransport, stop });
    } else if (isBuiltIn("transport", selected.name)) failure ??= outcome.reason;
    else thirdPartyErrors.push(outcome.reason as Error);
  }
  if (startedParts.length === 0) failure ??= thirdPartyErrors[0];
  if (failure !== undefined) throw failure as Error;
  for (const error of thirdPartyErrors)
    options.logger.error(`${error.message}; the other transports continue`, { error: error.cause });
}

interface StopOptions {
  readonly agent: Agent;
  readonly host: HttpHost | undefined;
  readonly startedParts: readonly StartedPart[];
  readonly closeTracker: CloseTracker;
  readonly hooks: readonly HookSet[];
  /** One of `hooks`. */
  readonly telemetry: HookSet | undefined;
  readonly logger: Logger;
}

/**
 * Stops in reverse order: transports, the port, the agent, hooks. Hooks are last so that they receive the end of the
 * last run. Never rejects.
 */
async function stopAll({
  agent,
  host,
  startedParts,
  closeTracker,
  hooks,
  telemetry,
  logger,
}: StopOptions): Promise<void> {
  const stopStartedAtMs = Date.now();
  const graceDeadline = createDeadline(SHUTDOWN_GRACE_MS);
  agent.stopAccepting();
  host?.stopAccepting();
  await stopInReverse(startedParts, graceDeadline.signal, stopStartedAtMs + STOP_DEADLINES_MS.transports, logger);
  const closePort = async () => host?.close(graceDeadline.signal);
  await stopWithin(() => "the HTTP port", closePort, stopStartedAtMs + STOP_DEADLINES_MS.port, logger);
  const describeLatePart = () =>
    closeTracker.closingNames.length > 0 ? closeTracker.closingNames.join(" and ") : "the agent";
  await stopWithin(describeLatePart, () => agent.close(), stopStartedAtMs + STOP_DEADLINES_MS.agent, logger);
  const hookParts = hooks.map((set, i) => ({
    name: set === telemetry ? "the telemetry" : `hooks[${i}]`,
    stop: async (signal: AbortSignal) => set.close?.(signal),
  }));
  await stopInReverse(hookParts, graceDeadline.signal, stopStartedAtMs + STOP_DEADLINES_MS.hooks, logger);
  graceDeadline.clear();
}

/**
 * Opens the store before clients can connect, so that a broken store fails the start. An unavailable or full store is
 * opened by later requests; until then the server is not ready.
 */
async function openStoreOrWarn(agent: Agent, logger: Logger): Promise<void> {
  try {
    await agent.open();
  } catch (error) {
    if (!isUnavailable(error) && !(hasCode(error, "store") && error.isFull)) throw error;
    logger.warn("session store unavailable; serving without it until it can be opened", { error });
  }
}

/** Opens the configured store only. The caller closes it. */
export async function openStore(options: ComposeOptions): Promise<SessionDriver> {
  createHome(options.home);
  const driver = await createContainer(options).resolve(SESSION_DRIVER);
  await driver.open();
  return driver;
}

/** Starts a transport. For a third-party transport there is a timeout, and errors name the transport. */
async function startTransport(
  transport: Transport,
  selected: SelectedAdapter,
  agent: Agent,
  { loadedConfig, startTimeoutMs = START_TIMEOUT_MS }: ComposeOptions,
): Promise<Listening> {
  if (isBuiltIn("transport", selected.name)) return transport.start(agent);
  return startThirdPartyTransport(
    transport,
    agent,
    `${loadedConfig.file}: ${selected.key}: ${selected.name}`,
    startTimeoutMs,
  );
}

/** Starts a third-party transport. Rejects with `AdapterError`, prefixed with `errorPrefix`. */
export async function startThirdPartyTransport(
  transport: Transport,
  agent: Agent,
  errorPrefix: string,
  startTimeoutMs: number,
): Promise<Listening> {
  const startPromise = (async () => transport.start(agent))();
  let timer: NodeJS.Timeout | undefined;
  const startTimeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new AdapterError(`${errorPrefix} did not start within ${startTimeoutMs} ms`)),
      startTimeoutMs,
    );
  });
  try {
    const listening = await Promise.race([startPromise, startTimeout]);
    const fault = findListeningFault(listening);
    if (fault === undefined) return listening;
    throw new AdapterError(`${errorPrefix}: start resolved with no Listening: ${fault}`);
  } catch (error) {
    // If the transport starts after the failure, stop it.
    void startPromise.then((listening) => listening.stop(AbortSignal.abort())).catch(() => undefined);
    if (hasCode(error, "adapter")) throw error;
    throw new AdapterError(`${errorPrefix} could not start: ${reasonOf(error)}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** Creates gantry's home folder with mode 0700, regardless of the umask. Throws `ConfigError`. */
export function createHome(home: string): void {
  try {
    createFolder(home);
    const { uid } = statSync(home);
    // Root would create files that the owner cannot open, and would run modules that the owner wrote.
    if (process.getuid?.() === 0 && uid !== 0)
      throw new ConfigError(
        `${home}: gantry's home folder belongs to another user (${uid}), and this is root; run as that user, or set GANTRY_HOME`,
      );
    chmodSync(home, 0o700);
  } catch (error) {
    if (hasCode(error, "config")) throw error;
    throw new ConfigError(
      `${home}: gantry's home folder cannot be created (${(error as NodeJS.ErrnoException).code ?? "unknown"}); set GANTRY_HOME to a folder that you can write to`,
      { cause: error },
    );
  }
}

function createRunOnce(work: () => Promise<void>): () => Promise<void> {
  let resultPromise: Promise<void> | undefined;
  return () => (resultPromise ??= work());
}
