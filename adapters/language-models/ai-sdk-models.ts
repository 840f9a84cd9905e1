import type { Logger } from "gantry";
import {
  nearestEffort,
  type Model,
  type ModelChunk,
  type ModelPrices,
  type ModelProvider,
  type ModelRequest,
  type ModelUsage,
} from "gantry/plugin";
import { completeModel } from "./catalogue.js";
import { COMMON_EFFORTS, effortsOf, type EffortLevel } from "./efforts.js";
import type { FaultContext } from "./errors.js";
import { inputOf } from "./files.js";
import type { ModelCallOptions } from "./language-model.js";
import { calculateAnswerLimit } from "./limits.js";
import { PrefixCache, toPrompt } from "./messages.js";
import type { Settings } from "./options.js";
import { findListedCost, findListedPrices } from "./prices.js";
import type { PartSource } from "./reading/answer-body.js";
import { RejectedParameters } from "./rejected-parameters.js";
import { streamAnswer, type Attempt } from "./stream.js";
import type { ReportedUsage } from "./usage.js";
import type { WireRequest, OptionalParameter, Wire } from "./wires/wire.js";

/** A wire that is ready for requests. */
export interface OpenWire {
  readonly wire: Wire;
  /**
   * Sends a request after `wireRequest.request.startAfter` has resolved. Rejects with the error of `startAfter`, with
   * the provider's error, or with the signal's reason.
   */
  send(wireRequest: WireRequest, options: ModelCallOptions, signal: AbortSignal): Promise<PartSource>;
}

/** OpenAI's reasoning models accept only the default temperature. */
const FIXED_TEMPERATURE_ID_PATTERN = /^(o\d|gpt-([5-9]|\d\d))/;

/** Base class of model providers. The `OpenWire` from `openWire` builds requests and opens answers. */
export class AiSdkModels implements ModelProvider {
  readonly name: string;
  readonly idleTimeoutMs: number;
  readonly maxRetries: number;
  readonly maxWaitMs: number;
  readonly supportsDeferredStart = true;
  readonly configuredModels: readonly Model[];
  readonly #settings: Settings;
  readonly #faultContext: FaultContext;
  readonly #openWire: () => Promise<OpenWire>;
  readonly #rejectedParameters: RejectedParameters;
  /**
   * Assumed effort levels of models whose efforts are unknown. Undefined for providers of `fromAiSdk`: the package
   * receives the requested effort unchanged.
   */
  get #assumedEfforts(): readonly EffortLevel[] | undefined {
    return this.#settings.baseUrl === "" ? undefined : COMMON_EFFORTS;
  }
  /** Undefined until the first request, because the start of the process needs no cache. */
  #prefixCache: PrefixCache | undefined;

  constructor(
    settings: Settings,
    faultContext: FaultContext,
    openWire: () => Promise<OpenWire>,
    logger: Logger | undefined,
  ) {
    this.name = settings.name;
    this.idleTimeoutMs = settings.idleTimeoutMs;
    this.maxRetries = settings.maxRetries;
    this.maxWaitMs = settings.maxWaitMs;
    this.configuredModels = settings.models.map((model) => completeModel(model, settings));
    this.#settings = settings;
    this.#faultContext = faultContext;
    this.#openWire = openWire;
    this.#rejectedParameters = new RejectedParameters(logger);
  }

  get isFree(): boolean {
    return this.#settings.isFree;
  }

  async models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    return [...this.configuredModels];
  }

  async prepare(): Promise<void> {
    await this.#openWire();
  }

  stream(modelRequest: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    const { model } = modelRequest;
    // No effort is sent to models without reasoning: they reject it.
    const mayReason = model.reasoning !== false;
    const effort = mayReason
      ? nearestEffort(modelRequest.effort, model.efforts ?? effortsOf(model, this.#settings) ?? this.#assumedEfforts)
      : "";
    const request: ModelRequest = {
      ...modelRequest,
      effort,
      needsReasoning: mayReason && modelRequest.needsReasoning !== false,
    };
    const settledParameters = new Set<OptionalParameter>();
    return streamAnswer(() => this.#createAttempt(request, signal, settledParameters), request, signal);
  }

  prices(model: Model, promptTokens: number): Promise<ModelPrices | undefined> {
    return findListedPrices(model.id, promptTokens, this.#settings);
  }

  async close(): Promise<void> {}

  /** Called after the cost of a complete answer was determined. Not called if the provider reports no usage. */
  protected onAnswer(): void {}

  /** `settledParameters`: parameters whose rejection causes no further attempt of this request. */
  async #createAttempt(
    request: ModelRequest,
    signal: AbortSignal,
    settledParameters: Set<OptionalParameter>,
  ): Promise<Attempt> {
    const { model } = request;
    const { wire, send } = await this.#openWire();
    const maxTokens = calculateAnswerLimit(request, await wire.maxOutput?.(model));
    const rejectedParameters = this.#rejectedParameters.findByModel(model.id);
    for (const parameter of rejectedParameters) settledParameters.add(parameter);
    const wireRequest: WireRequest = { request, settings: this.#settings, rejectedParameters, maxTokens };
    const { options, sentParameters } = await this.#createOptions(wire, wireRequest);
    const context = {
      ...this.#faultContext,
      wire,
      reasoningMark: wire.reasoningMark,
      addCost: async (reported: ReportedUsage) => {
        const usage = await this.#addCost(reported, wire, model);
        this.onAnswer();
        return usage;
      },
    };
    return {
      context,
      send: () => send(wireRequest, options, signal),
      shouldRetry: (fault) =>
        this.#rejectedParameters.recordRejection(model.id, fault, sentParameters, settledParameters),
    };
  }

  async #createOptions(
    wire: Wire,
    wireRequest: WireRequest,
  ): Promise<{ options: ModelCallOptions; sentParameters: ReadonlySet<OptionalParameter> }> {
    const { request, settings, rejectedParameters, maxTokens } = wireRequest;
    const { model, temperature, tools } = request;
    const input = inputOf(model, wire.input(model, settings));
    const sentParameters = new Set<OptionalParameter>(wire.optionalParameters?.(wireRequest));
    const rules = { provider: this.name, model: model.id, input, ...wire.rules(model, settings) };
    // Packages that build their own requests may modify the prompt, so they get no cached messages.
    const cache = wire.leavesPromptUnchanged ? (this.#prefixCache ??= new PrefixCache()) : undefined;
    const baseOptions: ModelCallOptions = { prompt: toPrompt(request, rules, cache) };
    if (tools.length > 0)
      baseOptions.tools = tools.map(({ name, description, inputSchema }) => {
        return { type: "function", name, description, inputSchema };
      });
    if (maxTokens !== undefined && !rejectedParameters.has("max_tokens")) baseOptions.maxOutputTokens = maxTokens;
    if (
      temperature !== undefined &&
      !rejectedParameters.has("temperature") &&
      !FIXED_TEMPERATURE_ID_PATTERN.test(model.id)
    ) {
      baseOptions.temperature = temperature;
      sentParameters.add("temperature");
    }
    const { outputSchema } = request;
    if (
      outputSchema !== undefined &&
      !rejectedParameters.has("json") &&
      (await wire.supportsOutputSchema?.(wireRequest)) === true
    ) {
      baseOptions.responseFormat = { type: "json", schema: outputSchema, name: "answer" };
      sentParameters.add("json");
    }
    const options: ModelCallOptions = { ...baseOptions, ...(await wire.options(wireRequest, baseOptions)) };
    if (request.effort !== "" || Object.values(options.providerOptions ?? {}).some(mentionsThinking))
      sentParameters.add("effort");
    if (options.maxOutputTokens !== undefined) sentParameters.add("max_tokens");
    return { options, sentParameters };
  }

  async #addCost(reported: ReportedUsage, wire: Wire, model: Model): Promise<ModelUsage> {
    const { usage } = reported;
    const reportedCost = wire.readCost(reported, this.#settings);
    if (reportedCost !== undefined) return { ...usage, cost: reportedCost, costReported: true };
    if (model.prices !== undefined) return usage;
    const priceListCost = await findListedCost(usage, model.id, this.#settings);
    return priceListCost === undefined ? usage : { ...usage, cost: priceListCost };
  }
}

/** Whether provider options contain a thinking parameter. Some wires send one without a requested effort. */
function mentionsThinking(options: object): boolean {
  return ["thinking", "reasoning", "reasoningEffort", "thinkingConfig"].some((name) => name in options);
}
