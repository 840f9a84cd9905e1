import { get } from "node:http";
import { createDeadline } from "gantry/plugin";

/** A model server on the user's own machine. */
export interface LocalServer {
  /** Display name, such as `Ollama`. */
  name: string;
  /** Name of the provider preset in the config. */
  provider: string;
  /** URL that lists the models in OpenAI's format: `{ data: [{ id }] }`. */
  url: string;
}

/** A server that answered, with the id of its first model that is not for embeddings. */
export type FoundServer = LocalServer & { model: string };

export const LOCAL_SERVERS: readonly LocalServer[] = [
  { name: "Ollama", provider: "ollama", url: "http://127.0.0.1:11434/v1/models" },
  { name: "LM Studio", provider: "lmstudio", url: "http://127.0.0.1:1234/v1/models" },
];

const SEARCH_TIMEOUT_MS = 1000;
const MAX_RESPONSE_CHARACTERS = 1_000_000;
const MAX_MODEL_ID_CHARACTERS = 100;
/** Embedding models, which cannot answer. */
const EMBEDDING_MODEL_PATTERN = /embed|bge-|minilm/i;

/** Returns the servers that answer within one second and have a model. Never rejects. */
export async function findLocalServers(servers: readonly LocalServer[], signal: AbortSignal): Promise<FoundServer[]> {
  const deadline = createDeadline(SEARCH_TIMEOUT_MS, signal);
  const searches = servers.map((server) => findModel(server, deadline.signal).catch(() => []));
  return (await Promise.all(searches).finally(() => deadline.clear())).flat();
}

async function findModel(server: LocalServer, signal: AbortSignal): Promise<FoundServer[]> {
  const text = await fetchText(server.url, signal);
  const { data } = JSON.parse(text) as { data: { id: string }[] };
  const model = data.find(({ id }) => id !== "" && !EMBEDDING_MODEL_PATTERN.test(id))?.id;
  // Another program may use the port, and the id appears in an answer.
  return model === undefined
    ? []
    : [{ ...server, model: model.replace(/[^\p{L}\p{N}._:/@+-]/gu, "").slice(0, MAX_MODEL_ID_CHARACTERS) }];
}

/** Uses node:http, because loading fetch takes longer than the request. Rejects unless the status is 200. */
function fetchText(url: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    get(url, { signal, agent: false, headers: { accept: "application/json" } }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (piece: string) => {
        text += piece;
        if (text.length > MAX_RESPONSE_CHARACTERS) response.destroy(new Error("too long"));
      });
      response.on("end", () => resolve(text)).on("error", reject);
      if (response.statusCode !== 200) response.destroy(new Error("not a model server"));
    }).on("error", reject);
  });
}
