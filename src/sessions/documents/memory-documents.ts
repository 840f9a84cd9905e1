import { LocalNotifiers } from "../polling-notifier.js";
import { DocumentMap } from "./document-map.js";
import type { DocumentChange, DocumentStore, StoredDocument } from "./document-store.js";

/** Documents in memory. Several drivers on one instance behave like processes that share a store. */
export class MemoryDocuments implements DocumentStore {
  /** Notifiers for the drivers on this store. */
  readonly notifiers = new LocalNotifiers();
  readonly #documents = new DocumentMap();
  #version = 0;

  async get(keys: readonly string[]): Promise<(StoredDocument | undefined)[]> {
    return keys.map((key) => this.#documents.get(key));
  }

  async scan(prefixes: readonly string[]): Promise<StoredDocument[]> {
    return this.#documents.scan(prefixes);
  }

  async compareAndSet(changes: readonly DocumentChange[]): Promise<boolean> {
    for (const { key, version } of changes)
      if (version !== undefined && (this.#documents.get(key)?.version ?? 0) !== version) return false;
    const version = ++this.#version;
    for (const { key, value } of changes)
      if (value === null) this.#documents.delete(key);
      else if (value !== undefined) this.#documents.set({ key, version, value });
    return true;
  }
}
