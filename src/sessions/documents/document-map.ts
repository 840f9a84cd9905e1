import type { StoredDocument } from "./document-store.js";

/** Documents in memory, found by key and by prefix. */
export class DocumentMap {
  readonly #documents = new Map<string, StoredDocument>();
  /** Keys by each of their prefixes that end in `/`. */
  readonly #folders = new Map<string, Set<string>>();

  get(key: string): StoredDocument | undefined {
    return this.#documents.get(key);
  }

  /** Like `DocumentStore.scan`. */
  scan(prefixes: readonly string[]): StoredDocument[] {
    const documents: StoredDocument[] = [];
    for (const prefix of prefixes)
      for (const key of this.#folders.get(prefix) ?? []) documents.push(this.#documents.get(key) as StoredDocument);
    return documents;
  }

  set(document: StoredDocument): void {
    const { key } = document;
    const isNew = !this.#documents.has(key);
    this.#documents.set(key, document);
    if (!isNew) return;
    for (const folder of foldersOf(key)) {
      const keys = this.#folders.get(folder) ?? new Set();
      this.#folders.set(folder, keys.add(key));
    }
  }

  delete(key: string): void {
    if (!this.#documents.delete(key)) return;
    for (const folder of foldersOf(key)) {
      const keys = this.#folders.get(folder);
      keys?.delete(key);
      if (keys?.size === 0) this.#folders.delete(folder);
    }
  }
}

/** Returns the prefixes of a key that end in `/`: `a/b/c` is in `a/` and in `a/b/`. */
function foldersOf(key: string): string[] {
  const folders: string[] = [];
  for (let slashIndex = key.indexOf("/"); slashIndex >= 0; slashIndex = key.indexOf("/", slashIndex + 1))
    folders.push(key.slice(0, slashIndex + 1));
  return folders;
}
