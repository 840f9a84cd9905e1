import { InputError, type Logger } from "gantry";
import type { ModelProvider } from "gantry/plugin";
import { AiSdkModels } from "./ai-sdk-provider.js";
import { toProviderError } from "./errors.js";
import { isAiSdkModel, type AiSdkModel, type ModelCallOptions } from "./language-model.js";
import { DEFAULT_LIMITS, type ConfiguredModel, type Settings } from "./options.js";
import { sendToPackage } from "./package-stream.js";
import { readPackageCost } from "./prices.js";
import { createRedactor } from "./redactor.js";
import type { OpenWire, Wire } from "./wires/wire.js";

/** A provider of the AI SDK: the result of any package's `createX({...})`, recognized by its structure. */
export interface AiSdkFactory {
  languageModel(modelId: string): unknown;
}

export interface FromAiSdkOptions {
  /** Name of the provider for clients. Default: the start of the model's `provider`, up to the first dot. */
  name?: string | undefined;
  /** Data of the models; a string is an id. Required for a factory, which cannot list its models. */
  models?: readonly (string | ConfiguredModel)[] | undefined;
  /** Maximum silence between two chunks, in seconds. Default 120. */
  timeout?: number | undefined;
  /** Maximum number of retries. Default 5. */
  maxRetries?: number | undefined;
  /** Maximum delay that the provider may request before a retry, in seconds. Default 60. */
  maxWait?: number | undefined;
  /** Sent with every call in the format of the package's `providerOptions`. */
  providerOptions?: Readonly<Record<string, Readonly<Record<string, unknown>>>> | undefined;
  /** Texts that are removed from error messages. */
  secrets?: readonly string[] | undefined;
  /** Called by `close`. */
  onClose?: (() => Promise<void>) | undefined;
  logger?: Logger | undefined;
}

/**
 * Wraps any AI SDK model (specification v2, v3 or v4), several models of one provider, or a provider's factory as a
 * `ModelProvider`. Throws `InputError` for other values, and for a factory without `models`.
 */
export function fromAiSdk(
  source: AiSdkModel | readonly AiSdkModel[] | AiSdkFactory,
  options: FromAiSdkOptions = {},
): ModelProvider {
  return new PackageModels(source, options);
}

/** Placeholders for settings that the package itself defines, such as URL, key and protocol. */
const PLACEHOLDER_SETTINGS: Omit<Settings, "name" | "models" | "idleTimeoutMs" | "maxRetries" | "maxWaitMs"> = {
  wire: "openai",
  baseUrl: "",
  apiKey: undefined,
  headers: {},
  isLocal: false,
  isFree: false,
  preset: undefined,
  priceProvider: undefined,
  quirks: {},
};

class PackageModels extends AiSdkModels {
  readonly #onClose: FromAiSdkOptions["onClose"];

  constructor(source: AiSdkModel | readonly AiSdkModel[] | AiSdkFactory, options: FromAiSdkOptions) {
    const sources = (Array.isArray(source) ? source : [source]) as unknown[];
    const modelsById = new Map<string, AiSdkModel>();
    const models = (options.models ?? []).map((model) => (typeof model === "string" ? { id: model } : model));
    let factory: AiSdkFactory | undefined;
    if (sources.length > 0 && sources.every(isAiSdkModel)) {
      for (const model of sources) modelsById.set(model.modelId, model);
      for (const id of modelsById.keys()) if (!models.some((model) => model.id === id)) models.push({ id });
    } else if (isAiSdkFactory(source)) {
      factory = source;
      if (models.length === 0)
        throw new InputError("models", "the ids of the models, since an AI SDK provider lists none");
    } else {
      throw new InputError("model", "a language model or a provider of the AI SDK");
    }
    const name = options.name ?? [...modelsById.values()][0]?.provider.split(".")[0];
    if (name === undefined || name === "" || /[\s/]/.test(name))
      throw new InputError("name", 'a name for the provider, without "/" and white space');
    const faultContext = { provider: name, redact: createRedactor(options.secrets ?? []) };
    const resolveModel = (id: string): AiSdkModel => {
      let model: unknown = modelsById.get(id);
      try {
        model ??= factory?.languageModel(id);
      } catch (error) {
        throw toProviderError(error, faultContext);
      }
      if (!isAiSdkModel(model)) throw new InputError("model", `a model of ${name}`);
      modelsById.set(id, model);
      return model;
    };
    const wire = createPackageWire(resolveModel, options.providerOptions);
    const settings = {
      name,
      models,
      idleTimeoutMs: (options.timeout ?? DEFAULT_LIMITS.timeout) * 1000,
      maxRetries: options.maxRetries ?? DEFAULT_LIMITS.maxRetries,
      maxWaitMs: (options.maxWait ?? DEFAULT_LIMITS.maxWait) * 1000,
      ...PLACEHOLDER_SETTINGS,
    };
    const openWire: OpenWire = {
      wire,
      async send({ request: { model, effort, startAfter }, rejectedParameters }, callOptions, signal) {
        const packageModel = resolveModel(model.id);
        const packageOptions = toSpecification(
          packageModel.specificationVersion,
          callOptions,
          rejectedParameters.has("effort") ? "" : effort,
        );
        await startAfter;
        return sendToPackage(packageModel, packageOptions, signal);
      },
    };
    super(settings, faultContext, async () => openWire, options.logger);
    this.#onClose = options.onClose;
  }

  override async close(): Promise<void> {
    await this.#onClose?.();
  }
}

/** A wire for packages of third parties, based on the specification only. */
function createPackageWire(
  resolveModel: (id: string) => AiSdkModel,
  providerOptions: FromAiSdkOptions["providerOptions"],
): Wire {
  return {
    mayUseThinkTags: true,
    readCost: readPackageCost,
    // The package decides which reasoning of its model it sends back, as in a loop of the AI SDK.
    reasoningMark: () => ({ gantry: { echo: true } }),
    input: () => ["text"],
    // Some packages implement an output schema as a tool, which must be the only tool.
    supportsOutputSchema: ({ request: { tools } }) => tools.length === 0,
    // Packages handle media in tool results differently; all support media in a user message after the result.
    rules: ({ id }) => ({
      toolMedia: "after",
      toolIds: "plain",
      toolNames: /google|gemini|vertex/.test(resolveModel(id).provider) ? "letter" : "plain",
      reasoningOnMessage: false,
    }),
    async options({ request: { model, effort }, rejectedParameters }) {
      const { provider } = resolveModel(model.id);
      // The options are JSON values; the package's type cannot express that.
      const mergedOptions = { ...providerOptions } as Record<string, Record<string, never>>;
      if (effort !== "" && !rejectedParameters.has("effort")) {
        const key = provider.split(".")[0]!;
        // The option name of most packages.
        mergedOptions[key] = { reasoningEffort: effort, ...mergedOptions[key] } as unknown as Record<string, never>;
      }
      return { providerOptions: mergedOptions };
    },
  };
}

export function isAiSdkFactory(value: unknown): value is AiSdkFactory {
  const factory = value as Partial<AiSdkFactory> | null;
  return (
    (typeof factory === "object" || typeof factory === "function") &&
    factory !== null &&
    typeof factory.languageModel === "function"
  );
}

/**
 * Converts options of specification v3 for a model of another version. `effort` is sent to v4 models, unless it is
 * `""`.
 */
function toSpecification(version: string, options: ModelCallOptions, effort: string): Record<string, unknown> {
  switch (version) {
    case "v2":
      return { ...options, prompt: options.prompt.map(toV2Message) };
    case "v4":
      return { ...options, prompt: options.prompt.map(toV4Message), reasoning: toV4Effort(effort) };
    default:
      return { ...options };
  }
}

/** v4 has no effort above `xhigh`. */
function toV4Effort(effort: string): string | undefined {
  return effort === "max" ? "xhigh" : effort || undefined;
}

type Message = ModelCallOptions["prompt"][number];
type Result = Extract<Extract<Message, { role: "tool" }>["content"][number], { type: "tool-result" }>;
type Output = Extract<Result["output"], { type: "content" }>["value"][number];
type Media = Extract<Output, { type: "image-data" | "file-data" }>;

/** v2 has a single type for media in tool results. */
function toV2Message(message: Message): unknown {
  return convertToolMedia(message, ({ data, mediaType }) => ({ type: "media", data, mediaType }));
}

/** v4 wraps the data of files. */
function toV4Message(message: Message): unknown {
  if (message.role !== "user")
    return convertToolMedia(message, (media) => ({ ...media, type: "file", data: { type: "data", data: media.data } }));
  const content = message.content.map((part) =>
    part.type === "file" ? { ...part, data: { type: "data", data: part.data } } : part,
  );
  return { ...message, content };
}

function convertToolMedia(message: Message, convert: (media: Media) => unknown): unknown {
  if (message.role !== "tool") return message;
  const content = message.content.map((part) => {
    if (part.type !== "tool-result" || part.output.type !== "content") return part;
    const value = part.output.value.map((entry) =>
      entry.type === "image-data" || entry.type === "file-data" ? convert(entry) : entry,
    );
    return { ...part, output: { type: "content", value } };
  });
  return { ...message, content };
}
