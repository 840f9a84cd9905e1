import { get } from "node:http";

/** A model server that people run on their own machine. */
export interface LocalServer {
  /** For people: `Ollama`. */
  name: string;
  /** Preset in the configuration. */
  provider: string;
  /** Lists its models in the form of OpenAI: `{ data: [{ id }] }`. */
  url: string;
}

/** One that answered, and the first model that it offers. */
export interface FoundServer extends LocalServer {
  model: string;
}

export const LOCAL_SERVERS: readonly LocalServer[] = [
  { name: "Ollama", provider: "ollama", url: "http://127.0.0.1:11434/v1/models" },
  { name: "LM Studio", provider: "lmstudio", url: "http://127.0.0.1:1234/v1/models" },
];

const LIMIT_MS = 1000;
const LIMIT_BYTES = 1_000_000;
/** Models that only turn text into vectors. */
const EMBEDDING = /embed|bge-|minilm/i;

/** Those of `servers` that answer within a second and have a model. Never rejects: nothing found is no fault. */
export async function findLocalServers(servers: readonly LocalServer[], signal: AbortSignal): Promise<FoundServer[]> {
  const found = await Promise.all(
    servers.map(async (server) => {
      const model = await firstModel(server.url, signal).catch(() => undefined);
      return model === undefined ? [] : [{ ...server, model }];
    }),
  );
  return found.flat();
}

async function firstModel(url: string, signal: AbortSignal): Promise<string | undefined> {
  const body = JSON.parse(await fetchText(url, AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)]))) as unknown;
  const { data } = (body ?? {}) as { data?: unknown };
  if (!Array.isArray(data)) return undefined;
  for (const entry of data as unknown[]) {
    const { id } = (entry ?? {}) as { id?: unknown };
    if (typeof id === "string" && id !== "" && !EMBEDDING.test(id)) return printable(id);
  }
  return undefined;
}

/** The server on that port may be anything; its words end up in an answer. */
function printable(text: string): string {
  return text.replace(/[^\p{L}\p{N}._:/@+-]/gu, "").slice(0, 100);
}

// Not fetch: loading it takes longer than the whole look.
function fetchText(url: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = get(url, { signal, agent: false, headers: { accept: "application/json" } }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => {
        text += piece;
        if (text.length > LIMIT_BYTES) response.destroy(new Error("too long"));
      });
      response.on("end", () => resolve(text));
      response.on("error", reject);
      if (response.statusCode !== 200) response.destroy(new Error("not a model server"));
    });
    request.on("error", reject);
  });
}
