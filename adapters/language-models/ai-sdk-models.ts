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
import { complete } from "./catalogue.js";
import { COMMON_EFFORTS, effortsOf, type RequestedEffort } from "./efforts.js";
import type { FaultContext } from "./errors.js";
import { inputOf } from "./files.js";
import type { ModelCallOptions } from "./language-model.js";
import { answerLimit } from "./limits.js";
import { PrefixCache, toPrompt } from "./messages.js";
import type { Settings } from "./options.js";
import { listedCost, listedPrices } from "./prices.js";
import type { PartSource } from "./reading/answer-body.js";
import { RejectedParameters } from "./rejected-parameters.js";
import { streamAnswer, type Attempt } from "./stream.js";
import type { ReportedUsage } from "./usage.js";
import type { WireRequest, OptionalParameter, Wire } from "./wires/wire.js";

/** A wire that is ready for requests. */
export interface OpenWire {
  readonly wire: Wire;
  /** Sends a request, after `startAfter` has settled. Rejects with any error: of the provider, or of an abort. */
  ask(asking: WireRequest, options: ModelCallOptions, signal: AbortSignal): Promise<PartSource>;
}

/** Base class for models of the AI SDK, independent of who writes the requests and reads the answers. */
export class AiSdkModels implements ModelProvider {
  readonly name: string;
  readonly idleTimeoutMs: number;
  readonly maxRetries: number;
  readonly maxWaitMs: number;
  readonly supportsDeferredStart = true;
  readonly configuredModels: readonly Model[];
  readonly #settings: Settings;
  readonly #faults: FaultContext;
  readonly #open: () => Promise<OpenWire>;
  readonly #refusals: RejectedParameters;
  /** Effort levels to assume; undefined for packages, which know their own models. */
  get #common(): readonly RequestedEffort[] | undefined {
    return this.#settings.baseUrl === "" ? undefined : COMMON_EFFORTS;
  }
  /** Created with the first request: the start does not need it. */
  #memory: PrefixCache | undefined;

  constructor(settings: Settings, faults: FaultContext, open: () => Promise<OpenWire>, logger: Logger | undefined) {
    this.name = settings.name;
    this.idleTimeoutMs = settings.idleTimeoutMs;
    this.maxRetries = settings.maxRetries;
    this.maxWaitMs = settings.maxWaitMs;
    this.configuredModels = settings.models.map((model) => complete(model, settings));
    this.#settings = settings;
    this.#faults = faults;
    this.#open = open;
    this.#refusals = new RejectedParameters(logger);
  }

  get isFree(): boolean {
    return this.#settings.isFree;
  }

  async models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    return [...this.configuredModels];
  }

  async prepare(): Promise<void> {
    await this.#open();
  }

  stream(modelRequest: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    const { model } = modelRequest;
    // No effort is sent to models without reasoning: they reject it.
    const cannotReason = model.reasoning === false;
    const effort = cannotReason
      ? ""
      : nearestEffort(modelRequest.effort, model.efforts ?? effortsOf(model, this.#settings) ?? this.#common);
    const request: ModelRequest = {
      ...modelRequest,
      effort,
      needsReasoning: !cannotReason && modelRequest.needsReasoning !== false,
    };
    const settled = new Set<OptionalParameter>();
    return streamAnswer(() => this.#attempt(request, signal, settled), request, signal);
  }

  prices(model: Model, promptTokens: number): Promise<ModelPrices | undefined> {
    return listedPrices(model.id, promptTokens, this.#settings);
  }

  async close(): Promise<void> {}

  /** Called when an answer is complete and its price is known. */
  protected onAnswer(): void {}

  /** `settled`: parameters whose rejection later attempts of this request cannot learn again. */
  async #attempt(request: ModelRequest, signal: AbortSignal, settled: Set<OptionalParameter>): Promise<Attempt> {
    const { model } = request;
    const { wire, ask } = await this.#open();
    const maxTokens = answerLimit(request, await wire.maxOutput?.(model));
    const refused = this.#refusals.of(model.id);
    for (const parameter of refused) settled.add(parameter);
    const asking: WireRequest = { request, settings: this.#settings, refused, maxTokens };
    const { options, sent } = await this.#options(wire, asking);
    const reading = {
      ...this.#faults,
      wire,
      mark: wire.reasoningMark,
      price: async (reported: ReportedUsage) => {
        const usage = await this.#price(reported, wire, model);
        this.onAnswer();
        return usage;
      },
    };
    return {
      reading,
      ask: () => ask(asking, options, signal),
      shouldRetry: (fault) => this.#refusals.learn(model.id, fault, sent, settled),
    };
  }

  async #options(
    wire: Wire,
    asking: WireRequest,
  ): Promise<{ options: ModelCallOptions; sent: ReadonlySet<OptionalParameter> }> {
    const { request, settings, refused, maxTokens } = asking;
    const { model, temperature, tools } = request;
    const input = inputOf(model, wire.input(model, settings));
    const sent = new Set<OptionalParameter>(wire.optional?.(asking));
    const rules = { provider: this.name, model: model.id, input, ...wire.rules(model, settings) };
    // Packages that write their own requests may modify the prompt; it is not shared with them.
    const memory = wire.leavesPromptUnchanged ? (this.#memory ??= new PrefixCache()) : undefined;
    const base: ModelCallOptions = { prompt: toPrompt(request, rules, memory) };
    if (tools.length > 0)
      base.tools = tools.map(({ name, description, inputSchema }) => {
        return { type: "function", name, description, inputSchema };
      });
    if (maxTokens !== undefined && !refused.has("max_tokens")) base.maxOutputTokens = maxTokens;
    if (temperature !== undefined && !refused.has("temperature") && !/^(o\d|gpt-([5-9]|\d\d))/.test(model.id)) {
      base.temperature = temperature;
      sent.add("temperature");
    }
    const { outputSchema } = request;
    if (outputSchema !== undefined && !refused.has("json") && (await wire.supportsOutputSchema?.(asking)) === true) {
      base.responseFormat = { type: "json", schema: outputSchema, name: "answer" };
      sent.add("json");
    }
    const options: ModelCallOptions = { ...base, ...(await wire.options(asking, base)) };
    if (request.effort !== "" || Object.values(options.providerOptions ?? {}).some(asksToThink)) sent.add("effort");
    if (options.maxOutputTokens !== undefined) sent.add("max_tokens");
    return { options, sent };
  }

  async #price(reported: ReportedUsage, wire: Wire, model: Model): Promise<ModelUsage> {
    const { usage } = reported;
    const reportedCost = wire.cost(reported, this.#settings);
    if (reportedCost !== undefined) return { ...usage, cost: reportedCost, costReported: true };
    if (model.prices !== undefined) return usage;
    const listed = await listedCost(usage, model.id, this.#settings);
    return listed === undefined ? usage : { ...usage, cost: listed };
  }
}

/** Whether the options of a wire mention thinking, even without a requested effort. */
function asksToThink(options: object): boolean {
  return ["thinking", "reasoning", "reasoningEffort", "thinkingConfig"].some((name) => name in options);
}
