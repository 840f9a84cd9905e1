import {
  InputError,
  type Logger,
  type Model,
  type ModelChunk,
  type ModelProvider,
  type ModelRequest,
  type ModelUsage,
} from "gantry";
import { Refusals } from "./refusals.js";
import { complete } from "./catalogue.js";
import { toProviderError, type FaultContext } from "./errors.js";
import { inputOf } from "./files.js";
import { isAiSdkModel, type AiSdkModel, type CallOptions } from "./language-model.js";
import { answerLimit } from "./limits.js";
import { toPrompt } from "./messages.js";
import type { ConfiguredModel } from "./options.js";
import { listedCost, passedCost } from "./prices.js";
import { redactor } from "./redact.js";
import { forSpecification } from "./specification.js";
import { streamAnswer } from "./stream.js";
import type { ReportedUsage } from "./usage.js";
import type { Optional } from "./wires/wire.js";

/** A provider of the AI SDK: `createX({...})` of any of its packages, known by its structure alone. */
export interface AiSdkFactory {
  languageModel(modelId: string): unknown;
}

export interface FromAiSdkOptions {
  /** Identifier that clients use. Default: the model's own provider, up to its first dot. */
  name?: string;
  /** What is known of the models; a text is an id. Needed with a factory, which lists none. */
  models?: readonly (string | ConfiguredModel)[];
  /** Longest silence between two chunks, in seconds. Default 120. */
  timeout?: number;
  /** How often the kernel asks again. Default 5. */
  maxRetries?: number;
  /** Longest wait that the provider may ask for, in seconds. Default 60. */
  maxWait?: number;
  /** Sent with every call, as the package documents its `providerOptions`. */
  providerOptions?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Taken out of error messages. */
  secrets?: readonly string[];
  /** Called by `close`. */
  onClose?: () => Promise<void>;
  logger?: Logger;
}

/**
 * Any AI SDK model (specification v2, v3 or v4), several of one provider, or a provider's factory, as a `ModelProvider`.
 * Throws `InputError` when it is none of these, or a factory without `models`.
 */
export function fromAiSdk(
  source: AiSdkModel | readonly AiSdkModel[] | AiSdkFactory,
  options: FromAiSdkOptions = {},
): ModelProvider {
  return new AiSdkModels(source, options);
}

class AiSdkModels implements ModelProvider {
  readonly name: string;
  readonly idleTimeoutMs: number;
  readonly maxRetries: number;
  readonly maxWaitMs: number;
  readonly known: readonly Model[];
  readonly #source: AiSdkFactory | undefined;
  readonly #models = new Map<string, AiSdkModel>();
  readonly #options: FromAiSdkOptions;
  readonly #faults: FaultContext;
  readonly #refusals: Refusals;

  constructor(source: AiSdkModel | readonly AiSdkModel[] | AiSdkFactory, options: FromAiSdkOptions) {
    const models = (Array.isArray(source) ? source : [source]) as unknown[];
    const configured = (options.models ?? []).map((model) => (typeof model === "string" ? { id: model } : model));
    if (models.length > 0 && models.every(isAiSdkModel)) {
      for (const model of models) this.#models.set(model.modelId, model);
      for (const id of this.#models.keys()) if (!configured.some((model) => model.id === id)) configured.push({ id });
    } else if (isAiSdkFactory(source)) {
      this.#source = source;
      if (configured.length === 0)
        throw new InputError("models", "the ids of the models, since an AI SDK provider lists none");
    } else {
      throw new InputError("model", "a language model or a provider of the AI SDK");
    }
    const first = [...this.#models.values()][0];
    const name = options.name ?? first?.provider.split(".")[0];
    if (name === undefined || name === "" || /[\s/]/.test(name))
      throw new InputError("name", 'a name for the provider, without "/" and white space');
    this.name = name;
    this.idleTimeoutMs = (options.timeout ?? 120) * 1000;
    this.maxRetries = options.maxRetries ?? 5;
    this.maxWaitMs = (options.maxWait ?? 60) * 1000;
    this.known = configured.map((model) => complete(model, name));
    this.#options = options;
    this.#faults = { provider: name, redact: redactor(options.secrets ?? []) };
    this.#refusals = new Refusals(options.logger);
  }

  models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    return Promise.resolve([...this.known]);
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelChunk, void, undefined> {
    signal.throwIfAborted();
    const model = this.#model(request.model.id);
    yield* this.#refusals.answer(request.model.id, (refused) =>
      Promise.resolve(this.#attempt(model, request, refused, signal)),
    );
  }

  async close(): Promise<void> {
    await this.#options.onClose?.();
  }

  #attempt(model: AiSdkModel, request: ModelRequest, refused: ReadonlySet<Optional>, signal: AbortSignal) {
    const sent = new Set<Optional>();
    const options: CallOptions = {
      prompt: toPrompt(request, {
        provider: this.name,
        model: request.model.id,
        input: inputOf(request.model, ["text"]),
        // Packages differ in what they make of media within results; behind them all understand it.
        toolMedia: "behind",
        toolIds: "plain",
        reasoningOnMessage: false,
      }),
    };
    if (request.tools.length > 0) {
      options.tools = request.tools.map(({ name, description, inputSchema }) => ({
        type: "function",
        name,
        description,
        inputSchema,
      }));
    }
    const limit = answerLimit(request, undefined);
    if (limit !== undefined && !refused.has("max_tokens")) {
      options.maxOutputTokens = limit;
      sent.add("max_tokens");
    }
    if (request.temperature !== undefined && !refused.has("temperature")) {
      options.temperature = request.temperature;
      sent.add("temperature");
    }
    const effort = refused.has("effort") ? "" : request.effort;
    // JSON values, which the package's type wants to see proven.
    const extra = { ...this.#options.providerOptions } as Record<string, Record<string, never>>;
    if (effort !== "") {
      sent.add("effort");
      const key = model.provider.split(".")[0]!;
      // The name that most packages give it.
      extra[key] = { reasoningEffort: effort, ...extra[key] } as unknown as Record<string, never>;
    }
    options.providerOptions = extra;
    const reading = {
      ...this.#faults,
      thinkTags: true,
      price: (reported: ReportedUsage) => this.#price(reported, request.model),
    };
    const chunks = streamAnswer(
      model,
      forSpecification(model.specificationVersion, options, effort),
      request,
      reading,
      signal,
    );
    return { sent, chunks };
  }

  #model(id: string): AiSdkModel {
    let model = this.#models.get(id);
    if (model === undefined) {
      let made: unknown;
      try {
        made = this.#source?.languageModel(id);
      } catch (error) {
        throw toProviderError(error, this.#faults);
      }
      if (!isAiSdkModel(made)) throw new InputError("model", `a model of ${this.name}`);
      model = made;
      this.#models.set(id, model);
    }
    return model;
  }

  async #price(reported: ReportedUsage, model: Model): Promise<ModelUsage> {
    const { usage } = reported;
    const said = passedCost(reported);
    if (said !== undefined) return { ...usage, cost: said, costReported: true };
    if (model.prices !== undefined) return usage;
    const cost = await listedCost(usage, model.id, { local: false, priceProvider: undefined });
    return cost === undefined ? usage : { ...usage, cost };
  }
}

export function isAiSdkFactory(value: unknown): value is AiSdkFactory {
  const factory = value as Partial<AiSdkFactory> | null;
  return (
    (typeof factory === "object" || typeof factory === "function") &&
    factory !== null &&
    typeof factory.languageModel === "function"
  );
}
