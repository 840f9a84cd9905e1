import { InputError, type Logger } from "gantry";
import type { ModelProvider } from "gantry/plugin";
import { AiSdkModels, type OpenWire } from "./ai-sdk-models.js";
import { toProviderError } from "./errors.js";
import { isAiSdkModel, type AiSdkModel } from "./language-model.js";
import { PATIENCE, type ConfiguredModel, type Settings } from "./options.js";
import { askPackage } from "./package-source.js";
import { passedCost } from "./prices.js";
import { redactor } from "./redact.js";
import { forSpecification } from "./specification.js";
import type { Wire } from "./wires/wire.js";

/** A provider of the AI SDK: `createX({...})` of any of its packages, known by its structure alone. */
export interface AiSdkFactory {
  languageModel(modelId: string): unknown;
}

export interface FromAiSdkOptions {
  /** Identifier that clients use. Default: the model's own provider, up to its first dot. */
  name?: string | undefined;
  /** What is known of the models; a text is an id. Needed with a factory, which lists none. */
  models?: readonly (string | ConfiguredModel)[] | undefined;
  /** Longest silence between two chunks, in seconds. Default 120. */
  timeout?: number | undefined;
  /** How often the kernel asks again. Default 5. */
  maxRetries?: number | undefined;
  /** Longest wait that the provider may ask for, in seconds. Default 60. */
  maxWait?: number | undefined;
  /** Sent with every call, as the package documents its `providerOptions`. */
  providerOptions?: Readonly<Record<string, Readonly<Record<string, unknown>>>> | undefined;
  /** Taken out of error messages. */
  secrets?: readonly string[] | undefined;
  /** Called by `close`. */
  onClose?: (() => Promise<void>) | undefined;
  logger?: Logger | undefined;
}

/**
 * Any AI SDK model (specification v2, v3 or v4), several of one provider, or a provider's factory, as a `ModelProvider`.
 * Throws `InputError` when it is none of these, or a factory without `models`.
 */
export function fromAiSdk(
  source: AiSdkModel | readonly AiSdkModel[] | AiSdkFactory,
  options: FromAiSdkOptions = {},
): ModelProvider {
  return new PackageModels(source, options);
}

/** Whom a package asks, and how, is its own business: these settings are those of nobody. */
const ITS_OWN: Omit<Settings, "name" | "models" | "idleTimeoutMs" | "maxRetries" | "maxWaitMs"> = {
  wire: "openai",
  baseUrl: "",
  apiKey: undefined,
  headers: {},
  local: false,
  isFree: false,
  preset: undefined,
  priceProvider: undefined,
  quirks: {},
};

class PackageModels extends AiSdkModels {
  readonly #onClose: FromAiSdkOptions["onClose"];

  constructor(source: AiSdkModel | readonly AiSdkModel[] | AiSdkFactory, options: FromAiSdkOptions) {
    const given = (Array.isArray(source) ? source : [source]) as unknown[];
    const made = new Map<string, AiSdkModel>();
    const models = (options.models ?? []).map((model) => (typeof model === "string" ? { id: model } : model));
    let factory: AiSdkFactory | undefined;
    if (given.length > 0 && given.every(isAiSdkModel)) {
      for (const model of given) made.set(model.modelId, model);
      for (const id of made.keys()) if (!models.some((model) => model.id === id)) models.push({ id });
    } else if (isAiSdkFactory(source)) {
      factory = source;
      if (models.length === 0)
        throw new InputError("models", "the ids of the models, since an AI SDK provider lists none");
    } else {
      throw new InputError("model", "a language model or a provider of the AI SDK");
    }
    const name = options.name ?? [...made.values()][0]?.provider.split(".")[0];
    if (name === undefined || name === "" || /[\s/]/.test(name))
      throw new InputError("name", 'a name for the provider, without "/" and white space');
    const faults = { provider: name, redact: redactor(options.secrets ?? []) };
    const modelOf = (id: string): AiSdkModel => {
      let model: unknown = made.get(id);
      try {
        model ??= factory?.languageModel(id);
      } catch (error) {
        throw toProviderError(error, faults);
      }
      if (!isAiSdkModel(model)) throw new InputError("model", `a model of ${name}`);
      made.set(id, model);
      return model;
    };
    const wire = packageWire(modelOf, options.providerOptions);
    const settings = {
      name,
      models,
      idleTimeoutMs: (options.timeout ?? PATIENCE.timeout) * 1000,
      maxRetries: options.maxRetries ?? PATIENCE.maxRetries,
      maxWaitMs: (options.maxWait ?? PATIENCE.maxWait) * 1000,
      ...ITS_OWN,
    };
    const opened: OpenWire = {
      wire,
      async ask({ request: { model, effort, startAfter: before }, refused }, asked, signal) {
        const asks = modelOf(model.id);
        const specified = forSpecification(asks.specificationVersion, asked, refused.has("effort") ? "" : effort);
        await before;
        return askPackage(asks, specified, signal);
      },
    };
    super(settings, faults, async () => opened, options.logger);
    this.#onClose = options.onClose;
  }

  override async close(): Promise<void> {
    await this.#onClose?.();
  }
}

/** What is known of a package of others: nothing but the specification. */
function packageWire(modelOf: (id: string) => AiSdkModel, providerOptions: FromAiSdkOptions["providerOptions"]): Wire {
  return {
    thinkTags: true,
    cost: passedCost,
    input: () => ["text"],
    // Some make a tool of it, which must be the only one.
    ownJson: ({ request: { tools } }) => tools.length === 0,
    // Packages differ in what they make of media within results; behind them all understand it.
    rules: ({ id }) => ({
      toolMedia: "behind",
      toolIds: "plain",
      toolNames: /google|gemini|vertex/.test(modelOf(id).provider) ? "letter" : "plain",
      reasoningOnMessage: false,
    }),
    async options({ request: { model, effort }, refused }) {
      const { provider } = modelOf(model.id);
      // JSON values, which the package's type wants to see proven.
      const extra = { ...providerOptions } as Record<string, Record<string, never>>;
      if (effort !== "" && !refused.has("effort")) {
        const key = provider.split(".")[0]!;
        // The name that most packages give it.
        extra[key] = { reasoningEffort: effort, ...extra[key] } as unknown as Record<string, never>;
      }
      return { providerOptions: extra };
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
