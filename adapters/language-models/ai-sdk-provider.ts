import type { Logger } from "gantry";
import { headerSecrets, type Model, type ModelChunk, type ModelRequest } from "gantry/plugin";
import { AiSdkModels, type OpenWire } from "./ai-sdk-models.js";
import { assumedModels, listModels } from "./catalogue.js";
import { RejectedRequest, toProviderError, type FaultContext } from "./errors.js";
import { readError } from "./bodies.js";
import { Network } from "./network.js";
import { resolveSettings, type AiSdkProviderOptions, type Settings } from "./options.js";
import { ownBetas } from "./beta-headers.js";
import type { WireName } from "./presets.js";
import { getCachedPrices, type CachedPrices, type PriceSource } from "./price-updates.js";
import { AnswerBody } from "./reading/answer-body.js";
import { redactor } from "./redact.js";
import type { BuiltInWire } from "./wires/wire.js";

/**
 * Models over one of four wire protocols. The code that writes requests is loaded by `prepare` or the first request.
 */
export class AiSdkProvider extends AiSdkModels {
  readonly #settings: Settings;
  readonly #faults: FaultContext;
  readonly #network: Network;
  readonly #priceSource: PriceSource | undefined;
  readonly #logger: Logger | undefined;
  readonly #closing = new AbortController();
  /** The running refresh of prices; only `close` waits for it. */
  #refreshing: Promise<void> | undefined;

  /** Throws `ConfigError` if the options contradict each other. */
  constructor(options: AiSdkProviderOptions, logger?: Logger) {
    const settings = resolveSettings(options);
    const { name, apiKey, headers } = settings;
    const faults = { provider: name, redact: redactor([apiKey, ...headerSecrets(headers)]) };
    const network = new Network(faults);
    let opening: Promise<OpenWire> | undefined;
    super(settings, faults, () => (opening ??= openWire(settings, network, faults)), logger);
    this.#settings = settings;
    this.#faults = faults;
    this.#network = network;
    // Local models and models without prices need no price updates.
    this.#priceSource = settings.local || settings.priceProvider === "" ? undefined : options.prices;
    this.#logger = logger;
  }

  override async models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    this.#prices();
    return await listModels(this.#settings, this.#network.read, this.#faults, signal);
  }

  override async close(): Promise<void> {
    this.#closing.abort(new Error("closed"));
    await this.#network.close();
    await this.#refreshing;
  }

  async fallbackModels(): Promise<Model[]> {
    this.#prices();
    return await assumedModels(this.#settings);
  }

  override stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    this.#prices();
    return super.stream(request, signal);
  }

  protected override onAnswer(): void {
    this.#refreshing ??= this.#prices()
      ?.refresh(this.#network.read, this.#closing.signal)
      .finally(() => (this.#refreshing = undefined));
  }

  /** The cached prices, which are in effect from the first call on. Created on demand: the start does not need them. */
  #prices(): CachedPrices | undefined {
    return this.#priceSource && getCachedPrices(this.#priceSource, this.#logger);
  }
}

async function openWire(settings: Settings, network: Network, faults: FaultContext): Promise<OpenWire> {
  try {
    const wire = await loadWire(settings.wire);
    const write = await wire.open(settings);
    return {
      wire,
      async ask(asking, options, signal) {
        const { url, headers, body } = ownBetas(await write(asking, options), settings);
        await asking.request.startAfter;
        const answer = await network.ask(url, { method: "POST", headers, body }, signal);
        if (!answer.ok) throw new RejectedRequest(answer, await readError(answer.body));
        return new AnswerBody(answer.body, url, wire.reader(), faults);
      },
    };
  } catch (error) {
    // Example: a package is not installed.
    throw toProviderError(error, faults);
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
