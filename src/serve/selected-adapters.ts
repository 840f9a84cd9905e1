import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isRecord } from "../base/json.js";
import type { AdapterDescriptor, AdapterKind, OptionsContext } from "../plugin/adapter.js";
import type { Section } from "../plugin/options.js";
import { ConfigError, hasCode } from "../ports/errors.js";
import { configOptions, type Config } from "./config-options.js";
import type { LoadedConfig } from "./config.js";
import { environment } from "./environment.js";
import { isPath } from "./module-name.js";
import { builtInNames, isBuiltIn } from "./plugins.js";

const BUILT_IN_KINDS: readonly AdapterKind[] = ["transport", "session-driver", "model-provider"];

/** A module that the config selects, and what it is told. */
export interface Selected<Kind extends AdapterKind = AdapterKind> {
  readonly kind: Kind;
  /** Built-in name, package name, or path from the config's folder. */
  readonly name: string;
  /** Its own options. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Options of sections that are not its own alone; of these it takes what it knows, where its own say nothing. */
  readonly shared?: Readonly<Record<string, unknown>>;
  /** The key that names it: `server.transports[0]`. */
  readonly key: string;
  /** The key under which its options stand. */
  readonly section: string;
}

/** Keys of the port that all HTTP transports share, which no transport has for itself. */
const {
  required_headers: _own,
  max_body_bytes: _also,
  transports: _none,
  ...OF_PORT
} = configOptions.entries.server.entries;

/** What a config selects. Nothing of it is loaded yet. */
export class Selection {
  readonly #loaded: LoadedConfig;
  readonly #config: Config;
  readonly #home: string;

  constructor(loaded: LoadedConfig, home: string) {
    this.#loaded = loaded;
    this.#config = loaded.config;
    this.#home = home;
  }

  driver(): Selected<"session-driver"> {
    const { driver } = this.#config.session;
    const { driver: _driver, ...options } = this.#given("session");
    return { kind: "session-driver", name: driver, options, key: "session.driver", section: "session" };
  }

  /** As configured; else the presets whose usual key is in the environment; else the built-in guide. */
  async providers(): Promise<Selected<"model-provider">[]> {
    const configured = this.#config.providers;
    const entries = configured.length > 0 ? configured : await this.#fromEnvironment();
    return Promise.all(
      entries.map((entry, i) => this.#provider(entry, configured.length > 0 ? `providers[${i}]` : "providers")),
    );
  }

  /** Names of built-in tools, and modules of strangers, in the order given. */
  tools(builtIn: readonly string[]): (string | Selected<"tool" | "tool-source">)[] {
    const { agent, tools } = this.#config;
    return agent.tools.flatMap((entry, i): (string | Selected<"tool" | "tool-source">)[] => {
      const { name, options } = moduleOf(entry, "tool");
      const key = `agent.tools[${i}]`;
      if (name === "*") return [...builtIn];
      if (name === "bash" && !tools.bash.enabled) return [];
      if (!builtIn.includes(name)) return [{ kind: "tool", name, options, key, section: key }];
      const [odd] = Object.keys(options);
      if (odd === undefined) return [name];
      throw new ConfigError(
        `${this.#loaded.file}: ${key}.${odd}: unknown key; expected one of tool (options of the built-in ones stand under tools)`,
      );
    });
  }

  policies(): Selected<"permission-policy">[] {
    return this.#config.permissions.policies.map((entry, i) => {
      const key = `permissions.policies[${i}]`;
      return { kind: "permission-policy", ...moduleOf(entry, "policy"), key, section: key };
    });
  }

  hooks(): Selected<"hooks">[] {
    return this.#config.hooks.map((entry, i) => {
      const key = `hooks[${i}]`;
      return { kind: "hooks", ...moduleOf(entry, "hook"), key, section: key };
    });
  }

  /** A built-in strategy by its name, or a module of a stranger. */
  strategy(): string | Selected<"compaction-strategy"> {
    const { strategy: name } = this.#config.compaction;
    if (builtInNames("compaction-strategy").includes(name)) return name;
    return { kind: "compaction-strategy", name, options: {}, key: "compaction.strategy", section: "compaction" };
  }

  transports(): Selected<"transport">[] {
    const seen = new Map<string, string>();
    return this.#config.server.transports.flatMap((entry, i): Selected<"transport">[] => {
      const key = `server.transports[${i}]`;
      const { name, options: own } = moduleOf(entry, "transport");
      this.#checkOwn(name, own, key);
      const before = seen.get(name);
      if (before !== undefined && isBuiltIn("transport", name))
        throw new ConfigError(`${this.#loaded.file}: ${key}: expected each transport once, ${name} is ${before} too`);
      seen.set(name, key);
      if (name === "web-console" && !this.#config.server.console) return [];
      return [{ kind: "transport", name, options: own, shared: this.#shared(name), key, section: key }];
    });
  }

  /** Whether ACP is served on the HTTP port, where it takes every path that is nobody's. */
  servesAcp(): boolean {
    return this.transports().some(({ name }) => name === "acp-http-sse-ws");
  }

  /**
   * What no tool, command, prompt or attachment may touch: gantry's own home, with keys and sessions; the config file
   * wherever it is; a store elsewhere with all that drivers keep beside it. Absolute; not all of them need exist.
   */
  denied(): string[] {
    const { path } = this.#given("session");
    const store = typeof path === "string" && path !== "" ? resolve(this.#loaded.folder, path) : undefined;
    const beside = ["", "-wal", "-shm", "-journal", ".d"];
    return [this.#home, this.#loaded.file, ...(store === undefined ? [] : beside.map((end) => store + end))];
  }

  /** What tools may read and not change: the modules of strangers that the config names, since gantry loads them. */
  readOnly(builtInTools: readonly string[]): string[] {
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
    const shipped: readonly unknown[] = ["*", ...builtInTools, ...builtInNames("compaction-strategy")];
    return [...new Set(names)]
      .filter((name) => !shipped.includes(name))
      .flatMap((name) => (typeof name === "string" ? this.#placesOf(name) : []));
  }

  /** The folders that file tools and attachments may use beside the project: relative ones start where the config is. */
  allowPaths(): string[] {
    return this.#config.tools.allowPaths.map((path) => resolve(this.#loaded.folder, path));
  }

  /** Where a module of this name is loaded from, or would be if somebody put it there. */
  #placesOf(name: string): string[] {
    const { folder } = this.#loaded;
    if (isPath(name)) return [name.startsWith("file:") ? fileURLToPath(name) : resolve(folder, name)];
    const own = /^(@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name;
    if (BUILT_IN_KINDS.some((kind) => isBuiltIn(kind, name))) return [];
    const places: string[] = [];
    for (let at = folder; ; at = dirname(at)) {
      places.push(join(at, "node_modules", own));
      if (dirname(at) === at) return places;
    }
  }

  async #provider(entry: Record<string, unknown>, section: string): Promise<Selected<"model-provider">> {
    const kind = "model-provider";
    if (entry["provider"] === "offline") return { kind, name: "offline", options: entry, key: section, section };
    const { driver, ...rest } = entry;
    const { WIRES } = await import("../../adapters/language-models/presets.js");
    const isModule = typeof driver === "string" && !(WIRES as readonly string[]).includes(driver);
    if (!isModule) return { kind, name: "language-models", options: await this.#withKey(entry), key: section, section };
    return { kind, name: driver, options: rest, key: `${section}.driver`, section };
  }

  /** A preset's key from its usual variable, where none is given. Never for an address of someone else. */
  async #withKey(entry: Record<string, unknown>): Promise<Record<string, unknown>> {
    const { provider, api_key, base_url } = entry;
    if (typeof provider !== "string" || api_key !== undefined || base_url !== undefined) return entry;
    const { findPreset } = await import("../../adapters/language-models/presets.js");
    const preset = findPreset(provider);
    const key = this.#keyOf([...(preset?.keyVariables ?? []), ...(preset?.sharedKeyVariables ?? [])]);
    return key === undefined ? entry : { ...entry, api_key: key };
  }

  /** The first variable that is set; from now on never to be logged or shown. */
  #keyOf(variables: readonly string[]): string | undefined {
    const key = variables.map(environment).find((value) => value !== undefined && value !== "");
    if (key !== undefined) this.#loaded.secrets.add(key);
    return key;
  }

  async #fromEnvironment(): Promise<Record<string, unknown>[]> {
    const { PRESETS } = await import("../../adapters/language-models/presets.js");
    const found = PRESETS.flatMap((preset) => {
      const key = preset.baseUrl === "" ? undefined : this.#keyOf(preset.keyVariables);
      if (key === undefined) return [];
      return [{ provider: preset.id, api_key: key }];
    });
    return found.length > 0 ? found : [{ provider: "offline" }];
  }

  /** What of a shipped transport's own options cannot be its own. */
  #checkOwn(name: string, own: Readonly<Record<string, unknown>>, key: string): void {
    if (!/^(koa-http-api|acp-http-sse-ws|web-console)$/.test(name)) return;
    const { file, config } = this.#loaded;
    const odd = Object.keys(own).find((option) => Object.hasOwn(OF_PORT, option));
    if (odd !== undefined)
      throw new ConfigError(
        `${file}: ${key}.${odd}: unknown key; all HTTP transports share one port, so it stands under server.${odd}`,
      );
    const said = [this.#given("acp"), own].some((one) => one["required_headers"] !== undefined);
    if (name === "acp-http-sse-ws" && !said && Object.keys(config.server.requiredHeaders).length > 0) {
      throw new ConfigError(
        `${file}: acp.required_headers: expected to be set, since server.required_headers do not hold for /acp: ` +
          "give it the same headers, or {} to leave ACP open to whoever can reach the port",
      );
    }
  }

  /** What the shipped transports take from sections of the config that are not theirs alone. */
  #shared(name: string): Record<string, unknown> {
    const [server, acp, limits] = [this.#given("server"), this.#given("acp"), this.#given("limits")];
    // The port asks for its required headers itself.
    if (name === "koa-http-api") return { ...server, required_headers: undefined, limits };
    if (name === "web-console") return { required_headers: headersOfApi(this.#config) };
    if (name === "acp-http-sse-ws") return { ...acp, max_body_bytes: server["max_body_bytes"], limits };
    return name === "acp-stdio" ? { ...acp, limits } : {};
  }

  /** A section as it stands in the file. */
  #given(section: string): Readonly<Record<string, unknown>> {
    return (this.#loaded.given[section] ?? {}) as Readonly<Record<string, unknown>>;
  }
}

/** The module that an entry of a list names, and its options. */
function moduleOf<Key extends string>(
  entry: string | (Readonly<Record<Key, string>> & Readonly<Record<string, unknown>>),
  key: Key,
): { name: string; options: Readonly<Record<string, unknown>> } {
  if (typeof entry === "string") return { name: entry, options: {} };
  const { [key]: name, ...options } = entry;
  return { name, options };
}

/** The headers that requests to `/api` must carry. */
export function headersOfApi({ server }: Config): Record<string, string> {
  const api = server.transports.find((entry) => typeof entry !== "string" && entry.transport === "koa-http-api");
  const { required_headers: own } = (api ?? {}) as { required_headers?: Record<string, string> };
  return own && Object.keys(own).length > 0 ? own : server.requiredHeaders;
}

/** What an adapter's own check makes of the options that the config has for it. Throws `ConfigError`. */
export function optionsOf<Options>(
  { kind, name, options, shared }: Selected,
  descriptor: AdapterDescriptor<AdapterKind, Options>,
  context: OptionsContext,
): Options {
  const { schema } = descriptor;
  const raw = shared && schema && "entries" in schema ? inherited(schema as Section, shared, options) : options;
  try {
    return descriptor.parse(raw, context);
  } catch (error) {
    // What is no word about an option is a fault of ours, and stays one.
    if (isBuiltIn(kind, name) && !hasCode(error, "config")) throw error;
    const message = withOwnKey(reasonOf(error), OWN_KEYS[kind], context.where);
    if (isBuiltIn(kind, name)) throw new ConfigError(message, { cause: error });
    // Of a stranger's module the message also says whose they are.
    const place = message.startsWith(context.where) ? "" : `${context.where}: `;
    throw new ConfigError(`${place}${message}${message.includes(name) ? "" : ` (an option of ${name})`}`, {
      cause: error,
    });
  }
}

/** The key beside an adapter's options that says which adapter it is. */
const OWN_KEYS: Partial<Readonly<Record<AdapterKind, string>>> = {
  "session-driver": "driver",
  transport: "transport",
  tool: "tool",
  "permission-policy": "policy",
  hooks: "hook",
};

/** Whoever mistyped that key must find it among those that there are. */
function withOwnKey(message: string, own: string | undefined, where: string): string {
  const [key = "", said] = message.slice(where.length + 1).split(": unknown key; ", 2);
  if (own === undefined || said === undefined || !message.startsWith(`${where}.`) || key.includes(".")) return message;
  const others = said.startsWith("expected one of ") ? said.slice("expected one of".length) : "";
  return `${where}.${key}: unknown key; expected one of ${own}${others && `,${others}`}`;
}

type Raw = Readonly<Record<string, unknown>>;

function inherited({ entries }: Section, shared: Raw, own: Raw): Raw {
  const raw: Record<string, unknown> = { ...own };
  for (const [key, entry] of Object.entries(entries)) {
    const [given = {}, from = {}] = [raw[key], shared[key]];
    if ("entries" in entry && isRecord(given) && isRecord(from)) raw[key] = inherited(entry as Section, from, given);
    else raw[key] ??= shared[key];
  }
  return raw;
}

/** Why something failed, in one line: without what the container says of the class and the parameter before it. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const message = error.message.replace(/^(\s*Cannot inject the dependency .* Reason:\n)+/, "");
  return message.replace(/\s*\n\s*/g, " ").trim() || error.name;
}
