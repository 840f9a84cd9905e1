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
import { COMMON, effortsOf, type Effort } from "./efforts.js";
import type { FaultContext } from "./errors.js";
import { inputOf } from "./files.js";
import type { CallOptions } from "./language-model.js";
import { answerLimit } from "./limits.js";
import { PromptMemory, toPrompt } from "./messages.js";
import type { Settings } from "./options.js";
import { listedCost, listedPrices } from "./prices.js";
import type { PartSource } from "./reading/answer-body.js";
import { RejectedParameters } from "./rejected-parameters.js";
import { streamAnswer, type Attempt } from "./stream.js";
import type { ReportedUsage } from "./usage.js";
import type { Asking, Optional, Wire } from "./wires/wire.js";

/** A wire that is ready to ask. */
export interface OpenWire {
  readonly wire: Wire;
  /** Sends nothing before the request's `before`. Rejects with anything: a fault of the provider, an abort. */
  ask(asking: Asking, options: CallOptions, signal: AbortSignal): Promise<PartSource>;
}

/** Models of the AI SDK as the kernel asks them, whoever writes their requests and reads their answers. */
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
  /** A package knows its own models. */
  get #common(): readonly Effort[] | undefined {
    return this.#settings.baseUrl === "" ? undefined : COMMON;
  }
  /** Made with the first request: no start needs it. */
  #memory: PromptMemory | undefined;

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

  stream(asked: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    const { model } = asked;
    // An effort is for models that reason; those that are said not to refuse it.
    const none = model.reasoning === false;
    const effort = none
      ? ""
      : nearestEffort(asked.effort, model.efforts ?? effortsOf(model, this.#settings) ?? this.#common);
    const request: ModelRequest = { ...asked, effort, needsReasoning: !none && asked.needsReasoning !== false };
    const settled = new Set<Optional>();
    return streamAnswer(() => this.#attempt(request, signal, settled), request, signal);
  }

  prices(model: Model, promptTokens: number): Promise<ModelPrices | undefined> {
    return listedPrices(model.id, promptTokens, this.#settings);
  }

  async close(): Promise<void> {}

  /** An answer is whole, and its price is known. */
  protected answered(): void {}

  /** `settled`: refusals that no later attempt of this request can learn again. */
  async #attempt(request: ModelRequest, signal: AbortSignal, settled: Set<Optional>): Promise<Attempt> {
    const { model } = request;
    const { wire, ask } = await this.#open();
    const maxTokens = answerLimit(request, await wire.maxOutput?.(model));
    const refused = this.#refusals.of(model.id);
    for (const parameter of refused) settled.add(parameter);
    const asking: Asking = { request, settings: this.#settings, refused, maxTokens };
    const { options, sent } = await this.#options(wire, asking);
    const reading = {
      ...this.#faults,
      wire,
      mark: wire.reasoningMark,
      price: async (reported: ReportedUsage) => {
        const usage = await this.#price(reported, wire, model);
        this.answered();
        return usage;
      },
    };
    return {
      reading,
      ask: () => ask(asking, options, signal),
      again: (fault) => this.#refusals.learn(model.id, fault, sent, settled),
    };
  }

  async #options(wire: Wire, asking: Asking): Promise<{ options: CallOptions; sent: ReadonlySet<Optional> }> {
    const { request, settings, refused, maxTokens } = asking;
    const { model, temperature, tools } = request;
    const input = inputOf(model, wire.input(model, settings));
    const sent = new Set<Optional>(wire.optional?.(asking));
    const rules = { provider: this.name, model: model.id, input, ...wire.rules(model, settings) };
    // Who asks a package of others asks with a prompt that is its own.
    const memory = wire.keepsPrompts ? (this.#memory ??= new PromptMemory()) : undefined;
    const base: CallOptions = { prompt: toPrompt(request, rules, memory) };
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
    if (outputSchema !== undefined && !refused.has("json") && (await wire.ownJson?.(asking)) === true) {
      base.responseFormat = { type: "json", schema: outputSchema, name: "answer" };
      sent.add("json");
    }
    const options: CallOptions = { ...base, ...(await wire.options(asking, base)) };
    if (request.effort !== "" || Object.values(options.providerOptions ?? {}).some(asksToThink)) sent.add("effort");
    if (options.maxOutputTokens !== undefined) sent.add("max_tokens");
    return { options, sent };
  }

  async #price(reported: ReportedUsage, wire: Wire, model: Model): Promise<ModelUsage> {
    const { usage } = reported;
    const said = wire.cost(reported, this.#settings);
    if (said !== undefined) return { ...usage, cost: said, costReported: true };
    if (model.prices !== undefined) return usage;
    const listed = await listedCost(usage, model.id, this.#settings);
    return listed === undefined ? usage : { ...usage, cost: listed };
  }
}

/** Whether the options of a wire say something of thinking, unasked perhaps. */
function asksToThink(options: object): boolean {
  return ["thinking", "reasoning", "reasoningEffort", "thinkingConfig"].some((name) => name in options);
}
