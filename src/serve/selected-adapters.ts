import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { AdapterKind } from "../plugin/adapter.js";
import { ConfigError } from "../ports/errors.js";
import { configOptions, type Config } from "./config-options.js";
import type { LoadedConfig } from "./config.js";
import { getEnvironmentVariable } from "./environment.js";
import { isModulePath } from "./module-name.js";
import { listBuiltInNames, isBuiltIn } from "./plugins.js";

const BUILT_IN_KINDS: readonly AdapterKind[] = ["transport", "session-driver", "model-provider"];

/** An adapter that the config selects, and its options. */
export interface SelectedAdapter<Kind extends AdapterKind = AdapterKind> {
  readonly kind: Kind;
  /** Built-in name, package name, or path relative to the config's folder. */
  readonly name: string;
  /** Options in the adapter's own config entry. */
  readonly options: Readonly<Record<string, unknown>>;
  /**
   * Options of shared config sections. A key of the adapter's schema takes its value from them unless `options`
   * contains the key.
   */
  readonly sharedOptions?: Readonly<Record<string, unknown>>;
  /** Config key that names the adapter: `server.transports[0]`. */
  readonly key: string;
  /** Config key of the adapter's options. */
  readonly section: string;
}

/** Options of the shared HTTP listener, which a single transport cannot set. */
const {
  required_headers: _requiredHeaders,
  max_body_bytes: _maxBodyBytes,
  transports: _transports,
  ...LISTENER_OPTIONS
} = configOptions.entries.server.entries;

/** The adapters that a config selects. This class loads none of them. */
export class Selection {
  readonly #loadedConfig: LoadedConfig;
  readonly #config: Config;
  readonly #home: string;

  constructor(loadedConfig: LoadedConfig, home: string) {
    this.#loadedConfig = loadedConfig;
    this.#config = loadedConfig.config;
    this.#home = home;
  }

  driver(): SelectedAdapter<"session-driver"> {
    const { driver } = this.#config.session;
    const { driver: _driver, rewind: _rewind, worktrees: _worktrees, ...options } = this.#rawSection("session");
    return { kind: "session-driver", name: driver, options, key: "session.driver", section: "session" };
  }

  /** Returns the configured providers. Default: the presets whose key variable is set, otherwise the offline guide. */
  async providers(): Promise<SelectedAdapter<"model-provider">[]> {
    const configuredEntries = this.#config.providers;
    const hasConfiguredEntries = configuredEntries.length > 0;
    const entries = hasConfiguredEntries ? configuredEntries : await this.#presetsFromEnvironment();
    return Promise.all(
      entries.map((entry, i) => this.#selectProvider(entry, hasConfiguredEntries ? `providers[${i}]` : "providers")),
    );
  }

  /** Returns names of built-in tools and selected third-party modules, in the order of the config. */
  tools(builtInNames: readonly string[]): (string | SelectedAdapter<"tool" | "tool-source">)[] {
    const { agent, tools } = this.#config;
    return agent.tools.flatMap((entry, i): (string | SelectedAdapter<"tool" | "tool-source">)[] => {
      const { name, options } = moduleOf(entry, "tool");
      const key = `agent.tools[${i}]`;
      if (name === "*") return [...builtInNames];
      if (name === "bash" && !tools.bash.enabled) return [];
      if (!builtInNames.includes(name)) return [{ kind: "tool", name, options, key, section: key }];
      const [unknownKey] = Object.keys(options);
      if (unknownKey === undefined) return [name];
      throw new ConfigError(
        `${this.#loadedConfig.file}: ${key}.${unknownKey}: unknown key; expected one of tool (options of built-in tools belong under tools)`,
      );
    });
  }

  policies(): SelectedAdapter<"permission-policy">[] {
    return this.#config.permissions.policies.map((entry, i) => {
      const key = `permissions.policies[${i}]`;
      return { kind: "permission-policy", ...moduleOf(entry, "policy"), key, section: key };
    });
  }

  /** The configured hooks, then the webhooks if there are any. */
  hooks(): SelectedAdapter<"hooks">[] {
    const { webhooks } = this.#config.server;
    const selectedHooks = this.#config.hooks.map((entry, i): SelectedAdapter<"hooks"> => {
      const key = `hooks[${i}]`;
      return { kind: "hooks", ...moduleOf(entry, "hook"), key, section: key };
    });
    const [name, key, section] = ["webhooks", "server.webhooks", "server"];
    if (webhooks.length > 0) selectedHooks.push({ kind: "hooks", name, options: { webhooks }, key, section });
    return selectedHooks;
  }

  /** The telemetry; undefined without its section. */
  telemetry(): SelectedAdapter<"hooks"> | undefined {
    if (this.#loadedConfig.rawConfig["telemetry"] === undefined) return undefined;
    const [name, options] = ["telemetry", this.#rawSection("telemetry")];
    return { kind: "hooks", name, options, key: name, section: name };
  }

  /** A built-in strategy by name, or a selected third-party module. */
  strategy(): string | SelectedAdapter<"compaction-strategy"> {
    const { strategy: name } = this.#config.compaction;
    if (listBuiltInNames("compaction-strategy").includes(name)) return name;
    return { kind: "compaction-strategy", name, options: {}, key: "compaction.strategy", section: "compaction" };
  }

  transports(): SelectedAdapter<"transport">[] {
    const keysByName = new Map<string, string>();
    return this.#config.server.transports.flatMap((entry, i): SelectedAdapter<"transport">[] => {
      const key = `server.transports[${i}]`;
      const { name, options: transportOptions } = moduleOf(entry, "transport");
      this.#checkTransportOptions(name, transportOptions, key);
      const earlierKey = keysByName.get(name);
      if (earlierKey !== undefined && isBuiltIn("transport", name))
        throw new ConfigError(
          `${this.#loadedConfig.file}: ${key}: expected each transport once, ${name} is ${earlierKey} too`,
        );
      keysByName.set(name, key);
      if (name === "web-console" && !this.#config.server.console) return [];
      const sharedOptions = this.#sharedOptionsFor(name);
      return [{ kind: "transport", name, options: transportOptions, sharedOptions, key, section: key }];
    });
  }

  /** Whether ACP is served on the HTTP port, which includes all paths that no other transport serves. */
  servesAcp(): boolean {
    return this.transports().some(({ name }) => name === "acp-http-sse-ws");
  }

  /**
   * Returns the absolute paths that tools, commands, prompts and attachments must not access. Not all of them exist.
   *
   * - gantry's home folder, with keys and sessions.
   * - The config file.
   * - A store outside the home folder, with its companion files.
   */
  deniedPaths(): string[] {
    const { path } = this.#rawSection("session");
    const storePath = typeof path === "string" && path !== "" ? resolve(this.#loadedConfig.folder, path) : undefined;
    const fileSuffixes = ["", "-wal", "-shm", "-journal", "-reserve", ".d"];
    return [
      this.#home,
      this.#loadedConfig.file,
      ...(storePath === undefined ? [] : fileSuffixes.map((suffix) => storePath + suffix)),
    ];
  }

  /**
   * Returns the folder of the sessions' worktrees. It lies outside of gantry's home folder, which sessions must not
   * reach. Relative paths start at the config's folder.
   */
  worktreeFolder(): string {
    const { worktrees } = this.#config.session;
    return worktrees === "" ? `${this.#home}-worktrees` : resolve(this.#loadedConfig.folder, worktrees);
  }

  /**
   * Returns the paths that tools can read but not change: third-party modules of the config, because gantry loads them.
   */
  readOnlyPaths(builtInTools: readonly string[]): string[] {
    const { session, providers, server, agent, compaction, permissions, hooks } = this.#config;
    const names = [
      session.driver,
      compaction.strategy,
      ...providers.map((entry) => entry["driver"]),
      ...server.transports.map((entry) => moduleOf(entry, "transport").name),
      ...agent.tools.map((entry) => moduleOf(entry, "tool").name),
      ...permissions.policies.map((entry) => moduleOf(entry, "policy").name),
      ...hooks.map((entry) => moduleOf(entry, "hook").name),
    ];
    const builtInModuleNames: readonly unknown[] = ["*", ...builtInTools, ...listBuiltInNames("compaction-strategy")];
    return [...new Set(names)]
      .filter((name) => !builtInModuleNames.includes(name))
      .flatMap((name) => (typeof name === "string" ? this.#possiblePathsOf(name) : []));
  }

  /**
   * Returns the folders outside the project that file tools and attachments may use. Relative paths start at the
   * config's folder.
   */
  allowPaths(): string[] {
    return this.#config.tools.allowPaths.map((path) => resolve(this.#loadedConfig.folder, path));
  }

  /** Returns all paths from which a module of this name could be loaded. Not all of them exist. */
  #possiblePathsOf(name: string): string[] {
    const { folder } = this.#loadedConfig;
    if (isModulePath(name)) return [name.startsWith("file:") ? fileURLToPath(name) : resolve(folder, name)];
    const packageName = /^(@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name;
    if (BUILT_IN_KINDS.some((kind) => isBuiltIn(kind, name))) return [];
    const paths: string[] = [];
    for (let ancestor = folder; ; ancestor = dirname(ancestor)) {
      paths.push(join(ancestor, "node_modules", packageName));
      if (dirname(ancestor) === ancestor) return paths;
    }
  }

  async #selectProvider(entry: Record<string, unknown>, section: string): Promise<SelectedAdapter<"model-provider">> {
    const kind = "model-provider";
    if (entry["provider"] === "offline") return { kind, name: "offline", options: entry, key: section, section };
    const { driver, ...providerOptions } = entry;
    const { WIRES } = await import("../../adapters/language-models/presets.js");
    const isModule = typeof driver === "string" && !(WIRES as readonly string[]).includes(driver);
    if (!isModule)
      return { kind, name: "language-models", options: await this.#addPresetKey(entry), key: section, section };
    return { kind, name: driver, options: providerOptions, key: `${section}.driver`, section };
  }

  /**
   * Adds the API key of a preset from its environment variable if none is configured. A configured address never
   * receives that key.
   */
  async #addPresetKey(entry: Record<string, unknown>): Promise<Record<string, unknown>> {
    const { provider, api_key, base_url } = entry;
    if (typeof provider !== "string" || api_key !== undefined || base_url !== undefined) return entry;
    const { findPreset } = await import("../../adapters/language-models/presets.js");
    const preset = findPreset(provider);
    const key = this.#findKey([...(preset?.keyVariables ?? []), ...(preset?.sharedKeyVariables ?? [])]);
    return key === undefined ? entry : { ...entry, api_key: key };
  }

  /** Returns the value of the first variable that is set, and registers the value as a secret. */
  #findKey(variables: readonly string[]): string | undefined {
    const key = variables.map(getEnvironmentVariable).find((value) => value !== undefined && value !== "");
    if (key !== undefined) this.#loadedConfig.secrets.add(key);
    return key;
  }

  async #presetsFromEnvironment(): Promise<Record<string, unknown>[]> {
    const { PRESETS } = await import("../../adapters/language-models/presets.js");
    const presetEntries = PRESETS.flatMap((preset) => {
      const key = preset.baseUrl === "" ? undefined : this.#findKey(preset.keyVariables);
      if (key === undefined) return [];
      return [{ provider: preset.id, api_key: key }];
    });
    return presetEntries.length > 0 ? presetEntries : [{ provider: "offline" }];
  }

  /** Throws `ConfigError` if options of a built-in transport belong elsewhere, or ACP has no required headers. */
  #checkTransportOptions(name: string, transportOptions: Readonly<Record<string, unknown>>, key: string): void {
    if (!/^(koa-http-api|acp-http-sse-ws|web-console)$/.test(name)) return;
    const { file, config } = this.#loadedConfig;
    const listenerKey = Object.keys(transportOptions).find((option) => Object.hasOwn(LISTENER_OPTIONS, option));
    if (listenerKey !== undefined)
      throw new ConfigError(
        `${file}: ${key}.${listenerKey}: unknown key; all HTTP transports share one port: set server.${listenerKey}`,
      );
    const hasRequiredHeaders = [this.#rawSection("acp"), transportOptions].some(
      (section) => section["required_headers"] !== undefined,
    );
    if (name === "acp-http-sse-ws" && !hasRequiredHeaders && Object.keys(config.server.requiredHeaders).length > 0) {
      throw new ConfigError(
        `${file}: acp.required_headers: must be set, because server.required_headers do not apply to /acp: ` +
          "use the same headers, or {} to allow every client that can reach the port",
      );
    }
  }

  /** Options that built-in transports take from shared sections of the config. */
  #sharedOptionsFor(name: string): Record<string, unknown> {
    const [server, acp, limits] = [this.#rawSection("server"), this.#rawSection("acp"), this.#rawSection("limits")];
    // The HTTP listener checks `server.required_headers`.
    if (name === "koa-http-api") return { ...server, required_headers: undefined, limits };
    if (name === "web-console") return { required_headers: getApiHeaders(this.#config) };
    if (name === "acp-http-sse-ws") return { ...acp, max_body_bytes: server["max_body_bytes"], limits };
    return name === "acp-stdio" ? { ...acp, limits } : {};
  }

  /** Returns a section with the keys as in the config file. */
  #rawSection(section: string): Readonly<Record<string, unknown>> {
    return (this.#loadedConfig.rawConfig[section] ?? {}) as Readonly<Record<string, unknown>>;
  }
}

/** Splits a list entry into the module's name and its options. */
function moduleOf<Key extends string>(
  entry: string | (Readonly<Record<Key, string>> & Readonly<Record<string, unknown>>),
  key: Key,
): { name: string; options: Readonly<Record<string, unknown>> } {
  if (typeof entry === "string") return { name: entry, options: {} };
  const { [key]: name, ...options } = entry;
  return { name, options };
}

/** Returns the headers that requests to `/api` need. */
export function getApiHeaders({ server }: Config): Record<string, string> {
  const apiEntry = server.transports.find((entry) => typeof entry !== "string" && entry.transport === "koa-http-api");
  const { required_headers: apiHeaders } = (apiEntry ?? {}) as { required_headers?: Record<string, string> };
  return apiHeaders && Object.keys(apiHeaders).length > 0 ? apiHeaders : server.requiredHeaders;
}
