import type { Read } from "./network.js";
import { asObject, asList, asText, type JsonObject } from "./json.js";
import { removeUndefined } from "./remove-undefined.js";
import type { Settings } from "./options.js";

/** Maximum number of models that are queried individually. */
const MAX_QUERIED_MODELS = 64;
/** Maximum concurrent queries. */
const MAX_CONCURRENT_QUERIES = 8;
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

/**
 * Adds data that local servers report beyond the OpenAI list: windows, images and reasoning, in fields that
 * `catalogue-entry.ts` reads. Entries without more data stay unchanged. Loaded models of LM Studio come first.
 */
export async function enrichLocalEntries(
  entries: JsonObject[],
  settings: Settings,
  read: Read,
  signal: AbortSignal,
): Promise<JsonObject[]> {
  const query: Query = async (path, body) => {
    try {
      const url = new URL(path, settings.baseUrl).href;
      const headers = { ...settings.headers, "content-type": "application/json" };
      const bodyOption = body === undefined ? {} : { body: JSON.stringify(body) };
      const response = await read(url, { headers, ...bodyOption }, signal, MAX_ANSWER_BYTES, "an answer about a model");
      return response.ok ? asObject(JSON.parse(response.text)) : {};
    } catch {
      // Optional data: the plain list is sufficient.
      return {};
    }
  };
  switch (settings.preset?.id) {
    case "ollama":
      return await enrichOllama(entries, query);
    case "lmstudio":
      return await enrichLmStudio(entries, query);
    default:
      return entries;
  }
}

type Query = (path: string, body?: unknown) => Promise<JsonObject>;

async function enrichOllama(entries: JsonObject[], query: Query): Promise<JsonObject[]> {
  const runningWindowsByModel = new Map(
    asList((await query("/api/ps")).models)
      .map(asObject)
      .map((entry) => [entry.model ?? entry.name, entry.context_length]),
  );
  const enrichedEntries: JsonObject[] = [];
  for (let offset = 0; offset < Math.min(MAX_QUERIED_MODELS, entries.length); offset += MAX_CONCURRENT_QUERIES)
    enrichedEntries.push(
      ...(await Promise.all(
        entries.slice(offset, Math.min(offset + MAX_CONCURRENT_QUERIES, MAX_QUERIED_MODELS)).map(enrich),
      )),
    );
  return enrichedEntries.concat(entries.slice(MAX_QUERIED_MODELS));

  async function enrich(entry: JsonObject): Promise<JsonObject> {
    const response = await query("/api/show", { model: entry.id });
    const info = asObject(response.model_info);
    const maxWindow = Object.entries(info).find(([key]) => key.endsWith(".context_length"))?.[1];
    // Ollama truncates prompts at the window with which it runs a model, mostly far below the model's maximum.
    const configuredWindow = Number(/^num_ctx\s+(\d+)/m.exec(asText(response.parameters))?.[1]);
    const window = configuredWindow > 0 ? configuredWindow : (runningWindowsByModel.get(entry.id) ?? maxWindow);
    const capabilities = Array.isArray(response.capabilities) ? new Set(response.capabilities) : undefined;
    const details = {
      context_length: typeof window === "number" ? window : undefined,
      active: capabilities?.has("completion"),
      supports_reasoning: capabilities?.has("thinking"),
      supports_vision: capabilities?.has("vision"),
    };
    return { ...entry, ...removeUndefined(details) };
  }
}

async function enrichLmStudio(entries: JsonObject[], query: Query): Promise<JsonObject[]> {
  const nativeEntries = asList((await query("/api/v0/models")).data).map(asObject);
  const nativeById = new Map(nativeEntries.map((entry) => [entry.id, entry]));
  const enrichedEntries = entries.map((entry) => {
    const nativeEntry = nativeById.get(entry.id);
    if (nativeEntry === undefined) return entry;
    const window = nativeEntry.loaded_context_length ?? nativeEntry.max_context_length;
    return {
      ...entry,
      ...removeUndefined({ type: nativeEntry.type, context_length: typeof window === "number" ? window : undefined }),
    };
  });
  const isLoaded = (entry: JsonObject): boolean => nativeById.get(entry.id)?.state === "loaded";
  // Loaded models answer at once.
  return [...enrichedEntries.filter(isLoaded), ...enrichedEntries.filter((entry) => !isLoaded(entry))];
}
