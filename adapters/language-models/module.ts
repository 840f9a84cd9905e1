import type { Logger } from "gantry";
import {
  ConfigError,
  defineAdapter,
  headerSecrets,
  isRecord,
  option,
  type AdapterDescriptor,
  type ModelProvider,
} from "gantry/plugin";
import { readResponseText } from "./bodies.js";
import { toUnexpectedBodyError, type FaultContext } from "./errors.js";
import { Network, type Fetch } from "./network.js";
import { fromAiSdk, isAiSdkFactory, type AiSdkFactory } from "./from-ai-sdk.js";
import { replaceLoneSurrogates } from "./json.js";
import { removeUndefined } from "./remove-undefined.js";
import { toConfiguredModels, connectionEntries, findDuplicateId } from "./options.js";
import { createRedactor } from "./redactor.js";

/** Options of a provider whose `driver` is a package or a file. */
export type AiSdkModuleOptions = option.Value<ReturnType<typeof createModuleOptions>>;

type Factory = (settings: Record<string, unknown>) => unknown;

/**
 * Describes an AI SDK module as an adapter. The module exports `createX`, a ready provider, or a default function
 * `(settings) => provider`. Returns undefined for any other module, so that the caller can report the error.
 */
export function describeAiSdkModule(
  module: unknown,
  specifier: string,
): AdapterDescriptor<"model-provider", AiSdkModuleOptions> | undefined {
  if (factoriesOf(module).size === 0) return undefined;
  return defineAdapter({
    kind: "model-provider",
    name: specifier,
    schema: createModuleOptions([...factoriesOf(module).keys()]),
    create: (options, { logger }) => createProvider(module, specifier, options, logger),
  });
}

const createModuleOptions = (factoryNames: readonly string[]) =>
  option.section(
    {
      ...connectionEntries,
      driver: option.text("The module."),
      options: option.custom<Readonly<Record<string, unknown>>>("Passed unchanged to the package's factory.", {
        expected: "an object",
        type: "object",
        json: { type: "object" },
        fits: isRecord,
      }),
      export: option.oneOf(factoryNames, "Name of the factory where the module exports several."),
    },
    {
      rule({ name, models = [] }) {
        if (name === undefined) return { key: "name", expected: "a name for the provider" };
        if (models.length > 0) return findDuplicateId(models);
        return { key: "models", expected: "the ids of the models, since an AI SDK provider lists none" };
      },
    },
  );

function createProvider(
  module: unknown,
  specifier: string,
  moduleSettings: AiSdkModuleOptions,
  logger: Logger,
): ModelProvider {
  const { name = specifier, apiKey, baseUrl, headers, timeout, maxRetries, maxWait } = moduleSettings;
  const factories = factoriesOf(module);
  const factory = factories.get(moduleSettings.export ?? "") ?? [...factories.values()][0]!;
  const secrets = [apiKey, ...headerSecrets(headers ?? {})].filter((secret) => secret !== undefined);
  const context = { provider: name, redact: createRedactor(secrets) };
  const network = new Network(context);
  const provider = factory({
    ...removeUndefined({ apiKey, baseURL: baseUrl, headers: headers && { ...headers } }),
    fetch: requireEventStream(network.fetch, context),
    ...moduleSettings.options,
  });
  if (!isAiSdkFactory(provider)) throw new ConfigError(`driver: ${specifier} creates no provider of the AI SDK`);
  const models = toConfiguredModels(moduleSettings.models);
  const onClose = () => network.close();
  return fromAiSdk(provider, { name, models, timeout, maxRetries, maxWait, secrets, onClose, logger });
}

/**
 * The factories of a module, most likely first: `createX` functions, other exports that are providers, a default
 * function.
 */
function factoriesOf(module: unknown): Map<string, Factory> {
  const factories = new Map<string, Factory>();
  if (typeof module !== "object" || module === null) return factories;
  const entries = Object.entries(module);
  for (const [name, value] of entries)
    if (/^create[A-Z]/.test(name) && typeof value === "function") factories.set(name, value as Factory);
  for (const [name, value] of entries) {
    if (factories.has(name)) continue;
    if (isAiSdkFactory(value)) factories.set(name, ((): AiSdkFactory => value) as Factory);
    // A class is not a factory function.
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

/**
 * Wraps `fetch`: replaces lone surrogates in request bodies, and rejects successful answers whose content type is HTML,
 * JSON or XML. A package would read such an answer as an empty answer.
 */
function requireEventStream(fetch: Fetch, context: FaultContext): Fetch {
  return async (input, init) => {
    const response = await fetch(
      input,
      init === undefined ? undefined : { ...init, body: replaceLoneSurrogates(init.body) ?? null },
    );
    if (!response.ok) return response;
    const contentType = response.headers.get("content-type") ?? "";
    if (/event-stream|text\/plain/i.test(contentType) || !/html|json|xml/i.test(contentType)) return response;
    throw toUnexpectedBodyError(await readResponseText(response), context);
  };
}
