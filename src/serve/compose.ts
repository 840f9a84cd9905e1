import "reflect-metadata";
import { chmod, mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { container, type DependencyContainer } from "tsyringe";
import {
  HOME,
  HTTP_HOST,
  LOGGER,
  OPTIONS,
  type AdapterDescriptor,
  type AdapterKind,
  type AdapterKinds,
  type OptionsContext,
} from "../plugin/adapter.js";
import { deadline } from "../base/abort.js";
import { Agent } from "../agent.js";
import { FileCatalogueCache } from "../models/catalogue-cache.js";
import { childEnvironment, type LoadedConfig } from "./config.js";
import { AdapterError, ConfigError, GantryError, hasCode } from "../ports/errors.js";
import { openHttpHost } from "../http/http-host.js";
import { isRecord } from "../base/json.js";
import { namedLogger } from "../base/log.js";
import { isBuiltIn, loadAdapter, missingMembers } from "./plugins.js";
import type { CompactionStrategy } from "../ports/compaction-strategy.js";
import type { Logger } from "../ports/logger.js";
import type { ModelProvider } from "../ports/model-provider.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Tool } from "../ports/tool.js";
import type { HttpHost } from "../ports/http-host.js";
import type { Listening, Transport } from "../plugin/transport.js";
import { Redactor } from "../base/redact.js";
import { Selection, type Selected } from "./selected-adapters.js";
import type { SandboxOptions } from "../tools/sandbox.js";
import { Closing, stopInReverse, within, type Started } from "./shutdown.js";

export interface ComposeOptions {
  loaded: LoadedConfig;
  /** Absolute path. */
  home: string;
  /** The folder to work on; absolute path. */
  projectDir: string;
  logger: Logger;
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

async function build(options: ComposeOptions): Promise<Composition> {
  const { loaded, home, projectDir, logger } = options;
  const { config } = loaded;
  await makeHome(home);
  const builder = new Builder(options);
  const closing = new Closing();
  // Side by side, since each waits for its own modules to be read; nothing is opened yet.
  const [made, providers, tools, transports, strategy] = await Promise.all([
    builder.driver(),
    builder.providers(),
    builder.tools(),
    builder.transports(),
    builder.strategy(),
  ]);
  const driver = closing.watch(`the session driver ${config.session.driver}`, made);
  for (const provider of providers) closing.watch(`the provider ${provider.name}`, provider);
  const agent = new Agent({
    driver,
    providers,
    tools,
    projectDir,
    systemPrompt: config.agent.system_prompt,
    projectInstructions: config.agent.project_instructions,
    deniedPaths: builder.denied(),
    maxIterations: config.agent.max_iterations,
    maxConcurrentRuns: config.limits.concurrent_runs,
    maxAttachedBytes: config.limits.attached_bytes,
    toolOutputBytes: config.limits.tool_output_bytes,
    compaction: {
      enabled: config.compaction.enabled,
      strategy,
      threshold: config.compaction.threshold,
      keepMessages: config.compaction.keep_messages,
      contextWindow: config.compaction.context_window,
    },
    preferred: {
      provider: config.model.provider,
      model: config.model.model,
      reasoningEffort: config.model.reasoning_effort,
    },
    catalogueRefreshMs: config.catalogue.refresh * 1000,
    catalogue: new FileCatalogueCache(join(home, "models.json"), logger),
    logger,
  });
  let told: Promise<void> | undefined;
  const started: (Started & { served: Served })[] = [];
  const stop = once(async () => {
    const begun = Date.now();
    const grace = deadline(GRACE_MS);
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
    // Before anybody can connect: a store that cannot be opened must not be found out by a user.
    await agent.open();
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

/** The configured store alone, opened; whoever asks for it closes it. */
export async function openStore(options: ComposeOptions): Promise<SessionDriver> {
  await makeHome(options.home);
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

/** From config to parts; each adapter sees its own options and nothing else. */
class Builder {
  readonly #options: ComposeOptions;
  readonly #selection: Selection;
  #tellSandbox: (() => Promise<void>) | undefined;
  host: HttpHost | undefined;

  constructor(options: ComposeOptions) {
    this.#options = options;
    this.#selection = new Selection(options.loaded, options.home);
  }

  /** What nobody may touch. */
  denied(): string[] {
    return this.#selection.denied();
  }

  async driver(): Promise<SessionDriver> {
    return this.#make(this.#selection.driver());
  }

  async providers(): Promise<ModelProvider[]> {
    const selected = await this.#selection.providers();
    const providers = await Promise.all(selected.map((one) => this.#make(one)));
    const names = providers.map((provider) => provider.name);
    const twice = names.findIndex((name, i) => names.indexOf(name) !== i);
    if (twice !== -1)
      throw new ConfigError(
        `${this.#options.loaded.file}: providers[${twice}].name: expected a name of its own, got ${names[twice]} twice`,
      );
    return providers;
  }

  async tools(): Promise<Tool[]> {
    const { loaded, home, logger } = this.#options;
    const { tools } = loaded.config;
    const [{ builtinTools }, { withoutSecrets }] = await Promise.all([
      import("../tools/all.js"),
      import("../tools/hidden.js"),
    ]);
    if (tools.bash.sandbox === "off" && tools.bash.network === false)
      throw new ConfigError(
        `${loaded.file}: tools.bash.network: expected a sandbox, which alone can close it, got tools.bash.sandbox "off"`,
      );
    const rules = {
      allowPaths: this.#selection.allowPaths(),
      deniedPaths: this.#selection.denied(),
      readOnlyPaths: this.#selection.readOnly(builtinTools().map(({ name }) => name)),
      protectedPaths: tools.protected_paths,
      env: childEnvironment(tools.env),
    };
    const builtIn = builtinTools({
      ...rules,
      secrets: loaded.secrets,
      bash: { ...tools.bash, scratchPath: join(home, "tmp") },
      webfetch: { allowPrivate: tools.webfetch.allow_private },
    });
    const redactor = new Redactor(() => loaded.secrets);
    const chosen = new Map<string, Tool>();
    for (const selected of this.#selection.tools(builtIn.map(({ name }) => name))) {
      const tool =
        typeof selected === "string"
          ? builtIn.find(({ name }) => name === selected)
          : withoutSecrets(await this.#make(selected), redactor);
      if (tool) chosen.set(tool.name, tool);
    }
    if (chosen.has("bash")) this.#tellSandbox = () => tellSandbox({ ...rules, ...tools.bash }, logger);
    return [...chosen.values()];
  }

  /** Say what commands run in; never rejects. */
  async tellSandbox(): Promise<void> {
    try {
      await this.#tellSandbox?.();
    } catch (error) {
      // Clients are served already; the first command says so again, to the model.
      this.#options.logger.warn("it could not be found out what commands run in", { error });
    }
  }

  async strategy(): Promise<string | CompactionStrategy> {
    const strategy = this.#selection.strategy();
    return typeof strategy === "string" ? strategy : this.#make(strategy);
  }

  async transports(): Promise<{ transport: Transport; selected: Selected }[]> {
    return Promise.all(
      this.#selection.transports().map(async (selected) => ({ transport: await this.#make(selected), selected })),
    );
  }

  #httpHost(): HttpHost {
    const { server, limits } = this.#options.loaded.config;
    this.host ??= openHttpHost({
      host: server.host,
      port: server.port,
      insecure: server.insecure,
      requiredHeaders: server.required_headers,
      allowedHosts: server.allowed_hosts,
      allowCrossSite: server.allow_cross_site,
      allowLoopbackPages: server.allow_loopback_pages,
      allowOtherUsers: server.allow_other_users,
      connections: limits.connections,
      streams: limits.streams,
      headerTimeout: limits.header_timeout,
      requestTimeout: limits.request_timeout,
      keepAliveTimeout: limits.keep_alive_timeout,
      remedy: ({ prefix }) => remedy(prefix === "/" && this.#selection.servesAcp() ? "acp" : "server"),
      logger: namedLogger(this.#options.logger, "http"),
    });
    return this.host;
  }

  async #make<Kind extends AdapterKind>(selected: Selected<Kind>): Promise<AdapterKinds[Kind]> {
    const { loaded, home, projectDir, logger } = this.#options;
    const where = `${loaded.file}: ${selected.key}`;
    const descriptor = await loadAdapter(selected.kind, selected.name, loaded.folder, where);
    const context = { where: `${loaded.file}: ${selected.section}`, configDir: loaded.folder, home, projectDir };
    const options = parseOptions(descriptor, selected, context);
    const child = container.createChildContainer();
    child.registerInstance(OPTIONS, options);
    child.registerInstance(LOGGER, namedLogger(logger, descriptor.name));
    child.registerInstance(HOME, home);
    // Only who asks for the port makes one.
    if (selected.kind === "transport") child.register(HTTP_HOST, { useFactory: () => this.#httpHost() });
    const part = construct(child, descriptor, where);
    const missing = missingMembers(selected.kind, part);
    if (missing.length === 0) return part;
    throw new AdapterError(`${where}: ${selected.name} is no ${selected.kind}: ${missing.join(", ")} is missing`);
  }
}

function remedy(section: "acp" | "server"): { authenticate: string; listen: string } {
  const authenticate = `${section}.required_headers`;
  return { authenticate, listen: `set ${authenticate} in the config, or server.insecure: true (--insecure)` };
}

async function tellSandbox(options: SandboxOptions, logger: Logger): Promise<void> {
  const { Sandbox } = await import("../tools/sandbox.js");
  const { text, weak } = await new Sandbox(options).describe();
  if (weak && options.sandbox !== "off") logger.warn(text);
  else logger.info(text);
}

/** The adapter's own check of its options; of a stranger's module the message also says whose they are. */
function parseOptions<Kind extends AdapterKind>(
  descriptor: AdapterDescriptor<Kind>,
  { kind, name, options }: Selected,
  context: OptionsContext,
): unknown {
  try {
    return descriptor.parse(options, context);
  } catch (error) {
    if (isBuiltIn(kind, name)) throw error;
    const message = reasonOf(error);
    const place = message.startsWith(context.where) ? "" : `${context.where}: `;
    throw new ConfigError(`${place}${message}${message.includes(name) ? "" : ` (an option of ${name})`}`, {
      cause: error,
    });
  }
}

function construct<Kind extends AdapterKind>(
  child: DependencyContainer,
  descriptor: AdapterDescriptor<Kind>,
  where: string,
): AdapterKinds[Kind] {
  const { use, needs } = descriptor;
  const tokens: unknown = Reflect.getOwnMetadata("injectionTokens", use) ?? {};
  // A parameter without a token would silently be undefined.
  const told = (i: number) => (needs ? i < needs.length : isRecord(tokens) && i in tokens);
  if (!Array.from({ length: use.length }, (_, i) => told(i)).every(Boolean)) {
    throw new AdapterError(
      `${where}: ${descriptor.name}: every parameter of the constructor of ${use.name} needs @inject(TOKEN), ` +
        "or a token in `needs` of its descriptor",
    );
  }
  try {
    if (!needs) return child.resolve(use as new (...args: unknown[]) => AdapterKinds[Kind]);
    const parts = needs.map((token): unknown => child.resolve(token));
    return new (use as new (...args: unknown[]) => AdapterKinds[Kind])(...parts);
  } catch (error) {
    if (hasCode(error, "config")) throw error;
    const message = reasonOf(error);
    const why = message.startsWith("TypeInfo not known")
      ? `the class ${use.name} needs @injectable() from "gantry"`
      : message;
    throw new AdapterError(`${where}: ${descriptor.name} could not be built: ${why}`, { cause: error });
  }
}

/** Messages of the container have several lines, of which the last says why. */
function reasonOf(error: unknown): string {
  return error instanceof Error ? (error.message.split("\n").at(-1) ?? "").trim() : String(error);
}

/** 0700, whatever the umask. */
async function makeHome(home: string): Promise<void> {
  try {
    await mkdir(home, { recursive: true, mode: 0o700 });
    const { uid } = await stat(home);
    // Root may do everything there, and would leave files that the owner cannot open, and run what the owner wrote.
    if (process.getuid?.() === 0 && uid !== 0)
      throw new ConfigError(
        `${home}: gantry's home folder belongs to another user (${uid}), and this is root; run as that user, or set GANTRY_HOME`,
      );
    await chmod(home, 0o700);
  } catch (error) {
    if (hasCode(error, "config")) throw error;
    throw new ConfigError(
      `${home}: gantry's home folder cannot be made (${(error as NodeJS.ErrnoException).code ?? "unknown"})`,
      { cause: error },
    );
  }
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}
