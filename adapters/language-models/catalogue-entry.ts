import { EFFORTS, type Model, type ModelPrices } from "gantry/plugin";
import type { EffortLevel } from "./efforts.js";
import { asObject, type JsonObject } from "./json.js";
import { removeUndefined } from "./remove-undefined.js";
import type { Settings } from "./options.js";

const MAX_ID_CHARACTERS = 256;
const MAX_NAME_CHARACTERS = 200;

/** Ids of models for other media or tasks than conversations, and of models without custom tools. */
const NON_CHAT_ID_PATTERN =
  /(^|[-_/.])(text-embedding|embed(ding)?s?|whisper|tts|dall-e|(omni-)?moderation|rerank(er)?|transcribe|transcription|realtime|audio|(gpt-)?image|imagen|veo|lyria|sora|guard|ocr|speech|stable-diffusion|sdxl|flux|davinci|babbage|clip|bge|aqa|orpheus|playai|computer-use|deep-research|search-(preview|api)|safeguard|live|voice)([-_/.:\d]|$)/i;
/** Control characters and lone surrogates, which are invalid in headers and logs. */
const UNPRINTABLE_PATTERN = /[\p{Cc}\p{Cs}]/u;
const CHAT_TYPES = new Set(["chat", "language", "llm", "vlm", "model", "text", "text-generation", "base"]);

/** Fields that contain the context window in tokens. */
const WINDOW_KEYS = [
  "context_length",
  "context_window",
  "max_context_length",
  "max_model_len",
  "n_ctx",
  "n_ctx_train",
  "inputTokenLimit",
  "max_input_tokens",
  "max_prompt_tokens",
];
/** Fields that contain the maximum tokens of an answer. */
const OUTPUT_LIMIT_KEYS = [
  "max_completion_tokens",
  "max_output_tokens",
  "max_output_length",
  "outputTokenLimit",
  "max_completion_length",
];

/** Converts an entry of a model list. Undefined for an entry without a valid id, and for a model that cannot chat. */
export function readEntry(entry: JsonObject, settings: Settings): Model | undefined {
  const rawId = entry.id ?? entry.name ?? entry.model;
  if (typeof rawId !== "string" || rawId === "" || rawId.length > MAX_ID_CHARACTERS || UNPRINTABLE_PATTERN.test(rawId))
    return undefined;
  const id = settings.wire === "google" ? rawId.replace(/^models\//, "") : rawId;
  if (!canChat(entry, id)) return undefined;
  const limitSources = [
    entry,
    asObject(entry.top_provider),
    asObject(entry.metadata),
    asObject(entry.meta),
    asObject(entry.limits),
    asObject(asObject(entry.capabilities).limits),
  ];
  const contextWindow = findFirstPositive(limitSources, WINDOW_KEYS);
  const outputLimit = findFirstPositive(
    limitSources,
    settings.wire === "anthropic" ? ["max_tokens"] : OUTPUT_LIMIT_KEYS,
  );
  return removeUndefined({
    id,
    name:
      readPrintableName(entry.display_name) ??
      readPrintableName(entry.displayName) ??
      (entry.id === undefined ? undefined : readPrintableName(entry.name)) ??
      id,
    ownedBy:
      readPrintableName(entry.owned_by) ??
      readPrintableName(entry.organization) ??
      (id.includes("/") ? id.slice(0, id.indexOf("/")) : settings.name),
    contextWindow,
    // A limit as large as the window would leave no room for the prompt.
    maxOutput: outputLimit !== undefined && outputLimit < (contextWindow ?? Infinity) ? outputLimit : undefined,
    reasoning: canReason(entry),
    efforts: readEfforts(entry),
    input: readInput(entry),
    prices: readPrices(entry),
  });
}

function canChat(entry: JsonObject, id: string): boolean {
  if (entry.active === false || entry.archived === true) return false;
  const methods = entry.supportedGenerationMethods;
  if (Array.isArray(methods) && !methods.includes("generateContent")) return false;
  if (asObject(entry.capabilities).completion_chat === false) return false;
  const outputModalities = asObject(entry.architecture).output_modalities;
  if (Array.isArray(outputModalities) && !outputModalities.includes("text")) return false;
  const type = entry.type ?? asObject(entry.capabilities).type;
  if (typeof type === "string" && !CHAT_TYPES.has(type)) return false;
  return !NON_CHAT_ID_PATTERN.test(id);
}

function canReason(entry: JsonObject): boolean | undefined {
  if (typeof entry.thinking === "boolean") return entry.thinking;
  if (typeof entry.supports_reasoning === "boolean") return entry.supports_reasoning;
  if (Array.isArray(entry.supported_parameters)) return entry.supported_parameters.includes("reasoning");
  if (Array.isArray(entry.tags)) return entry.tags.includes("reasoning");
  const capabilities = entry.capabilities;
  if (Array.isArray(capabilities)) return capabilities.includes("thinking") || capabilities.includes("reasoning");
  const flag = asObject(capabilities).reasoning ?? asObject(capabilities).thinking;
  if (typeof flag === "boolean") return flag;
  return typeof asObject(flag).supported === "boolean" ? (asObject(flag).supported as boolean) : undefined;
}

/** Effort levels in the formats of OpenRouter and Anthropic. */
function readEfforts(entry: JsonObject): readonly EffortLevel[] | undefined {
  const listedEfforts = asObject(entry.reasoning).supported_efforts;
  const flags = asObject(asObject(entry.capabilities).effort);
  if (!Array.isArray(listedEfforts) && flags.supported !== true) return undefined;
  const isSupported = (effort: string): boolean =>
    Array.isArray(listedEfforts) ? listedEfforts.includes(effort) : asObject(flags[effort]).supported === true;
  const efforts = EFFORTS.filter((effort): effort is EffortLevel => effort !== "" && isSupported(effort));
  return efforts.length > 0 ? efforts : undefined;
}

function readInput(entry: JsonObject): Model["input"] | undefined {
  const modalities = asObject(entry.architecture).input_modalities ?? entry.input_modalities;
  if (Array.isArray(modalities))
    return toInput(modalities.includes("image"), modalities.includes("file") || modalities.includes("pdf"));
  const capabilities = asObject(entry.capabilities);
  const supportsVision =
    capabilities.vision ??
    asObject(capabilities.supports).vision ??
    asObject(capabilities.image_input).supported ??
    entry.supports_image_in ??
    entry.supports_image_input ??
    entry.supports_vision;
  if (typeof supportsVision === "boolean")
    return toInput(supportsVision, asObject(capabilities.pdf_input).supported === true);
  if (Array.isArray(entry.tags)) return toInput(entry.tags.includes("vision"), entry.tags.includes("file-input"));
  return entry.type === "vlm" ? toInput(true, false) : undefined;
}

function toInput(acceptsImages: boolean, acceptsPdf: boolean): NonNullable<Model["input"]> {
  return ["text", ...(acceptsImages ? ["image" as const] : []), ...(acceptsPdf ? ["pdf" as const] : [])];
}

/** Prices in USD per million tokens. The list has strings per token, or numbers per million tokens. */
function readPrices(entry: JsonObject): ModelPrices | undefined {
  const pricing = asObject(entry.pricing ?? asObject(entry.metadata).pricing);
  const input = toPricePerMillion(pricing.prompt ?? pricing.input ?? pricing.input_tokens);
  const output = toPricePerMillion(pricing.completion ?? pricing.output ?? pricing.output_tokens);
  if (input === undefined || output === undefined) return undefined;
  const cacheRead = toPricePerMillion(pricing.input_cache_read ?? pricing.cached_input ?? pricing.cache_read_tokens);
  return removeUndefined({ input, output, cacheRead, cacheWrite: toPricePerMillion(pricing.input_cache_write) });
}

function toPricePerMillion(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) && value >= 0 ? value : undefined;
  // Routers report -1 if the price depends on the serving provider.
  if (typeof value !== "string" || value === "" || !(Number(value) >= 0)) return undefined;
  // 12 digits, so that the multiplication leaves no rounding error.
  return Number((Number(value) * 1e6).toPrecision(12));
}

function findFirstPositive(sources: readonly JsonObject[], keys: readonly string[]): number | undefined {
  for (const source of sources) {
    for (const key of keys) {
      const value = source[key];
      if (typeof value === "number" && Number.isInteger(value) && value > 0) return value;
    }
  }
  return undefined;
}

function readPrintableName(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" && !UNPRINTABLE_PATTERN.test(value)
    ? value.slice(0, MAX_NAME_CHARACTERS)
    : undefined;
}
