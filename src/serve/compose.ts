import { chmodSync, statSync } from "node:fs";
import { join } from "node:path";
import { deadline } from "../base/abort.js";
import { createFolder } from "../base/create-folder.js";
import { Agent } from "../agent.js";
import { FileCatalogueCache } from "../models/catalogue-cache.js";
import { AdapterError, ConfigError, GantryError, hasCode } from "../ports/errors.js";
import { isAway, quietInOutage } from "../sessions/outage.js";
import type { Logger } from "../ports/logger.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Listening, Transport } from "../plugin/transport.js";
import { Builder, type Parts } from "./builder.js";
import { isBuiltIn } from "./plugins.js";
import { reasonOf, type Selected } from "./selected-adapters.js";
import { Closing, stopInReverse, within, type Started } from "./shutdown.js";

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
const STOP_MS = { transports: 3_800, port: 4_000, agent: 4_600 };

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
  const logger = quietInOutage(given.logger);
  const options = { ...given, logger };
  const { loaded, home, projectDir } = options;
  const { config } = loaded;
  makeHome(home);
  const builder = new Builder(options);
  const closing = new Closing();
  // Side by side, since each waits for its own modules to be read; nothing is opened yet.
  const [made, providers, tools, transports, strategy, policies] = await Promise.all([
    builder.driver(),
    builder.providers(),
    builder.tools(),
    options.alone === true ? [] : builder.transports(),
    builder.strategy(),
    builder.policies(),
  ]);
  const driver = closing.watch(`the session driver ${config.session.driver}`, made);
  for (const provider of providers) closing.watch(`the provider ${provider.name}`, provider);
  const { mode, rules, unattended, timeout, clientGrace } = config.permissions;
  // Which rules mean nothing nobody can say without them.
  if (rules.length > 0) builder.tellRules(await tools());
  const agent = new Agent({
    driver,
    providers,
    projectDir,
    ...config.agent,
    tools,
    ...(builder.toolServers && { toolServers: builder.toolServers }),
    permissions: policies,
    // Who checks them is loaded with them.
    ...(rules.length > 0 && { rules }),
    mode,
    unattended,
    askTimeout: timeout,
    clientGrace,
    deniedPaths: builder.denied(),
    fileHistory: builder.fileHistory(),
    home,
    commandFolders: [join(home, "commands")],
    concurrentRuns: config.limits.concurrentRuns,
    attachedBytes: config.limits.attachedBytes,
    toolOutputBytes: config.limits.toolOutputBytes,
    budget: config.limits.budget,
    sessionBudget: config.limits.sessionBudget,
    ...(config.limits.unknownPrice && { unknownPrice: config.limits.unknownPrice }),
    compaction: { ...config.compaction, strategy },
    model: config.model,
    catalogueRefresh: config.catalogue.refresh === false ? 0 : config.catalogue.refresh,
    catalogue: new FileCatalogueCache(join(home, "models.json"), logger),
    logger,
  });
  let told: Promise<void> | undefined;
  const started: (Started & { served: Served })[] = [];
  const stop = once(async () => {
    const begun = Date.now();
    const grace = deadline(GRACE_MS);
    // What was not begun by now is told nobody.
    told ??= Promise.resolve();
    agent.refuseNew();
    builder.host?.refuseNew();
    await stopInReverse(started, grace.signal, begun + STOP_MS.transports, logger);
    const { host } = builder;
    if (host)
      await within(
        () => "the HTTP port",
        () => host.close(grace.signal),
        begun + STOP_MS.port,
        logger,
      );
    const late = () => (closing.names.length > 0 ? closing.names.join(" and ") : "the agent");
    await within(late, () => agent.close(), begun + STOP_MS.agent, logger);
    await told;
    grace.clear();
  });
  try {
    if (options.alone !== true) await openNow(agent, logger);
    // Side by side: HTTP transports share a port that opens with the first of them.
    const outcomes = await Promise.allSettled(
      transports.map(({ transport, selected }) => startOne(transport, selected, agent, options)),
    );
    const strangers: Error[] = [];
    let failed: PromiseRejectedResult | undefined;
    outcomes.forEach((outcome, i) => {
      const { name } = transports[i]?.selected ?? { name: "" };
      if (outcome.status === "fulfilled") {
        const { address, ended } = outcome.value;
        const stop = (signal: AbortSignal) => outcome.value.stop(signal);
        const transport = transports[i]?.transport.name ?? name;
        started.push({ name: `the transport ${name}`, served: { transport, address, ended, stop }, stop });
      } else if (isBuiltIn("transport", name)) failed ??= outcome;
      else strangers.push(outcome.reason as Error);
    });
    if (failed) throw failed.reason;
    const [first] = strangers;
    if (started.length === 0 && first) throw first;
    for (const error of strangers)
      logger.error(`${error.message}; the others go on without it`, { error: error.cause });
    return {
      agent,
      providers: providers.map(({ name }) => name),
      listening: started.map(({ served }) => served),
      tell: () => (told ??= builder.tellSandbox()),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
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
  const driver = await new Builder(options).driver();
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
  const where = `${loaded.file}: ${selected.key}: ${selected.name}`;
  const starting = (async () => transport.start(agent))();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new AdapterError(`${where} did not start within ${startMs} ms`)), startMs);
  });
  try {
    return await Promise.race([starting, late]);
  } catch (error) {
    // Should it come up after all, it is not wanted any more.
    void starting.then((listening) => listening.stop(AbortSignal.abort())).catch(() => undefined);
    if (hasCode(error, "adapter")) throw error;
    throw new AdapterError(`${where} could not start: ${reasonOf(error)}`, { cause: error });
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
