import { headerSecrets, type Logger, type Model } from "gantry";
import { AiSdkModels, type OpenWire } from "./ai-sdk-models.js";
import { listModels } from "./catalogue.js";
import { Refused, toProviderError, type FaultContext } from "./errors.js";
import { readError } from "./bodies.js";
import { Network } from "./network.js";
import { settle, type AiSdkProviderOptions, type Settings } from "./options.js";
import { ownBetas } from "./own-betas.js";
import type { WireName } from "./presets.js";
import { AnswerBody } from "./reading/answer-body.js";
import { redactor } from "./redact.js";
import type { OwnWire } from "./wires/wire.js";

/** Models behind one of four wire protocols. What writes their requests is loaded with the first call. */
export class AiSdkProvider extends AiSdkModels {
  readonly #settings: Settings;
  readonly #faults: FaultContext;
  readonly #network: Network;

  /** Throws `ConfigError` when the options contradict each other. */
  constructor(options: AiSdkProviderOptions, logger?: Logger) {
    const settings = settle(options);
    const { name, apiKey, headers } = settings;
    const faults = { provider: name, redact: redactor([apiKey, ...headerSecrets(headers)]) };
    const network = new Network(faults);
    let opening: Promise<OpenWire> | undefined;
    super(settings, faults, () => (opening ??= openWire(settings, network, faults)), logger);
    this.#settings = settings;
    this.#faults = faults;
    this.#network = network;
  }

  override async models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    return await listModels(this.#settings, this.#network.read, this.#faults, signal);
  }

  override async close(): Promise<void> {
    await this.#network.close();
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
        await asking.request.before;
        const answer = await network.ask(url, { method: "POST", headers, body }, signal);
        if (!answer.ok) throw new Refused(answer, await readError(answer.body));
        return new AnswerBody(answer.body, url, wire.reader(), faults);
      },
    };
  } catch (error) {
    // A package that is not installed, for instance.
    throw toProviderError(error, faults);
  }
}

async function loadWire(name: WireName): Promise<OwnWire> {
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
