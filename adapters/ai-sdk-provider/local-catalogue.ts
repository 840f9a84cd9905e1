import type { Read } from "./fetch.js";
import type { Settings } from "./options.js";

type Entry = Readonly<Record<string, unknown>>;

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
export async function enrichLocal(
  entries: Entry[],
  settings: Settings,
  read: Read,
  signal: AbortSignal,
): Promise<Entry[]> {
  const ask: Ask = async (path, body) => {
    try {
      const url = new URL(path, settings.baseUrl).href;
      const headers = { ...settings.headers, "content-type": "application/json" };
      const init = {
        headers,
        signal,
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      };
      const { ok, text } = await read(url, init, SHOWN, "an answer about a model");
      return ok ? bag(JSON.parse(text)) : {};
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

type Ask = (path: string, body?: unknown) => Promise<Entry>;

async function ollama(entries: Entry[], ask: Ask): Promise<Entry[]> {
  const running = new Map(
    list((await ask("/api/ps")).models).map((entry) => [entry.model ?? entry.name, entry.context_length]),
  );
  const enriched: Entry[] = [];
  for (let at = 0; at < Math.min(MOST, entries.length); at += AT_ONCE)
    enriched.push(...(await Promise.all(entries.slice(at, Math.min(at + AT_ONCE, MOST)).map(enrich))));
  return enriched.concat(entries.slice(MOST));

  async function enrich(entry: Entry): Promise<Entry> {
    const shown = await ask("/api/show", { model: entry.id });
    const info = bag(shown.model_info);
    const longest = Object.entries(info).find(([key]) => key.endsWith(".context_length"))?.[1];
    // Ollama cuts prompts at the window that it runs a model with, which is mostly far below what the model could.
    const set = Number(/^num_ctx\s+(\d+)/m.exec(typeof shown.parameters === "string" ? shown.parameters : "")?.[1]);
    const window = set > 0 ? set : (running.get(entry.id) ?? longest);
    const capabilities = Array.isArray(shown.capabilities) ? (shown.capabilities as unknown[]) : undefined;
    return {
      ...entry,
      ...(typeof window === "number" ? { context_length: window } : {}),
      ...(capabilities === undefined
        ? {}
        : {
            active: capabilities.includes("completion"),
            supports_reasoning: capabilities.includes("thinking"),
            supports_vision: capabilities.includes("vision"),
          }),
    };
  }
}

async function lmStudio(entries: Entry[], ask: Ask): Promise<Entry[]> {
  const native = list((await ask("/api/v0/models")).data);
  const known = new Map(native.map((entry) => [entry.id, entry]));
  const enriched = entries.map((entry) => {
    const more = known.get(entry.id);
    if (more === undefined) return entry;
    const window = more.loaded_context_length ?? more.max_context_length;
    return { ...entry, type: more.type, ...(typeof window === "number" ? { context_length: window } : {}) };
  });
  const isLoaded = (entry: Entry): boolean => known.get(entry.id)?.state === "loaded";
  // What is in memory answers at once.
  return [...enriched.filter(isLoaded), ...enriched.filter((entry) => !isLoaded(entry))];
}

function list(value: unknown): Entry[] {
  return Array.isArray(value) ? value.map(bag) : [];
}

function bag(value: unknown): Entry {
  return typeof value === "object" && value !== null ? (value as Entry) : {};
}
