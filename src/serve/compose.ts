import { chmodSync, statSync } from "node:fs";
import { deadline } from "../base/abort.js";
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
import { createContainer, type Parts } from "./container.js";
import { listeningFault } from "./port-check.js";
import { isBuiltIn } from "./plugins.js";
import { reasonOf, type Selected } from "./selected-adapters.js";
import { CloseTracker, stopInReverse, stopWithin, type StartedPart } from "./shutdown.js";
import { AGENT, HOOKS, MODEL_PROVIDERS, SESSION_DRIVER, TOOLS, TRANSPORTS, type SelectedTransport } from "./tokens.js";

export interface ComposeOptions extends Parts {
  /** Whether the agent is for this process only: no transport is started, and the store opens on first use. */
  alone?: boolean;
  /** Start timeout of a third-party transport, in ms. Default 10,000. */
  startMs?: number;
}

/** A started transport. */
export interface Served extends Listening {
  /** The transport's own name. */
  readonly transport: string;
}

interface ServedPart extends StartedPart {
  readonly served: Served;
}

/** A running server: agent, providers and transports. */
export interface Composition {
  readonly agent: Agent;
  /** Names of the model providers, in order of preference. */
  readonly providers: readonly string[];
  readonly listening: readonly Served[];
  /** Logs the sandbox of commands. Detecting it starts processes, so call it after clients can connect. */
  logSandbox(): Promise<void>;
  /** Waits 2 s for running work, then cancels it. Resolves within 5 s. Safe to call twice. */
  stop(): Promise<void>;
}

const START_TIMEOUT_MS = 10_000;
/** Grace period of running work. */
const SHUTDOWN_GRACE_MS = 2_000;
/** Stop deadlines of the parts, in ms from the start of the stop. A late part is logged and abandoned. */
const STOP_DEADLINES_MS = { transports: 3_800, port: 4_000, agent: 4_600, hooks: 4_900 };

/**
 * Builds what the config selects and starts its transports.
 *
 * A third-party transport that fails to start is logged, and the others continue. Any other failure stops everything
 * and rejects.
 */
export async function compose(options: ComposeOptions): Promise<Composition> {
  try {
    return await build(options);
  } catch (error) {
    // An adapter's error can quote the rejected value, which can be a misplaced key.
    if (error instanceof GantryError) error.message = options.loaded.hide(error.message);
    throw error;
  }
}

async function build(composeOptions: ComposeOptions): Promise<Composition> {
  const options = { ...composeOptions, logger: throttleOutageLogs(composeOptions.logger) };
  const { loaded, home, logger } = options;
  createHome(home);
  const container = createContainer(options);
  const [agent, transports, driver, providers, hooks] = await Promise.all([
    container.resolve(AGENT),
    options.alone === true ? [] : container.resolve(TRANSPORTS),
    container.resolve(SESSION_DRIVER),
    container.resolve(MODEL_PROVIDERS),
    container.resolve(HOOKS),
  ]);
  const closing = new CloseTracker();
  closing.watch(`the session driver ${loaded.config.session.driver}`, driver);
  for (const provider of providers) closing.watch(`the provider ${provider.name}`, provider);
  const started: ServedPart[] = [];
  let sandboxLog: Promise<void> | undefined;
  const stop = once(async () => {
    // Skip the sandbox log if it has not started.
    sandboxLog ??= Promise.resolve();
    const host = container.isRegistered(HTTP_HOST) ? container.resolve(HTTP_HOST) : undefined;
    await stopAll({ agent, host, started, closing, hooks, logger });
    await sandboxLog;
  });
  try {
    if (options.alone !== true) await openStoreOrWarn(agent, logger);
    await startAll(transports, agent, options, started);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    agent,
    providers: providers.map(({ name }) => name),
    listening: started.map(({ served }) => served),
    logSandbox: () => (sandboxLog ??= container.resolve(TOOLS).then((tools) => tools.logSandbox())),
    stop,
  };
}

/** Starts the transports concurrently, because HTTP transports share a port that opens with the first of them. */
async function startAll(
  transports: readonly SelectedTransport[],
  agent: Agent,
  options: ComposeOptions,
  started: ServedPart[],
): Promise<void> {
  const outcomes = await Promise.allSettled(
    transports.map(({ transport, selected }) => startOne(transport, selected, agent, options)),
  );
  let failure: unknown;
  const thirdParty: Error[] = [];
  for (const [i, { transport, selected }] of transports.entries()) {
    const outcome = outcomes[i]!;
    if (outcome.status === "fulfilled") {
      const { address, ended } = outcome.value;
      const stop = (signal: AbortSignal) => outcome.value.stop(signal);
      const served = { transport: transport.name, address, ended, stop };
      started.push({ name: `the transport ${selected.name}`, served, stop });
    } else if (isBuiltIn("transport", selected.name)) failure ??= outcome.reason;
    else thirdParty.push(outcome.reason as Error);
  }
  if (started.length === 0) failure ??= thirdParty[0];
  if (failure !== undefined) throw failure as Error;
  for (const error of thirdParty)
    options.logger.error(`${error.message}; the other transports continue`, { error: error.cause });
}

interface Stopping {
  readonly agent: Agent;
  readonly host: HttpHost | undefined;
  readonly started: readonly StartedPart[];
  readonly closing: CloseTracker;
  readonly hooks: readonly HookSet[];
  readonly logger: Logger;
}

/**
 * Stops in reverse order: transports, the port, the agent, hooks. Hooks are last so that they receive the end of the
 * last run. Never rejects.
 */
async function stopAll({ agent, host, started, closing, hooks, logger }: Stopping): Promise<void> {
  const begun = Date.now();
  const grace = deadline(SHUTDOWN_GRACE_MS);
  agent.refuseNew();
  host?.refuseNew();
  await stopInReverse(started, grace.signal, begun + STOP_DEADLINES_MS.transports, logger);
  const closePort = async () => host?.close(grace.signal);
  await stopWithin(() => "the HTTP port", closePort, begun + STOP_DEADLINES_MS.port, logger);
  const late = () => (closing.names.length > 0 ? closing.names.join(" and ") : "the agent");
  await stopWithin(late, () => agent.close(), begun + STOP_DEADLINES_MS.agent, logger);
  const closers = hooks.map((set, i) => ({ name: `hooks[${i}]`, stop: async () => set.close?.() }));
  await stopInReverse(closers, grace.signal, begun + STOP_DEADLINES_MS.hooks, logger);
  grace.clear();
}

/**
 * Opens the store before clients can connect, so that a broken store fails the start. An unavailable store is opened by
 * later requests; until then the server is not ready.
 */
async function openStoreOrWarn(agent: Agent, logger: Logger): Promise<void> {
  try {
    await agent.open();
  } catch (error) {
    if (!isUnavailable(error)) throw error;
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

/** Starts a transport. A third-party transport has a timeout, and its errors name it. */
async function startOne(
  transport: Transport,
  selected: Selected,
  agent: Agent,
  { loaded, startMs = START_TIMEOUT_MS }: ComposeOptions,
): Promise<Listening> {
  if (isBuiltIn("transport", selected.name)) return transport.start(agent);
  return startNamed(transport, agent, `${loaded.file}: ${selected.key}: ${selected.name}`, startMs);
}

/** Starts a third-party transport. Rejects with `AdapterError`, prefixed with `place`. */
export async function startNamed(
  transport: Transport,
  agent: Agent,
  place: string,
  startMs: number,
): Promise<Listening> {
  const starting = (async () => transport.start(agent))();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new AdapterError(`${place} did not start within ${startMs} ms`)), startMs);
  });
  try {
    const listening = await Promise.race([starting, late]);
    const fault = listeningFault(listening);
    if (fault === undefined) return listening;
    throw new AdapterError(`${place}: start resolved with no Listening: ${fault}`);
  } catch (error) {
    // If the transport starts after the failure, stop it.
    void starting.then((listening) => listening.stop(AbortSignal.abort())).catch(() => undefined);
    if (hasCode(error, "adapter")) throw error;
    throw new AdapterError(`${place} could not start: ${reasonOf(error)}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** Creates gantry's home folder with mode 0700, regardless of the umask. Throws `ConfigError`. */
export function createHome(home: string): void {
  try {
    createFolder(home);
    const { uid } = statSync(home);
    // Root would create files that the owner cannot open, and would run what the owner wrote.
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

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}
