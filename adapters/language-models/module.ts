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
import { Network } from "./network.js";
import { fromAiSdk, isAiSdkFactory, type AiSdkFactory } from "./from-ai-sdk.js";
import { requireEventStream } from "./require-event-stream.js";
import { present } from "./json.js";
import { configured, connectionEntries, twiceIn } from "./options.js";
import { redactor } from "./redact.js";

/** Options of a provider whose `driver` is a package or a file. */
export type AiSdkModuleOptions = option.Value<ReturnType<typeof moduleOptions>>;

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
  return defineAdapter({
    kind: "model-provider",
    name: specifier,
    schema: moduleOptions([...factoriesOf(module).keys()]),
    create: (options, { logger }) => open(module, specifier, options, logger),
  });
}

const moduleOptions = (factories: readonly string[]) =>
  option.section(
    {
      ...connectionEntries,
      driver: option.text("The module."),
      options: option.custom<Readonly<Record<string, unknown>>>("Passed to the package's factory as they are.", {
        expected: "an object",
        type: "object",
        json: { type: "object" },
        fits: isRecord,
      }),
      export: option.oneOf(factories, "Name of the factory where the module exports several."),
    },
    {
      rule({ name, models = [] }) {
        if (name === undefined) return { key: "name", expected: "a name for the provider" };
        if (models.length > 0) return twiceIn(models);
        return { key: "models", expected: "the ids of the models, since an AI SDK provider lists none" };
      },
    },
  );

function open(module: unknown, specifier: string, given: AiSdkModuleOptions, logger: Logger): ModelProvider {
  const { name = specifier, apiKey, baseUrl, headers, timeout, maxRetries, maxWait } = given;
  const factories = factoriesOf(module);
  const factory = factories.get(given.export ?? "") ?? [...factories.values()][0]!;
  const secrets = [apiKey, ...headerSecrets(headers ?? {})].filter((secret) => secret !== undefined);
  const context = { provider: name, redact: redactor(secrets) };
  const network = new Network(context);
  const provider = factory({
    ...present({ apiKey, baseURL: baseUrl, headers: headers && { ...headers } }),
    fetch: requireEventStream(network.fetch, context),
    ...given.options,
  });
  if (!isAiSdkFactory(provider)) throw new ConfigError(`driver: ${specifier} makes no provider of the AI SDK`);
  const models = configured(given.models);
  const onClose = () => network.close();
  return fromAiSdk(provider, { name, models, timeout, maxRetries, maxWait, secrets, onClose, logger });
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
