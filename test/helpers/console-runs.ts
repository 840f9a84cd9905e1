import type { GantryServer } from "./server.js";

/** The answer of a path of the API, which must be there. */
export async function fetchJson<T>(server: Pick<GantryServer, "fetch">, path: string, init?: RequestInit): Promise<T> {
  const response = await server.fetch(path, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/** What a window prints when its server ends before it: the end of a test. */
export const GONE = /ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/;
