import {
  ConfigError,
  defineAdapter,
  headerSecrets,
  inject,
  injectable,
  LOGGER,
  OPTIONS,
  type AdapterDescriptor,
  type Logger,
  type Model,
  type ModelChunk,
  type ModelProvider,
  type ModelRequest,
} from "gantry";
import { Network } from "./fetch.js";
import { fromAiSdk, isAiSdkFactory, type AiSdkFactory } from "./from-ai-sdk.js";
import { guard } from "./guard.js";
import { Checker, headersOf, isHttpUrl, modelsOf, type ConfiguredModel } from "./options.js";
import { redactor } from "./redact.js";

/** Options of a provider whose `driver` is a package or a file. */
export interface AiSdkModuleOptions {
  name: string;
  apiKey?: string;
  baseUrl?: string;
  headers?: Readonly<Record<string, string>>;
  timeout?: number;
  maxRetries?: number;
  maxWait?: number;
  models: readonly ConfiguredModel[];
  /** Passed to the package's factory as they are. */
  options?: Readonly<Record<string, unknown>>;
  /** Name of the factory where the module exports several. */
  export?: string;
}

type Factory = (settings: Record<string, unknown>) => unknown;

/**
 * A module of the AI SDK as an adapter: one that exports `createX`, a ready provider, or as its default a function
 * `(settings) => provider`. Undefined when it is none of these, so that the caller can say so in its own words.
 */
export function describeAiSdkModule(
  module: unknown,
  specifier: string,
): AdapterDescriptor<"model-provider", AiSdkModuleOptions> | undefined {
  if (factoriesOf(module).size === 0) return undefined;
  @injectable()
  class AiSdkModuleProvider implements ModelProvider {
    readonly #provider: ModelProvider;
    constructor(@inject(OPTIONS) options: AiSdkModuleOptions, @inject(LOGGER) logger?: Logger) {
      this.#provider = open(module, specifier, options, logger);
    }
    get name(): string {
      return this.#provider.name;
    }
    get idleTimeoutMs(): number {
      return this.#provider.idleTimeoutMs;
    }
    get maxRetries(): number {
      return this.#provider.maxRetries;
    }
    get maxWaitMs(): number {
      return this.#provider.maxWaitMs;
    }
    get known(): readonly Model[] {
      return this.#provider.known;
    }
    models(signal: AbortSignal): Promise<Model[]> {
      return this.#provider.models(signal);
    }
    stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
      return this.#provider.stream(request, signal);
    }
    close(): Promise<void> {
      return this.#provider.close();
    }
  }
  return defineAdapter<"model-provider", AiSdkModuleOptions>({
    kind: "model-provider",
    name: specifier,
    parse: (raw, { where }) => parse(raw, where, module),
    use: AiSdkModuleProvider,
  });
}

function open(
  module: unknown,
  specifier: string,
  options: AiSdkModuleOptions,
  logger: Logger | undefined,
): ModelProvider {
  const factories = factoriesOf(module);
  const factory = factories.get(options.export ?? "") ?? [...factories.values()][0]!;
  const secrets = [options.apiKey, ...headerSecrets(options.headers ?? {})].filter((secret) => secret !== undefined);
  const context = { provider: options.name, redact: redactor(secrets) };
  const network = new Network(context);
  const provider = factory({
    ...(options.apiKey === undefined ? {} : { apiKey: options.apiKey }),
    ...(options.baseUrl === undefined ? {} : { baseURL: options.baseUrl }),
    ...(options.headers === undefined ? {} : { headers: { ...options.headers } }),
    fetch: guard(network.fetch, context),
    ...options.options,
  });
  if (!isAiSdkFactory(provider)) throw new ConfigError(`driver: ${specifier} makes no provider of the AI SDK`);
  return fromAiSdk(provider, {
    name: options.name,
    models: options.models,
    ...(options.timeout === undefined ? {} : { timeout: options.timeout }),
    ...(options.maxRetries === undefined ? {} : { maxRetries: options.maxRetries }),
    ...(options.maxWait === undefined ? {} : { maxWait: options.maxWait }),
    secrets,
    onClose: () => network.close(),
    ...(logger === undefined ? {} : { logger }),
  });
}

/** What a module offers, the likeliest first: `createX` functions, its default, a ready provider. */
function factoriesOf(module: unknown): Map<string, Factory> {
  const factories = new Map<string, Factory>();
  if (typeof module !== "object" || module === null) return factories;
  const entries = Object.entries(module);
  for (const [name, value] of entries)
    if (/^create[A-Z]/.test(name) && typeof value === "function") factories.set(name, value as Factory);
  for (const [name, value] of entries) {
    if (factories.has(name)) continue;
    if (isAiSdkFactory(value)) factories.set(name, ((): AiSdkFactory => value) as Factory);
    // A class would be someone else's.
    else if (
      name === "default" &&
      typeof value === "function" &&
      !/^class\b/.test(Function.prototype.toString.call(value))
    ) {
      factories.set(name, value as Factory);
    }
  }
  return factories;
}

function parse(raw: Readonly<Record<string, unknown>>, where: string, module: unknown): AiSdkModuleOptions {
  const check = new Checker(where);
  check.keys("", raw, [
    "driver",
    "name",
    "api_key",
    "base_url",
    "headers",
    "timeout",
    "max_retries",
    "max_wait",
    "models",
    "options",
    "export",
  ]);
  const name = check.text("name", raw.name) ?? check.fail("name", "a name for the provider");
  if (/[\s/]/.test(name)) check.fail("name", 'a name without "/" and white space');
  const models = modelsOf(check, raw.models ?? []);
  if (models.length === 0) check.fail("models", "the ids of the models, since an AI SDK provider lists none");
  const options: AiSdkModuleOptions = { name, models };
  const apiKey = check.text("api_key", raw.api_key);
  if (apiKey !== undefined) options.apiKey = apiKey;
  const baseUrl = check.text("base_url", raw.base_url);
  if (baseUrl !== undefined && !isHttpUrl(baseUrl))
    check.fail("base_url", "a URL with http or https and without credentials");
  if (baseUrl !== undefined) options.baseUrl = baseUrl;
  const headers = headersOf(check, raw.headers);
  if (headers !== undefined) options.headers = headers;
  const timeout = check.timeout(raw.timeout);
  if (timeout !== undefined) options.timeout = timeout;
  const retries = check.retries(raw.max_retries);
  if (retries !== undefined) options.maxRetries = retries;
  const wait = check.wait(raw.max_wait);
  if (wait !== undefined) options.maxWait = wait;
  if (raw.options !== undefined) options.options = check.object("options", raw.options);
  const chosen = check.text("export", raw.export);
  const names = [...factoriesOf(module).keys()];
  if (chosen !== undefined && !names.includes(chosen)) check.fail("export", `one of ${names.join(", ")}`);
  if (chosen !== undefined) options.export = chosen;
  return options;
}
