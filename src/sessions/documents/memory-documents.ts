import type { Notifier } from "../../ports/notifier.js";
import { Hints } from "../hints.js";
import { DocumentMap } from "./document-map.js";
import type { DocumentChange, DocumentStore, StoredDocument } from "./document-store.js";

/** Documents in memory. Several drivers on one of these behave like processes that share a store. */
export class MemoryDocuments implements DocumentStore {
  readonly #documents = new DocumentMap();
  /** Of each driver that somebody listens to. */
  readonly #listeners = new Set<Hints>();
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

  /** For one more driver on this store: it hears what the others publish. */
  notifier(): Notifier {
    const own = new Hints();
    return {
      publish: (root) => {
        // As it would come from another process: never within the call.
        for (const other of this.#listeners) if (other !== own) setImmediate(() => other.tell(root));
      },
      subscribe: (root, hint) => {
        this.#listeners.add(own);
        const end = own.subscribe(root, hint);
        return () => {
          end();
          if (own.size === 0) this.#listeners.delete(own);
        };
      },
    };
  }
}
