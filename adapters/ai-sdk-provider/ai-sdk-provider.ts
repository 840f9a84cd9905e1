import {
  headerSecrets,
  type Logger,
  type Model,
  type ModelChunk,
  type ModelProvider,
  type ModelRequest,
  type ModelUsage,
} from "gantry";
import { Refusals } from "./refusals.js";
import { complete, listModels } from "./catalogue.js";
import { toProviderError, type FaultContext } from "./errors.js";
import { Network } from "./fetch.js";
import { inputOf } from "./files.js";
import { ownBetas } from "./own-betas.js";
import type { AiSdkModel, CallOptions } from "./language-model.js";
import { answerLimit } from "./limits.js";
import { toPrompt } from "./messages.js";
import { settle, type AiSdkProviderOptions, type Settings } from "./options.js";
import type { WireName } from "./presets.js";
import { listedCost, reportedCost } from "./prices.js";
import { redactor } from "./redact.js";
import { handOver } from "./reading/hand-over.js";
import { streamAnswer, type Reading } from "./stream.js";
import type { ReportedUsage } from "./usage.js";
import type { Asking, Optional, Wire } from "./wires/wire.js";

interface OpenWire {
  wire: Wire;
  model: (modelId: string, asking: Asking) => AiSdkModel;
}

/** Models behind one of four wire protocols, on the provider packages of the AI SDK, which are loaded with the first call. */
export class AiSdkProvider implements ModelProvider {
  readonly name: string;
  readonly idleTimeoutMs: number;
  readonly maxRetries: number;
  readonly maxWaitMs: number;
  readonly known: readonly Model[];
  readonly #settings: Settings;
  readonly #faults: FaultContext;
  readonly #network: Network;
  readonly #refusals: Refusals;
  #opening: Promise<OpenWire> | undefined;

  /** Throws `ConfigError` when the options contradict each other. */
  constructor(options: AiSdkProviderOptions, logger?: Logger) {
    const settings = settle(options);
    this.#settings = settings;
    this.#refusals = new Refusals(logger);
    this.name = settings.name;
    this.idleTimeoutMs = settings.idleTimeoutMs;
    this.maxRetries = settings.maxRetries;
    this.maxWaitMs = settings.maxWaitMs;
    this.known = settings.models.map((model) => complete(model, settings.name));
    this.#faults = { provider: settings.name, redact: redactor([settings.apiKey, ...headerSecrets(settings.headers)]) };
    this.#network = new Network(this.#faults);
  }

  async models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    return await listModels(this.#settings, this.#network.read, this.#faults, signal);
  }

  async *stream(asked: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelChunk, void, undefined> {
    signal.throwIfAborted();
    // An effort is for models that reason; those that are said not to refuse it.
    const request: ModelRequest = asked.model.reasoning === false ? { ...asked, effort: "" } : asked;
    const { wire, model } = await this.#open();
    yield* this.#refusals.answer(request.model.id, async (refused) => {
      const maxTokens = answerLimit(request, await wire.maxOutput?.(request.model));
      const asking: Asking = { request, settings: this.#settings, refused, maxTokens };
      const { options, sent } = await this.#options(wire, asking);
      return {
        sent,
        chunks: streamAnswer(model(request.model.id, asking), options, request, this.#reading(wire, request), signal),
      };
    });
  }

  async close(): Promise<void> {
    await this.#network.close();
  }

  #open(): Promise<OpenWire> {
    this.#opening ??= this.#load();
    return this.#opening;
  }

  async #load(): Promise<OpenWire> {
    try {
      const wire = await loadWire(this.#settings.wire);
      const fetch = handOver(ownBetas(this.#network.fetch, this.#settings));
      return { wire, model: await wire.open(this.#settings, fetch) };
    } catch (error) {
      // A package that is not installed, for instance.
      throw toProviderError(error, this.#faults);
    }
  }

  async #options(wire: Wire, asking: Asking): Promise<{ options: CallOptions; sent: ReadonlySet<Optional> }> {
    const { request, refused } = asking;
    const settings = this.#settings;
    const { model } = request;
    const base: CallOptions = {
      prompt: toPrompt(request, {
        provider: settings.name,
        model: model.id,
        input: inputOf(model, wire.input(model, settings)),
        ...wire.rules(model, settings),
      }),
    };
    if (request.tools.length > 0) {
      base.tools = request.tools.map(({ name, description, inputSchema }) => ({
        type: "function",
        name,
        description,
        inputSchema,
      }));
    }
    const options: CallOptions = { ...base, ...(await wire.options(asking, base)) };
    const sent = new Set<Optional>();
    if (request.temperature !== undefined && !refused.has("temperature") && !/^(o\d|gpt-5)/.test(model.id)) {
      options.temperature = request.temperature;
      sent.add("temperature");
    }
    if (request.effort !== "") sent.add("effort").add("summary");
    if (options.maxOutputTokens !== undefined) sent.add("max_tokens");
    sent.add("cache_key").add("stream_options").add("summary");
    return { options, sent };
  }

  #reading(wire: Wire, request: ModelRequest): Reading {
    const mark = wire.reasoningMark?.(this.#settings);
    return {
      ...this.#faults,
      reader: () => wire.reader(),
      thinkTags: wire.thinkTags === true,
      ...(mark === undefined ? {} : { reasoningMark: mark }),
      ...(wire.answerData === undefined ? {} : { answerData: wire.answerData }),
      price: (reported) => this.#price(reported, request.model),
    };
  }

  async #price(reported: ReportedUsage, model: Model): Promise<ModelUsage> {
    const said = reportedCost(reported, this.#settings);
    if (said !== undefined) return { ...reported.usage, cost: said, costReported: true };
    if (model.prices !== undefined) return reported.usage;
    const listed = await listedCost(reported.usage, model.id, this.#settings);
    return listed === undefined ? reported.usage : { ...reported.usage, cost: listed };
  }
}

async function loadWire(name: WireName): Promise<Wire> {
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
