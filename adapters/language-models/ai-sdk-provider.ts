import type { Logger } from "gantry";
import { headerSecrets, type Model, type ModelChunk, type ModelRequest } from "gantry/plugin";
import { AiSdkModels, type OpenWire } from "./ai-sdk-models.js";
import { listAssumedModels, listModels } from "./catalogue.js";
import { RejectedRequest, toProviderError, type FaultContext } from "./errors.js";
import { readErrorBody } from "./bodies.js";
import { Network } from "./network.js";
import { resolveSettings, type AiSdkProviderOptions, type Settings } from "./options.js";
import { removePackageBetas } from "./beta-headers.js";
import type { WireName } from "./presets.js";
import { getCachedPrices, type CachedPrices, type PriceSource } from "./price-updates.js";
import { AnswerBody } from "./reading/answer-body.js";
import { createRedactor } from "./redactor.js";
import type { BuiltInWire } from "./wires/wire.js";

/**
 * A model provider over one of the built-in wire protocols. `prepare` or the first request loads the code that builds
 * requests.
 */
export class AiSdkProvider extends AiSdkModels {
  readonly #settings: Settings;
  readonly #faultContext: FaultContext;
  readonly #network: Network;
  readonly #priceSource: PriceSource | undefined;
  readonly #logger: Logger | undefined;
  readonly #closeController = new AbortController();
  /** The running refresh of prices; only `close` waits for it. */
  #priceRefresh: Promise<void> | undefined;

  /** Throws `ConfigError` if the options contradict each other. */
  constructor(options: AiSdkProviderOptions, logger?: Logger) {
    const settings = resolveSettings(options);
    const { name, apiKey, headers } = settings;
    const faultContext = { provider: name, redact: createRedactor([apiKey, ...headerSecrets(headers)]) };
    const network = new Network(faultContext);
    let wirePromise: Promise<OpenWire> | undefined;
    super(settings, faultContext, () => (wirePromise ??= openWire(settings, network, faultContext)), logger);
    this.#settings = settings;
    this.#faultContext = faultContext;
    this.#network = network;
    // Local models and models without prices need no price updates.
    this.#priceSource = settings.isLocal || settings.priceProvider === "" ? undefined : options.prices;
    this.#logger = logger;
  }

  override async models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    this.#getPrices();
    return await listModels(this.#settings, this.#network.read, this.#faultContext, signal);
  }

  override async close(): Promise<void> {
    this.#closeController.abort(new Error("closed"));
    await this.#network.close();
    await this.#priceRefresh;
  }

  async fallbackModels(): Promise<Model[]> {
    this.#getPrices();
    return await listAssumedModels(this.#settings);
  }

  override stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    this.#getPrices();
    return super.stream(request, signal);
  }

  protected override onAnswer(): void {
    this.#priceRefresh ??= this.#getPrices()
      ?.refresh(this.#network.read, this.#closeController.signal)
      .finally(() => (this.#priceRefresh = undefined));
  }

  /**
   * The cached prices of the price source; undefined without a source. The first call activates the prices for all
   * providers of the process, so that the start needs no prices.
   */
  #getPrices(): CachedPrices | undefined {
    return this.#priceSource && getCachedPrices(this.#priceSource, this.#logger);
  }
}

async function openWire(settings: Settings, network: Network, faultContext: FaultContext): Promise<OpenWire> {
  try {
    const wire = await loadWire(settings.wire);
    const buildRequest = await wire.createRequestBuilder(settings);
    return {
      wire,
      async send(wireRequest, options, signal) {
        const { url, headers, body } = removePackageBetas(await buildRequest(wireRequest, options), settings);
        await wireRequest.request.startAfter;
        const response = await network.send(url, { method: "POST", headers, body }, signal);
        if (!response.ok) throw new RejectedRequest(response, await readErrorBody(response.body));
        return new AnswerBody(response.body, url, wire.createReader(), faultContext);
      },
    };
  } catch (error) {
    // Example: a package is not installed.
    throw toProviderError(error, faultContext);
  }
}

async function loadWire(name: WireName): Promise<BuiltInWire> {
  switch (name) {
    case "openai":
      return (await import("./wires/openai.js")).wire;
    case "openai-responses":
      return (await import("./wires/openai-responses.js")).wire;
    case "anthropic":
      return (await import("./wires/anthropic.js")).wire;
    case "google":
      return (await import("./wires/google.js")).wire;
  }
}
