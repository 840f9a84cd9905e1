import { ProviderError, type Model, type ModelPrices } from "gantry";
import { toProviderError, whyUnreadable, type FaultContext } from "./errors.js";
import { familiar } from "./families.js";
import { FAVOURITES } from "./favourites.js";
import { BODY_LIMITS } from "./bodies.js";
import type { Read } from "./fetch.js";
import { enrichLocal } from "./local-catalogue.js";
import type { ConfiguredModel, Settings } from "./options.js";
import { listedWindows } from "./prices.js";

const LONGEST_MS = 30_000;
const PAGES = 20;
/** More than any provider has; what a list holds beyond is left out. */
const MOST_MODELS = 10_000;
const LONGEST_ID = 256;
const LONGEST_NAME = 200;

type Entry = Readonly<Record<string, unknown>>;

/** The provider's models by plain fetch, completed from configuration and the price list, those worth a first try first. */
export async function listModels(
  settings: Settings,
  read: Read,
  context: FaultContext,
  signal: AbortSignal,
): Promise<Model[]> {
  const entries = await entriesOf(settings, read, context, signal);
  const windows = await listedWindows(settings);
  const listed = new Map<string, Model>();
  for (const entry of entries) {
    const model = readEntry(entry, settings);
    if (model === undefined || listed.has(model.id)) continue;
    const known = windows(model.id);
    if (known?.name !== undefined && model.name === model.id) model.name = known.name;
    model.contextWindow ??= known?.contextWindow;
    if (model.contextWindow === undefined) delete model.contextWindow;
    listed.set(model.id, { ...familiar(model.id), ...model });
  }
  const configured = settings.models.map((model) => complete({ ...listed.get(model.id), ...model }, settings.name));
  for (const { id } of configured) listed.delete(id);
  return [...configured, ...ordered([...listed.values()], entries, settings)];
}

async function entriesOf(settings: Settings, read: Read, context: FaultContext, signal: AbortSignal): Promise<Entry[]> {
  const { preset } = settings;
  const known = (preset?.models ?? []).map((id) => ({ id }));
  if (preset?.listing === false) return known;
  const timeout = AbortSignal.timeout(LONGEST_MS);
  const either = AbortSignal.any([signal, timeout]);
  try {
    return await enrichLocal(await fetchEntries(settings, read, context, either), settings, read, either);
  } catch (error) {
    signal.throwIfAborted();
    if (timeout.aborted)
      throw new ProviderError(context.provider, "timeout", `no list of models within ${LONGEST_MS / 1000} s`);
    const fault = toProviderError(error, context);
    if (fault.kind === "not_found" && known.length > 0) return known;
    throw fault;
  }
}

/** A model with a name and an owner, and with what its family is known for. */
export function complete(model: ConfiguredModel, provider: string): Model {
  return { ...familiar(model.id), ...model, name: model.name ?? model.id, ownedBy: model.ownedBy ?? provider };
}

async function fetchEntries(
  settings: Settings,
  read: Read,
  context: FaultContext,
  signal: AbortSignal,
): Promise<Entry[]> {
  const { wire, baseUrl } = settings;
  const headers = { accept: "application/json", ...keyHeaders(settings), ...settings.headers };
  const entries: Entry[] = [];
  let query = wire === "anthropic" ? "?limit=1000" : wire === "google" ? "?pageSize=1000" : "";
  let left = BODY_LIMITS.list;
  for (let page = 0; page < PAGES && entries.length < MOST_MODELS; page++) {
    const url = `${baseUrl}/models${query}`;
    const response = await read(url, { headers, signal }, left, "a list of models");
    const { text } = response;
    left -= response.bytes;
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      body = undefined;
    }
    if (!response.ok) {
      throw toProviderError(
        { statusCode: response.status, responseBody: text, responseHeaders: Object.fromEntries(response.headers) },
        context,
      );
    }
    if (body === undefined) throw new ProviderError(context.provider, "protocol", context.redact(whyUnreadable(text)));
    const list = listOf(body);
    if (list === undefined)
      throw new ProviderError(context.provider, "protocol", "the list of models has an unknown shape");
    for (const entry of list.slice(0, MOST_MODELS - entries.length)) entries.push(bag(entry));
    const next = bag(body);
    if (wire === "google" && typeof next.nextPageToken === "string" && next.nextPageToken !== "") {
      query = `?pageSize=1000&pageToken=${encodeURIComponent(next.nextPageToken)}`;
    } else if (wire === "anthropic" && next.has_more === true && typeof next.last_id === "string") {
      query = `?limit=1000&after_id=${encodeURIComponent(next.last_id)}`;
    } else break;
  }
  return entries;
}

function keyHeaders({ wire, apiKey, quirks }: Settings): Record<string, string> {
  if (wire === "anthropic")
    return { "anthropic-version": "2023-06-01", ...(apiKey === undefined ? {} : { "x-api-key": apiKey }) };
  if (apiKey === undefined) return {};
  if (wire === "google") return { "x-goog-api-key": apiKey };
  return quirks.keyHeader === undefined ? { authorization: `Bearer ${apiKey}` } : { [quirks.keyHeader]: apiKey };
}

function listOf(body: unknown): unknown[] | undefined {
  const list = Array.isArray(body) ? (body as unknown[]) : (bag(body).data ?? bag(body).models);
  return Array.isArray(list) ? (list as unknown[]) : undefined;
}

// Models that answer with something other than text, or to something other than a conversation.
const NO_CHAT =
  /(^|[-_/.])(text-embedding|embed(ding)?s?|whisper|tts|dall-e|(omni-)?moderation|rerank(er)?|transcribe|transcription|realtime|audio|(gpt-)?image|imagen|veo|lyria|sora|guard|ocr|speech|stable-diffusion|sdxl|flux|davinci|babbage|clip|bge|aqa|orpheus|playai)([-_/.:\d]|$)/i;
/** Control characters and halves of a character: no header and no line of a log takes them. */
const UNWRITABLE = /[\p{Cc}\p{Cs}]/u;
const CHAT_TYPES = new Set(["chat", "language", "llm", "vlm", "model", "text", "text-generation", "base"]);

function readEntry(entry: Entry, settings: Settings): Model | undefined {
  const rawId = entry.id ?? entry.name ?? entry.model;
  if (typeof rawId !== "string" || rawId === "" || rawId.length > LONGEST_ID || UNWRITABLE.test(rawId))
    return undefined;
  const id = settings.wire === "google" ? rawId.replace(/^models\//, "") : rawId;
  if (!chats(entry, id)) return undefined;
  const limits = [entry, bag(entry.top_provider), bag(entry.metadata), bag(entry.meta), bag(entry.limits)];
  const model: Model = {
    id,
    name:
      text(entry.display_name) ??
      text(entry.displayName) ??
      (entry.id === undefined ? undefined : text(entry.name)) ??
      id,
    ownedBy:
      text(entry.owned_by) ??
      text(entry.organization) ??
      (id.includes("/") ? id.slice(0, id.indexOf("/")) : settings.name),
  };
  const window = first(limits, [
    "context_length",
    "context_window",
    "max_context_length",
    "max_model_len",
    "n_ctx",
    "n_ctx_train",
    "inputTokenLimit",
    "max_input_tokens",
  ]);
  if (window !== undefined) model.contextWindow = window;
  const output = first(
    limits,
    settings.wire === "anthropic"
      ? ["max_tokens"]
      : [
          "max_completion_tokens",
          "max_output_tokens",
          "max_output_length",
          "outputTokenLimit",
          "max_completion_length",
        ],
  );
  // A limit as large as the window would leave no room for the prompt.
  if (output !== undefined && (window === undefined || output < window)) model.maxOutput = output;
  const reasoning = reasons(entry);
  if (reasoning !== undefined) model.reasoning = reasoning;
  const input = inputs(entry);
  if (input !== undefined) model.input = input;
  const prices = pricesOf(entry);
  if (prices !== undefined) model.prices = prices;
  return model;
}

function chats(entry: Entry, id: string): boolean {
  if (entry.active === false || entry.archived === true) return false;
  const methods = entry.supportedGenerationMethods;
  if (Array.isArray(methods) && !methods.includes("generateContent")) return false;
  if (bag(entry.capabilities).completion_chat === false) return false;
  const outputs = bag(entry.architecture).output_modalities;
  if (Array.isArray(outputs) && !outputs.includes("text")) return false;
  if (typeof entry.type === "string" && !CHAT_TYPES.has(entry.type)) return false;
  return !NO_CHAT.test(id);
}

function reasons(entry: Entry): boolean | undefined {
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

function inputs(entry: Entry): Model["input"] | undefined {
  const list = bag(entry.architecture).input_modalities ?? entry.input_modalities;
  const capabilities = bag(entry.capabilities);
  if (Array.isArray(list)) {
    return [
      "text",
      ...(list.includes("image") ? (["image"] as const) : []),
      ...(list.includes("file") || list.includes("pdf") ? (["pdf"] as const) : []),
    ];
  }
  const vision =
    capabilities.vision ??
    bag(capabilities.image_input).supported ??
    entry.supports_image_in ??
    entry.supports_image_input ??
    entry.supports_vision;
  if (typeof vision === "boolean") {
    const pdf = bag(capabilities.pdf_input).supported === true;
    return ["text", ...(vision ? (["image"] as const) : []), ...(pdf ? (["pdf"] as const) : [])];
  }
  if (Array.isArray(entry.tags)) {
    return [
      "text",
      ...(entry.tags.includes("vision") ? (["image"] as const) : []),
      ...(entry.tags.includes("file-input") ? (["pdf"] as const) : []),
    ];
  }
  if (entry.type === "vlm") return ["text", "image"];
  return undefined;
}

/** Prices of the listing, per token as texts or per million as numbers. */
function pricesOf(entry: Entry): ModelPrices | undefined {
  const pricing = bag(entry.pricing ?? bag(entry.metadata).pricing);
  const input = perMillion(pricing.prompt ?? pricing.input ?? pricing.input_tokens);
  const output = perMillion(pricing.completion ?? pricing.output ?? pricing.output_tokens);
  if (input === undefined || output === undefined) return undefined;
  const prices: ModelPrices = { input, output };
  const read = perMillion(pricing.input_cache_read ?? pricing.cached_input ?? pricing.cache_read_tokens);
  if (read !== undefined) prices.cacheRead = read;
  const write = perMillion(pricing.input_cache_write);
  if (write !== undefined) prices.cacheWrite = write;
  return prices;
}

function perMillion(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) && value >= 0 ? value : undefined;
  // Routers say -1 where the price depends on who answers.
  if (typeof value !== "string" || value === "" || !(Number(value) >= 0)) return undefined;
  return Number((Number(value) * 1e6).toPrecision(12));
}

/** Good ones first, newest first among them, since the first is what a newcomer gets who names none. */
function ordered(models: Model[], entries: readonly Entry[], { preset }: Settings): Model[] {
  const favourites = FAVOURITES[preset?.id ?? ""] ?? [];
  const created = new Map(
    entries.map((entry) => [entry.id, Number(entry.created ?? Date.parse(String(entry.created_at))) || 0]),
  );
  const rank = ({ id }: Model): number => {
    const index = favourites.findIndex((pattern) => pattern.test(id));
    return index < 0 ? favourites.length : index;
  };
  return models
    .map((model, index) => ({ model, index, rank: rank(model) }))
    .sort(
      (a, b) =>
        a.rank - b.rank ||
        (a.rank < favourites.length ? byVersion(a.model.id, b.model.id) : 0) ||
        (created.get(b.model.id) ?? 0) - (created.get(a.model.id) ?? 0) ||
        a.index - b.index,
    )
    .map(({ model }) => model);
}

/** Higher version numbers first. */
function byVersion(a: string, b: string): number {
  const numbers = (id: string): number[] => (id.replace(/-\d{8}$/, "").match(/\d+/g) ?? []).map(Number);
  const [left, right] = [numbers(a), numbers(b)];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (right[i] ?? -1) - (left[i] ?? -1);
    if (difference !== 0) return difference;
  }
  return 0;
}

function first(sources: readonly Entry[], keys: readonly string[]): number | undefined {
  for (const source of sources) {
    for (const key of keys) {
      const value = source[key];
      if (typeof value === "number" && Number.isInteger(value) && value > 0) return value;
    }
  }
  return undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" && !UNWRITABLE.test(value)
    ? value.slice(0, LONGEST_NAME)
    : undefined;
}

function bag(value: unknown): Entry {
  return typeof value === "object" && value !== null ? (value as Entry) : {};
}
