import { readFile } from "node:fs/promises";

/** All messages in a session file of the JSON driver. */
export async function readFileMessages(path: string): Promise<unknown[]> {
  const { documents } = JSON.parse(await readFile(path, "utf8")) as { documents: Record<string, { value: unknown[] }> };
  return Object.entries(documents).flatMap(([key, { value }]) => (key.startsWith("segment/") ? value : []));
}
