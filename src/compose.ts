import "reflect-metadata";
import { chmod, mkdir } from "node:fs/promises";
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
} from "./adapter.js";
import { deadline } from "./abort.js";
import { Agent } from "./agent.js";
import { FileCatalogueCache } from "./catalogue-cache.js";
import { childEnvironment, environment, type Config, type LoadedConfig } from "./config.js";
import { AdapterError, ConfigError } from "./errors.js";
import { openHttpHost } from "./http-host.js";
import { isRecord } from "./json.js";
import { namedLogger } from "./log.js";
import { builtInNames, loadAdapter } from "./plugins.js";
import type { CompactionStrategy } from "./ports/compaction.js";
import type { Logger } from "./ports/logger.js";
import type { ModelProvider } from "./ports/model-provider.js";
import type { Tool } from "./ports/tool.js";
import type { HttpHost, Listening, Transport } from "./ports/transport.js";

export interface ComposeOptions {
  loaded: LoadedConfig;
  /** Absolute path. */
  home: string;
  /** The folder to work on; absolute path. */
  projectDir: string;
  logger: Logger;
}

/** What runs: built, started, and stopped in the reverse order. */
export interface Composition {
  readonly agent: Agent;
  readonly listening: readonly Listening[];
  /** Running work may finish for 2 s, then it is cancelled; resolves within 5 s whatever is open. Safe to call twice. */
  stop(): Promise<void>;
}

/** Running work may finish for so long, in ms. */
const GRACE_MS = 2_000;
/** A part that has not stopped by then, in ms from the start of the stop, is named in the log and left. */
const STOP_MS = 4_500;

/** Build what the config selects and start its transports. Whatever was started is stopped again when a later part fails. */
export async function compose(options: ComposeOptions): Promise<Composition> {
  const { loaded, home, projectDir, logger } = options;
  const { config } = loaded;
  await makeHome(home);
  const build = new Builder(options);
  const driver = await build.driver();
  const providers = await build.providers();
  const tools = await build.tools();
  const transports = await build.transports();
  const agent = new Agent({
    driver,
    providers,
    tools,
    projectDir,
    systemPrompt: config.agent.system_prompt,
    maxIterations: config.agent.max_iterations,
    maxConcurrentRuns: config.limits.concurrent_runs,
    toolOutputBytes: config.limits.tool_output_bytes,
    compaction: {
      enabled: config.compaction.enabled,
      strategy: await build.strategy(),
      threshold: config.compaction.threshold,
      keepMessages: config.compaction.keep_messages,
      contextWindow: config.compaction.context_window,
    },
    preferred: {
      provider: config.model.provider,
      model: config.model.model,
      reasoningEffort: config.model.reasoning_effort,
    },
    catalogue: new FileCatalogueCache(join(home, "models.json"), logger),
    logger,
  });
  const started: { name: string; listening: Listening }[] = [];
  const stop = once(async () => {
    const grace = deadline(GRACE_MS);
    agent.refuseNew();
    build.host?.refuseNew();
    const by = Date.now() + STOP_MS;
    await Promise.all(
      [...started].reverse().map(({ name, listening }) => within(name, listening.stop(grace.signal), by, logger)),
    );
    if (build.host) await within("the HTTP port", build.host.close(grace.signal), by, logger);
    await within("the agent", agent.close(), by, logger);
    grace.clear();
  });
  try {
    // Side by side: HTTP transports share a port that opens with the first of them.
    const outcomes = await Promise.allSettled(
      transports.map(async (transport) => {
        const listening = await transport.start(agent);
        started.push({ name: transport.name, listening });
        return listening;
      }),
    );
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    if (failed) throw failed.reason;
    return {
      agent,
      listening: outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : [])),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** From config to parts; each adapter sees its own options and nothing else. */
class Builder {
  readonly #options: ComposeOptions;
  readonly #config: Config;
  host: HttpHost | undefined;

  constructor(options: ComposeOptions) {
    this.#options = options;
    this.#config = options.loaded.config;
  }

  async driver() {
    const { driver, ...own } = this.#config.session;
    return this.#make("session-driver", driver, own, "session.driver", "session");
  }

  async providers(): Promise<ModelProvider[]> {
    const configured = this.#config.providers;
    const entries = configured.length > 0 ? configured : await this.#fromEnvironment();
    const providers = await Promise.all(
      entries.map((entry, i) => {
        const where = configured.length > 0 ? `providers[${i}]` : "providers";
        return this.#provider(entry, where);
      }),
    );
    const names = providers.map((provider) => provider.name);
    const twice = names.findIndex((name, i) => names.indexOf(name) !== i);
    if (twice !== -1)
      throw new ConfigError(
        `${this.#options.loaded.file}: providers[${twice}].name: expected a name of its own, got ${names[twice]} twice`,
      );
    return providers;
  }

  async #provider(entry: Record<string, unknown>, where: string): Promise<ModelProvider> {
    if (entry["provider"] === "offline") return this.#make("model-provider", "offline", entry, where, where);
    const { driver } = entry;
    const { WIRES } = await import("../adapters/ai-sdk-provider/presets.js");
    const isModule = typeof driver === "string" && !(WIRES as readonly string[]).includes(driver);
    if (isModule) return this.#make("model-provider", driver, entry, `${where}.driver`, where);
    return this.#make("model-provider", "ai-sdk", await this.#withKey(entry), `${where}.driver`, where);
  }

  /** A preset's key from its usual variable, where none is given. Never for an address of someone else. */
  async #withKey(entry: Record<string, unknown>): Promise<Record<string, unknown>> {
    const { provider, api_key, base_url } = entry;
    if (typeof provider !== "string" || api_key !== undefined || base_url !== undefined) return entry;
    const { findPreset } = await import("../adapters/ai-sdk-provider/presets.js");
    const preset = findPreset(provider);
    const key = [...(preset?.keyVariables ?? []), ...(preset?.sharedKeyVariables ?? [])]
      .map(environment)
      .find((value) => value !== undefined && value !== "");
    if (key === undefined) return entry;
    (this.#options.loaded.secrets as Set<string>).add(key);
    return { ...entry, api_key: key };
  }

  /** Presets whose usual key variable is set; else the built-in guide. */
  async #fromEnvironment(): Promise<Record<string, unknown>[]> {
    const { PRESETS } = await import("../adapters/ai-sdk-provider/presets.js");
    const found = PRESETS.flatMap((preset) => {
      const key = preset.keyVariables.map(environment).find((value) => value !== undefined && value !== "");
      if (key === undefined || preset.baseUrl === "") return [];
      (this.#options.loaded.secrets as Set<string>).add(key);
      return [{ provider: preset.id, api_key: key }];
    });
    return found.length > 0 ? found : [{ provider: "offline" }];
  }

  async tools(): Promise<Tool[]> {
    const { tools, agent, limits } = this.#config;
    const { builtinTools } = await import("./tools/all.js");
    const builtIn = builtinTools({
      allowPaths: tools.allow_paths,
      deniedPaths: this.#denied(),
      env: childEnvironment(tools.env),
      bash: tools.bash,
      outputBytes: limits.tool_output_bytes,
      webfetch: { allowPrivate: tools.webfetch.allow_private },
    });
    const chosen = new Map<string, Tool>();
    for (const [i, name] of agent.tools.entries()) {
      const found = name === "*" ? builtIn : builtIn.filter((tool) => tool.name === name);
      if (name === "bash" && !tools.bash.enabled) continue;
      const more =
        found.length > 0 || name === "*"
          ? found
          : [await this.#make("tool", name, {}, `agent.tools[${i}]`, `agent.tools[${i}]`)];
      for (const tool of more) chosen.set(tool.name, tool);
    }
    return [...chosen.values()];
  }

  /** A built-in strategy by its name, or one of a stranger. */
  async strategy(): Promise<string | CompactionStrategy> {
    const { strategy } = this.#config.compaction;
    if (builtInNames("compaction-strategy").includes(strategy)) return strategy;
    return this.#make("compaction-strategy", strategy, {}, "compaction.strategy", "compaction");
  }

  async transports(): Promise<Transport[]> {
    return Promise.all(
      this.#config.server.transports.map((entry, i) => {
        const where = `server.transports[${i}]`;
        const { transport: name, ...own } = typeof entry === "string" ? { transport: entry } : entry;
        return this.#make("transport", name, { ...this.#shared(name), ...own }, where, where);
      }),
    );
  }

  /** What the shipped transports get from sections of the config that are not theirs alone. */
  #shared(name: string): Record<string, unknown> {
    const { server, acp, limits, tools } = this.#config;
    const { host, port, allowed_hosts, allow_cross_site, insecure } = server;
    const place = { host, port, allowed_hosts, allow_cross_site, insecure };
    const { streams, connections, json_depth, frame_bytes } = limits;
    if (name === "koa-http-api") {
      const { required_headers, headers, max_body_bytes, on_disconnect } = server;
      return {
        ...place,
        required_headers,
        headers,
        max_body_bytes,
        on_disconnect,
        limits: { streams, json_depth },
        allow_paths: tools.allow_paths,
        denied_paths: this.#denied(),
      };
    }
    if (name === "acp-http-sse-ws")
      return {
        ...place,
        ...acp,
        max_body_bytes: server.max_body_bytes,
        limits: { streams, connections, json_depth, frame_bytes },
      };
    if (name === "acp-stdio") {
      const { profile, official_clients, auth_methods, request_permission } = acp;
      return { profile, official_clients, auth_methods, request_permission, limits: { json_depth, frame_bytes } };
    }
    return {};
  }

  /** What no tool and no attachment may touch: gantry's own home, with keys and sessions, and a store elsewhere. */
  #denied(): string[] {
    const { path } = this.#config.session;
    return [this.#options.home, ...(typeof path === "string" && path !== "" ? [path] : [])];
  }

  #httpHost(): HttpHost {
    const { server, limits } = this.#config;
    this.host ??= openHttpHost({
      host: server.host,
      port: server.port,
      insecure: server.insecure,
      allowedHosts: server.allowed_hosts,
      allowCrossSite: server.allow_cross_site,
      connections: limits.connections,
      headerTimeout: limits.header_timeout,
      requestTimeout: limits.request_timeout,
      keepAliveTimeout: limits.keep_alive_timeout,
      logger: namedLogger(this.#options.logger, "http"),
    });
    return this.host;
  }

  async #make<Kind extends AdapterKind>(
    kind: Kind,
    name: string,
    raw: Record<string, unknown>,
    where: string,
    section: string,
  ): Promise<AdapterKinds[Kind]> {
    const { loaded, home, projectDir, logger } = this.#options;
    const descriptor = await loadAdapter(kind, name, loaded.folder, `${loaded.file}: ${where}`);
    const options = descriptor.parse(raw, {
      where: `${loaded.file}: ${section}`,
      configDir: loaded.folder,
      home,
      projectDir,
    });
    const child = container.createChildContainer();
    child.registerInstance(OPTIONS, options);
    child.registerInstance(LOGGER, namedLogger(logger, descriptor.name));
    child.registerInstance(HOME, home);
    // Only who asks for the port makes one.
    if (kind === "transport") child.register(HTTP_HOST, { useFactory: () => this.#httpHost() });
    return construct(child, descriptor, `${loaded.file}: ${where}`);
  }
}

function construct<Kind extends AdapterKind>(
  child: DependencyContainer,
  descriptor: AdapterDescriptor<Kind>,
  where: string,
): AdapterKinds[Kind] {
  const { use } = descriptor;
  const tokens: unknown = Reflect.getOwnMetadata("injectionTokens", use) ?? {};
  // A parameter without @inject would silently be undefined.
  if (use.length > 0 && (!isRecord(tokens) || Object.keys(tokens).length !== use.length)) {
    throw new AdapterError(
      `${where}: ${descriptor.name}: every parameter of the constructor of ${use.name} needs @inject(TOKEN)`,
    );
  }
  try {
    return child.resolve(use as new (...args: unknown[]) => AdapterKinds[Kind]);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const message = error instanceof Error ? (error.message.split("\n").at(-1) ?? "").trim() : String(error);
    const why = message.startsWith("TypeInfo not known")
      ? `the class ${use.name} needs @injectable() from "gantry"`
      : message;
    throw new AdapterError(`${where}: ${descriptor.name} could not be built: ${why}`, { cause: error });
  }
}

/** 0700, whatever the umask. */
async function makeHome(home: string): Promise<void> {
  try {
    await mkdir(home, { recursive: true, mode: 0o700 });
    await chmod(home, 0o700);
  } catch (error) {
    throw new ConfigError(
      `${home}: gantry's home folder cannot be made (${(error as NodeJS.ErrnoException).code ?? "unknown"})`,
      { cause: error },
    );
  }
}

/** Waits for a part to stop, but not for ever. Never rejects. */
async function within(name: string, stopping: Promise<void>, by: number, logger: Logger): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(
      () => {
        logger.error(`${name} did not stop in time and is left behind`);
        resolve();
      },
      Math.max(0, by - Date.now()),
    );
  });
  await Promise.race([
    stopping.catch((error: unknown) => logger.error(`${name} failed while stopping`, { error })),
    late,
  ]);
  clearTimeout(timer);
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}
