import type { Read } from "./network.js";
import { bag, list, present, text, type Bag } from "./json.js";
import type { Settings } from "./options.js";

/** More models than anyone keeps on one machine are not asked for one by one. */
const MOST = 64;
/** So many are asked for at once. */
const AT_ONCE = 8;
/** Bytes of one answer. */
const SHOWN = 4 * 1024 * 1024;

/**
 * What servers on one's own machine tell beyond the OpenAI listing, in the terms of `catalogue.ts`: windows, images, reasoning.
 * The entries as they were where the server has nothing to add.
 */
export async function enrichLocal(entries: Bag[], settings: Settings, read: Read, signal: AbortSignal): Promise<Bag[]> {
  const ask: Ask = async (path, body) => {
    try {
      const url = new URL(path, settings.baseUrl).href;
      const headers = { ...settings.headers, "content-type": "application/json" };
      const sent = body === undefined ? {} : { body: JSON.stringify(body) };
      const answer = await read(url, { headers, ...sent }, signal, SHOWN, "an answer about a model");
      return answer.ok ? bag(JSON.parse(answer.text)) : {};
    } catch {
      // The plain listing is there: this would only have made it better.
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

type Ask = (path: string, body?: unknown) => Promise<Bag>;

async function ollama(entries: Bag[], ask: Ask): Promise<Bag[]> {
  const running = new Map(
    list((await ask("/api/ps")).models)
      .map(bag)
      .map((entry) => [entry.model ?? entry.name, entry.context_length]),
  );
  const enriched: Bag[] = [];
  for (let at = 0; at < Math.min(MOST, entries.length); at += AT_ONCE)
    enriched.push(...(await Promise.all(entries.slice(at, Math.min(at + AT_ONCE, MOST)).map(enrich))));
  return enriched.concat(entries.slice(MOST));

  async function enrich(entry: Bag): Promise<Bag> {
    const shown = await ask("/api/show", { model: entry.id });
    const info = bag(shown.model_info);
    const longest = Object.entries(info).find(([key]) => key.endsWith(".context_length"))?.[1];
    // Ollama cuts prompts at the window that it runs a model with, which is mostly far below what the model could.
    const set = Number(/^num_ctx\s+(\d+)/m.exec(text(shown.parameters))?.[1]);
    const window = set > 0 ? set : (running.get(entry.id) ?? longest);
    const can = Array.isArray(shown.capabilities) ? new Set(shown.capabilities) : undefined;
    const more = {
      context_length: typeof window === "number" ? window : undefined,
      active: can?.has("completion"),
      supports_reasoning: can?.has("thinking"),
      supports_vision: can?.has("vision"),
    };
    return { ...entry, ...present(more) };
  }
}

async function lmStudio(entries: Bag[], ask: Ask): Promise<Bag[]> {
  const native = list((await ask("/api/v0/models")).data).map(bag);
  const known = new Map(native.map((entry) => [entry.id, entry]));
  const enriched = entries.map((entry) => {
    const more = known.get(entry.id);
    if (more === undefined) return entry;
    const window = more.loaded_context_length ?? more.max_context_length;
    return {
      ...entry,
      ...present({ type: more.type, context_length: typeof window === "number" ? window : undefined }),
    };
  });
  const isLoaded = (entry: Bag): boolean => known.get(entry.id)?.state === "loaded";
  // What is in memory answers at once.
  return [...enriched.filter(isLoaded), ...enriched.filter((entry) => !isLoaded(entry))];
}
