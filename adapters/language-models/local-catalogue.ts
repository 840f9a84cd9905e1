import type { Read } from "./network.js";
import { asObject, asList, withoutUndefined, asText, type JsonObject } from "./json.js";
import type { Settings } from "./options.js";

/** Maximum number of models that are queried individually. */
const MAX_QUERIED_MODELS = 64;
/** Maximum concurrent queries. */
const MAX_CONCURRENT = 8;
/** Maximum size of one answer, in bytes. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

/**
 * Adds data that local servers report beyond the OpenAI list: windows, images, reasoning, in the terms of
 * `catalogue-entry.ts`. Entries without more data stay unchanged.
 */
export async function enrichLocal(
  entries: JsonObject[],
  settings: Settings,
  read: Read,
  signal: AbortSignal,
): Promise<JsonObject[]> {
  const ask: Ask = async (path, body) => {
    try {
      const url = new URL(path, settings.baseUrl).href;
      const headers = { ...settings.headers, "content-type": "application/json" };
      const sent = body === undefined ? {} : { body: JSON.stringify(body) };
      const answer = await read(url, { headers, ...sent }, signal, MAX_ANSWER_BYTES, "an answer about a model");
      return answer.ok ? asObject(JSON.parse(answer.text)) : {};
    } catch {
      // Optional data: the plain list is sufficient.
      return {};
    }
  };
  switch (settings.preset?.id) {
    case "ollama":
      return await ollama(entries, ask);
    case "lmstudio":
      return await lmStudio(entries, ask);
    default:
      return entries;
  }
}

type Ask = (path: string, body?: unknown) => Promise<JsonObject>;

async function ollama(entries: JsonObject[], ask: Ask): Promise<JsonObject[]> {
  const running = new Map(
    asList((await ask("/api/ps")).models)
      .map(asObject)
      .map((entry) => [entry.model ?? entry.name, entry.context_length]),
  );
  const enriched: JsonObject[] = [];
  for (let at = 0; at < Math.min(MAX_QUERIED_MODELS, entries.length); at += MAX_CONCURRENT)
    enriched.push(
      ...(await Promise.all(entries.slice(at, Math.min(at + MAX_CONCURRENT, MAX_QUERIED_MODELS)).map(enrich))),
    );
  return enriched.concat(entries.slice(MAX_QUERIED_MODELS));

  async function enrich(entry: JsonObject): Promise<JsonObject> {
    const shown = await ask("/api/show", { model: entry.id });
    const info = asObject(shown.model_info);
    const longest = Object.entries(info).find(([key]) => key.endsWith(".context_length"))?.[1];
    // Ollama truncates prompts at the window that a model runs with, which is mostly far below the model's own.
    const configuredWindow = Number(/^num_ctx\s+(\d+)/m.exec(asText(shown.parameters))?.[1]);
    const window = configuredWindow > 0 ? configuredWindow : (running.get(entry.id) ?? longest);
    const capabilities = Array.isArray(shown.capabilities) ? new Set(shown.capabilities) : undefined;
    const details = {
      context_length: typeof window === "number" ? window : undefined,
      active: capabilities?.has("completion"),
      supports_reasoning: capabilities?.has("thinking"),
      supports_vision: capabilities?.has("vision"),
    };
    return { ...entry, ...withoutUndefined(details) };
  }
}

async function lmStudio(entries: JsonObject[], ask: Ask): Promise<JsonObject[]> {
  const native = asList((await ask("/api/v0/models")).data).map(asObject);
  const nativeById = new Map(native.map((entry) => [entry.id, entry]));
  const enriched = entries.map((entry) => {
    const nativeEntry = nativeById.get(entry.id);
    if (nativeEntry === undefined) return entry;
    const window = nativeEntry.loaded_context_length ?? nativeEntry.max_context_length;
    return {
      ...entry,
      ...withoutUndefined({ type: nativeEntry.type, context_length: typeof window === "number" ? window : undefined }),
    };
  });
  const isLoaded = (entry: JsonObject): boolean => nativeById.get(entry.id)?.state === "loaded";
  // Loaded models come first: they answer at once.
  return [...enriched.filter(isLoaded), ...enriched.filter((entry) => !isLoaded(entry))];
}
