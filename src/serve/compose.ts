import { chmodSync, statSync } from "node:fs";
import { deadline } from "../base/abort.js";
import { createFolder } from "../base/create-folder.js";
import type { Agent } from "../agent/agent.js";
import { HTTP_HOST } from "../plugin/adapter.js";
import { AdapterError, ConfigError, GantryError, hasCode } from "../ports/errors.js";
import { isAway, quietInOutage } from "../sessions/outage.js";
import type { HookSet } from "../ports/hooks.js";
import type { HttpHost } from "../ports/http-host.js";
import type { Logger } from "../ports/logger.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Listening, Transport } from "../plugin/transport.js";
import { createContainer, type Parts } from "./container.js";
import { listeningFault } from "./port-check.js";
import { isBuiltIn } from "./plugins.js";
import { reasonOf, type Selected } from "./selected-adapters.js";
import { Closing, stopInReverse, within, type Started } from "./shutdown.js";
import { AGENT, HOOKS, MODEL_PROVIDERS, SESSION_DRIVER, TOOLS, TRANSPORTS, type SelectedTransport } from "./tokens.js";

export interface ComposeOptions extends Parts {
  /** An agent for this process alone: no transport is started, and the store is opened when it is needed. */
  alone?: boolean;
  /** How long a stranger's transport may take to start, in ms. Default 10,000. */
  startMs?: number;
}

/** A transport that was started. */
export interface Served extends Listening {
  /** As the transport calls itself. */
  readonly transport: string;
}

interface ServedPart extends Started {
  readonly served: Served;
}

/** What runs: built, started, and stopped in the reverse order. */
export interface Composition {
  readonly agent: Agent;
  /** Names of the model providers, in order of preference. */
  readonly providers: readonly string[];
  readonly listening: readonly Served[];
  /** Say in the log what it takes a process to find out, the sandbox of commands; for when clients can connect. */
  tell(): Promise<void>;
  /** Running work may finish for 2 s, then it is cancelled; resolves within 5 s whatever is open. Safe to call twice. */
  stop(): Promise<void>;
}

const START_MS = 10_000;
/** Running work may finish for so long, in ms. */
const GRACE_MS = 2_000;
/** A part that has not stopped by then, in ms from the start of the stop, is named in the log and left. */
const STOP_MS = { transports: 3_800, port: 4_000, agent: 4_600, hooks: 4_900 };

/**
 * Build what the config selects and start its transports. A stranger's transport that cannot start is told in the log
 * and the others go on without it; whatever else fails stops what was started.
 */
export async function compose(options: ComposeOptions): Promise<Composition> {
  try {
    return await build(options);
  } catch (error) {
    // What an adapter refuses it may quote, and a key may stand where something else is expected.
    if (error instanceof GantryError) error.message = options.loaded.hide(error.message);
    throw error;
  }
}

async function build(given: ComposeOptions): Promise<Composition> {
  const options = { ...given, logger: quietInOutage(given.logger) };
  const { loaded, home, logger } = options;
  makeHome(home);
  const container = createContainer(options);
  const [agent, transports, driver, providers, hooks] = await Promise.all([
    container.resolve(AGENT),
    options.alone === true ? [] : container.resolve(TRANSPORTS),
    container.resolve(SESSION_DRIVER),
    container.resolve(MODEL_PROVIDERS),
    container.resolve(HOOKS),
  ]);
  const closing = new Closing();
  closing.watch(`the session driver ${loaded.config.session.driver}`, driver);
  for (const provider of providers) closing.watch(`the provider ${provider.name}`, provider);
  const started: ServedPart[] = [];
  let sandboxLog: Promise<void> | undefined;
  const stop = once(async () => {
    // A log line that has not been begun is left out.
    sandboxLog ??= Promise.resolve();
    const host = container.isRegistered(HTTP_HOST) ? container.resolve(HTTP_HOST) : undefined;
    await stopAll({ agent, host, started, closing, hooks, logger });
    await sandboxLog;
  });
  try {
    if (options.alone !== true) await openNow(agent, logger);
    await startAll(transports, agent, options, started);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    agent,
    providers: providers.map(({ name }) => name),
    listening: started.map(({ served }) => served),
    tell: () => (sandboxLog ??= container.resolve(TOOLS).then((tools) => tools.logSandbox())),
    stop,
  };
}

/** Start transports at the same time: HTTP transports share a port that opens with the first of them. */
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
    options.logger.error(`${error.message}; the others go on without it`, { error: error.cause });
}

interface Stopping {
  readonly agent: Agent;
  readonly host: HttpHost | undefined;
  readonly started: readonly Started[];
  readonly closing: Closing;
  readonly hooks: readonly HookSet[];
  readonly logger: Logger;
}

/** Stops in reverse order: transports, the port, the agent, hooks, which see the end of the last run. Never rejects. */
async function stopAll({ agent, host, started, closing, hooks, logger }: Stopping): Promise<void> {
  const begun = Date.now();
  const grace = deadline(GRACE_MS);
  agent.refuseNew();
  host?.refuseNew();
  await stopInReverse(started, grace.signal, begun + STOP_MS.transports, logger);
  const closePort = async () => host?.close(grace.signal);
  await within(() => "the HTTP port", closePort, begun + STOP_MS.port, logger);
  const late = () => (closing.names.length > 0 ? closing.names.join(" and ") : "the agent");
  await within(late, () => agent.close(), begun + STOP_MS.agent, logger);
  const closers = hooks.map((set, i) => ({ name: `hooks[${i}]`, stop: async () => set.close?.() }));
  await stopInReverse(closers, grace.signal, begun + STOP_MS.hooks, logger);
  grace.clear();
}

/**
 * Before anybody can connect: a store that cannot be opened must not be found out by a user. One that is away comes back
 * by itself, and is opened for whoever asks then; until then it is not ready.
 */
async function openNow(agent: Agent, logger: Logger): Promise<void> {
  try {
    await agent.open();
  } catch (error) {
    if (!isAway(error)) throw error;
    logger.warn("serving without the session store, which is opened when it can be reached", { error });
  }
}

/** The configured store alone, opened; whoever asks for it closes it. */
export async function openStore(options: ComposeOptions): Promise<SessionDriver> {
  makeHome(options.home);
  const driver = await createContainer(options).resolve(SESSION_DRIVER);
  await driver.open();
  return driver;
}

/** A stranger's transport is named in what it is refused for, and does not keep the others waiting for ever. */
async function startOne(
  transport: Transport,
  selected: Selected,
  agent: Agent,
  { loaded, startMs = START_MS }: ComposeOptions,
): Promise<Listening> {
  if (isBuiltIn("transport", selected.name)) return transport.start(agent);
  return startNamed(transport, agent, `${loaded.file}: ${selected.key}: ${selected.name}`, startMs);
}

/** Start a transport of a third party. Rejects with an `AdapterError` that begins with `place`. */
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
    // Should it come up after all, it is not wanted any more.
    void starting.then((listening) => listening.stop(AbortSignal.abort())).catch(() => undefined);
    if (hasCode(error, "adapter")) throw error;
    throw new AdapterError(`${place} could not start: ${reasonOf(error)}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** 0700, whatever the umask. Throws `ConfigError`. */
export function makeHome(home: string): void {
  try {
    createFolder(home);
    const { uid } = statSync(home);
    // Root may do everything there, and would leave files that the owner cannot open, and run what the owner wrote.
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
