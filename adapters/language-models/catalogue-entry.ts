import { EFFORTS, type Model, type ModelPrices } from "gantry/plugin";
import type { Effort } from "./efforts.js";
import { bag, present, type Bag } from "./json.js";
import type { Settings } from "./options.js";

const LONGEST_ID = 256;
const LONGEST_NAME = 200;

// Models that answer with something other than text, to something other than a conversation, or without tools of others.
const NO_CHAT =
  /(^|[-_/.])(text-embedding|embed(ding)?s?|whisper|tts|dall-e|(omni-)?moderation|rerank(er)?|transcribe|transcription|realtime|audio|(gpt-)?image|imagen|veo|lyria|sora|guard|ocr|speech|stable-diffusion|sdxl|flux|davinci|babbage|clip|bge|aqa|orpheus|playai|computer-use|deep-research|search-(preview|api)|safeguard|live|voice)([-_/.:\d]|$)/i;
/** Control characters and halves of a character: no header and no line of a log takes them. */
const UNWRITABLE = /[\p{Cc}\p{Cs}]/u;
const CHAT_TYPES = new Set(["chat", "language", "llm", "vlm", "model", "text", "text-generation", "base"]);

const WINDOWS = [
  "context_length",
  "context_window",
  "max_context_length",
  "max_model_len",
  "n_ctx",
  "n_ctx_train",
  "inputTokenLimit",
  "max_input_tokens",
];
const OUTPUTS = [
  "max_completion_tokens",
  "max_output_tokens",
  "max_output_length",
  "outputTokenLimit",
  "max_completion_length",
];

/** What an entry of a listing tells of a model; undefined where it is none to talk to. */
export function readEntry(entry: Bag, settings: Settings): Model | undefined {
  const rawId = entry.id ?? entry.name ?? entry.model;
  if (typeof rawId !== "string" || rawId === "" || rawId.length > LONGEST_ID || UNWRITABLE.test(rawId))
    return undefined;
  const id = settings.wire === "google" ? rawId.replace(/^models\//, "") : rawId;
  if (!chats(entry, id)) return undefined;
  const limits = [entry, bag(entry.top_provider), bag(entry.metadata), bag(entry.meta), bag(entry.limits)];
  const contextWindow = first(limits, WINDOWS);
  const output = first(limits, settings.wire === "anthropic" ? ["max_tokens"] : OUTPUTS);
  return present({
    id,
    name:
      named(entry.display_name) ??
      named(entry.displayName) ??
      (entry.id === undefined ? undefined : named(entry.name)) ??
      id,
    ownedBy:
      named(entry.owned_by) ??
      named(entry.organization) ??
      (id.includes("/") ? id.slice(0, id.indexOf("/")) : settings.name),
    contextWindow,
    // A limit as large as the window would leave no room for the prompt.
    maxOutput: output !== undefined && output < (contextWindow ?? Infinity) ? output : undefined,
    reasoning: reasons(entry),
    efforts: effortsIn(entry),
    input: inputs(entry),
    prices: pricesOf(entry),
  });
}

function chats(entry: Bag, id: string): boolean {
  if (entry.active === false || entry.archived === true) return false;
  const methods = entry.supportedGenerationMethods;
  if (Array.isArray(methods) && !methods.includes("generateContent")) return false;
  if (bag(entry.capabilities).completion_chat === false) return false;
  const outputs = bag(entry.architecture).output_modalities;
  if (Array.isArray(outputs) && !outputs.includes("text")) return false;
  if (typeof entry.type === "string" && !CHAT_TYPES.has(entry.type)) return false;
  return !NO_CHAT.test(id);
}

function reasons(entry: Bag): boolean | undefined {
  if (typeof entry.thinking === "boolean") return entry.thinking;
  if (typeof entry.supports_reasoning === "boolean") return entry.supports_reasoning;
  if (Array.isArray(entry.supported_parameters)) return entry.supported_parameters.includes("reasoning");
  if (Array.isArray(entry.tags)) return entry.tags.includes("reasoning");
  const capabilities = entry.capabilities;
  if (Array.isArray(capabilities)) return capabilities.includes("thinking") || capabilities.includes("reasoning");
  const flag = bag(capabilities).reasoning ?? bag(capabilities).thinking;
  if (typeof flag === "boolean") return flag;
  return typeof bag(flag).supported === "boolean" ? (bag(flag).supported as boolean) : undefined;
}

/** What can be asked of it, as OpenRouter and Anthropic say it. */
function effortsIn(entry: Bag): readonly Effort[] | undefined {
  const listed = bag(entry.reasoning).supported_efforts;
  const flags = bag(bag(entry.capabilities).effort);
  if (!Array.isArray(listed) && flags.supported !== true) return undefined;
  const has = (effort: string): boolean =>
    Array.isArray(listed) ? listed.includes(effort) : bag(flags[effort]).supported === true;
  const efforts = EFFORTS.filter((effort): effort is Effort => effort !== "" && has(effort));
  return efforts.length > 0 ? efforts : undefined;
}

function inputs(entry: Bag): Model["input"] | undefined {
  const list = bag(entry.architecture).input_modalities ?? entry.input_modalities;
  if (Array.isArray(list)) return takes(list.includes("image"), list.includes("file") || list.includes("pdf"));
  const capabilities = bag(entry.capabilities);
  const vision =
    capabilities.vision ??
    bag(capabilities.image_input).supported ??
    entry.supports_image_in ??
    entry.supports_image_input ??
    entry.supports_vision;
  if (typeof vision === "boolean") return takes(vision, bag(capabilities.pdf_input).supported === true);
  if (Array.isArray(entry.tags)) return takes(entry.tags.includes("vision"), entry.tags.includes("file-input"));
  return entry.type === "vlm" ? takes(true, false) : undefined;
}

function takes(image: boolean, pdf: boolean): NonNullable<Model["input"]> {
  return ["text", ...(image ? ["image" as const] : []), ...(pdf ? ["pdf" as const] : [])];
}

/** Prices of the listing, per token as texts or per million as numbers. */
function pricesOf(entry: Bag): ModelPrices | undefined {
  const pricing = bag(entry.pricing ?? bag(entry.metadata).pricing);
  const input = perMillion(pricing.prompt ?? pricing.input ?? pricing.input_tokens);
  const output = perMillion(pricing.completion ?? pricing.output ?? pricing.output_tokens);
  if (input === undefined || output === undefined) return undefined;
  const cacheRead = perMillion(pricing.input_cache_read ?? pricing.cached_input ?? pricing.cache_read_tokens);
  return present({ input, output, cacheRead, cacheWrite: perMillion(pricing.input_cache_write) });
}

function perMillion(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) && value >= 0 ? value : undefined;
  // Routers say -1 where the price depends on who answers.
  if (typeof value !== "string" || value === "" || !(Number(value) >= 0)) return undefined;
  return Number((Number(value) * 1e6).toPrecision(12));
}

function first(sources: readonly Bag[], keys: readonly string[]): number | undefined {
  for (const source of sources) {
    for (const key of keys) {
      const value = source[key];
      if (typeof value === "number" && Number.isInteger(value) && value > 0) return value;
    }
  }
  return undefined;
}

function named(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" && !UNWRITABLE.test(value)
    ? value.slice(0, LONGEST_NAME)
    : undefined;
}
