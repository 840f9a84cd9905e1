import type { Logger } from "gantry";
import {
  headerSecrets,
  nearestEffort,
  type Model,
  type ModelChunk,
  type ModelPrices,
  type ModelProvider,
  type ModelRequest,
  type ModelUsage,
  type WebSearchResult,
} from "gantry/plugin";
import { completeModel, listAssumedModels, listModels } from "./catalogue.js";
import { COMMON_EFFORTS, effortsOf } from "./efforts.js";
import type { FaultContext } from "./errors.js";
import type { Host, HostContext } from "./hosts/host.js";
import type { ModelCallOptions } from "./language-model.js";
import { calculateAnswerLimit } from "./limits.js";
import { PrefixCache, toPrompt } from "./messages.js";
import { Network } from "./network.js";
import { loadHost, openWire } from "./open-wire.js";
import { resolveSettings, type AiSdkProviderOptions, type PriceSource, type Settings } from "./options.js";
import { getCachedPrices, type CachedPrices } from "./price-updates.js";
import { findListedCost, findListedPrices } from "./prices.js";
import { createRedactor } from "./redactor.js";
import { RejectedParameters } from "./rejected-parameters.js";
import { streamAnswer, type Attempt } from "./stream.js";
import type { ReportedUsage } from "./usage.js";
import type { OpenWire, OptionalParameter, Wire, WireRequest } from "./wires/wire.js";

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
  protected readonly settings: Settings;
  protected readonly faultContext: FaultContext;
  protected readonly logger: Logger | undefined;
  readonly #openWire: () => Promise<OpenWire>;
  readonly #rejectedParameters: RejectedParameters;
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
    this.settings = settings;
    this.faultContext = faultContext;
    this.logger = logger;
    this.#openWire = openWire;
    this.#rejectedParameters = new RejectedParameters(logger);
  }

  get isFree(): boolean {
    return this.settings.isFree;
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
    const request: ModelRequest = {
      ...modelRequest,
      effort: mayReason && modelRequest.effort !== "" ? this.#findEffort(modelRequest) : "",
      needsReasoning: mayReason && modelRequest.needsReasoning !== false,
    };
    const settledParameters = new Set<OptionalParameter>();
    return streamAnswer(() => this.#createAttempt(request, signal, settledParameters), request, signal);
  }

  prices(model: Model, promptTokens: number): Promise<ModelPrices | undefined> {
    return findListedPrices(model.id, promptTokens, this.settings);
  }

  async close(): Promise<void> {}

  /** Called after the cost of a complete answer was determined. Not called if the provider reports no usage. */
  protected onAnswer(): void {}

  #findEffort({ model, effort }: ModelRequest): ModelRequest["effort"] {
    const knownEfforts = model.efforts ?? effortsOf(model, this.settings);
    // A package of `fromAiSdk`, which has no URL here, receives the requested effort unchanged.
    return nearestEffort(effort, knownEfforts ?? (this.settings.baseUrl === "" ? undefined : COMMON_EFFORTS));
  }

  /** `settledParameters`: parameters whose rejection causes no further attempt of this request. */
  async #createAttempt(
    request: ModelRequest,
    signal: AbortSignal,
    settledParameters: Set<OptionalParameter>,
  ): Promise<Attempt> {
    const { model } = request;
    const { wire, send } = await this.#openWire();
    const maxTokens = calculateAnswerLimit(request, await wire.maxOutput?.(model, this.settings));
    const rejectedParameters = this.#rejectedParameters.findByModel(model.id);
    for (const parameter of rejectedParameters) settledParameters.add(parameter);
    const wireRequest: WireRequest = { request, settings: this.settings, rejectedParameters, maxTokens };
    const { options, sentParameters } = await this.#createOptions(wire, wireRequest);
    const context = {
      ...this.faultContext,
      wire,
      reasoningMark: wire.reasoningMark?.(model.id),
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
    const input = new Set(model.input ?? wire.input(model, settings));
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
    const reportedCost = wire.readCost(reported, this.settings);
    if (reportedCost !== undefined) return { ...usage, cost: reportedCost, costReported: true };
    if (model.prices !== undefined) return usage;
    const priceListCost = await findListedCost(usage, model.id, this.settings);
    return priceListCost === undefined ? usage : { ...usage, cost: priceListCost };
  }
}

/** Whether provider options contain a thinking parameter. Some wires send one without a requested effort. */
function mentionsThinking(options: object): boolean {
  return ["thinking", "reasoning", "reasoningEffort", "thinkingConfig"].some((name) => name in options);
}

/**
 * A model provider over one of the built-in wire protocols. `prepare` or the first request loads the code that builds
 * requests.
 */
export class AiSdkProvider extends AiSdkModels {
  readonly #hostContext: HostContext;
  readonly #priceSource: PriceSource | undefined;
  readonly #closeController = new AbortController();
  /** The running refresh of prices; only `close` waits for it. */
  #priceRefresh: Promise<void> | undefined;

  readonly #hostLoader: () => Promise<Host | undefined>;

  /**
   * Throws `ConfigError` if the options contradict each other. `configDir`: folder of the config file, for packages of
   * presets that need one.
   */
  constructor(options: AiSdkProviderOptions, logger?: Logger, configDir?: string) {
    const settings = resolveSettings(options);
    const { name, apiKey, headers } = settings;
    const { host, keyVariables = [] } = settings.preset ?? {};
    const faultContext = {
      provider: name,
      redact: createRedactor([apiKey, ...headerSecrets(headers)]),
      // A configured address never receives the key of a variable. Hosts have credentials of another kind.
      keyVariables: host ? undefined : options.baseUrl === undefined ? keyVariables : [],
    };
    const network = new Network(faultContext);
    let wirePromise: Promise<OpenWire> | undefined;
    let hostPromise: Promise<Host | undefined> | undefined;
    const hostContext = { settings, network, faultContext, configDir };
    const loadPresetHost = () => (hostPromise ??= loadHost(hostContext));
    const open = () => (wirePromise ??= openWire(hostContext, loadPresetHost));
    super(settings, faultContext, open, logger);
    this.#hostLoader = loadPresetHost;
    this.#hostContext = hostContext;
    // Local models and models without prices need no price updates.
    this.#priceSource = settings.isLocal || settings.priceProvider === "" ? undefined : options.prices;
  }

  override async models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    this.#getPrices();
    const { preset } = this.settings;
    // The code for hosts is part of the first request. Most lists need none.
    const host = preset?.host && preset.hasModelList !== false ? await this.#hostLoader() : undefined;
    const settings = (await host?.authorizeSettings?.(signal)) ?? this.settings;
    return await listModels(settings, this.#hostContext.network.read, this.faultContext, signal);
  }

  override async close(): Promise<void> {
    this.#closeController.abort(new Error("closed"));
    await this.#hostContext.network.close();
    await this.#priceRefresh;
  }

  async fallbackModels(): Promise<Model[]> {
    this.#getPrices();
    return await listAssumedModels(this.settings);
  }

  override stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    this.#getPrices();
    return super.stream(request, signal);
  }

  async *searchWeb(
    request: ModelRequest,
    onResult: (result: WebSearchResult) => void,
    signal: AbortSignal,
  ): AsyncGenerator<ModelChunk> {
    const { openSearch } = await import("./web-search.js");
    const { openWire, addPrice } = await openSearch(this.#hostContext, this.#hostLoader, onResult);
    const models = new AiSdkModels(this.settings, this.faultContext, async () => openWire, this.logger);
    for await (const chunk of models.stream(request, signal)) yield addPrice(chunk);
  }

  protected override onAnswer(): void {
    this.#priceRefresh ??= this.#getPrices()
      ?.refresh(this.#hostContext.network.read, this.#closeController.signal)
      .finally(() => (this.#priceRefresh = undefined));
  }

  /**
   * The cached prices of the price source; undefined without a source. The first call activates the prices for all
   * providers of the process, so that the start needs no prices.
   */
  #getPrices(): CachedPrices | undefined {
    return this.#priceSource && getCachedPrices(this.#priceSource, this.logger);
  }
}
