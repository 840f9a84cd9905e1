import type { DocumentChange, DocumentStore, StoredDocument } from "./document-store.js";
import { isShared } from "./keys.js";

interface Write {
  chain: string;
  /** Null deletes the document. */
  value: unknown;
}

/**
 * An atomic group of reads and changes. The commit compares the versions of the documents that were read. Documents of
 * a chain change only together with the chain's head, so the head is compared instead of them.
 */
export class Transaction {
  readonly #store: DocumentStore;
  readonly #readDocuments = new Map<string, StoredDocument | undefined>();
  readonly #writes = new Map<string, Write>();
  readonly #scannedValues = new Map<string, unknown>();
  /** Earlier values for `rollback`, oldest first. */
  #undoLog: [key: string, write: Write | undefined][] = [];
  /** Number of read calls to the store. The result of one call belongs to one moment. */
  #readCallCount = 0;

  constructor(store: DocumentStore) {
    this.#store = store;
  }

  /** Starts a section that `rollback` can undo. */
  begin(): void {
    this.#undoLog = [];
  }

  /** Discards the changes since `begin`. */
  rollback(): void {
    for (const [key, write] of this.#undoLog.reverse())
      if (write) this.#writes.set(key, write);
      else this.#writes.delete(key);
    this.#undoLog = [];
  }

  async get<T>(key: string): Promise<T | undefined> {
    const [value] = await this.getAll([key]);
    return value as T | undefined;
  }

  /** Reads the values of these keys; undefined for a missing document. */
  async getAll(keys: readonly string[]): Promise<unknown[]> {
    const unreadKeySet = new Set<string>();
    for (const key of keys) if (!this.#has(key)) unreadKeySet.add(key);
    if (unreadKeySet.size > 0) {
      this.#readCallCount++;
      const unreadKeys = [...unreadKeySet];
      const documents = await this.#store.get(unreadKeys);
      unreadKeys.forEach((key, i) => this.#readDocuments.set(key, documents[i]));
    }
    return keys.map((key) => this.#valueOf(key));
  }

  /** Reads all documents with these prefixes, including the changes of this transaction. */
  async scan<T>(...prefixes: string[]): Promise<[key: string, value: T][]> {
    this.#readCallCount++;
    const values = new Map<string, unknown>();
    for (const { key, value } of await this.#store.scan(prefixes)) values.set(key, value);
    for (const [key, { value }] of this.#writes) {
      if (!prefixes.some((prefix) => key.startsWith(prefix))) continue;
      if (value === null) values.delete(key);
      else values.set(key, value);
    }
    return [...values] as [string, T][];
  }

  /** Caches a document from a scan of the complete store. Later reads use it; the commit does not compare it. */
  cacheScanned(key: string, value: unknown): void {
    if (!this.#has(key)) this.#scannedValues.set(key, value);
  }

  /** Sets a document. `chain` as in `DocumentChange`. */
  set(key: string, chain: string, value: unknown): void {
    this.#undoLog.push([key, this.#writes.get(key)]);
    this.#writes.set(key, { chain, value });
  }

  delete(key: string, chain: string): void {
    this.set(key, chain, null);
  }

  /** Commits. Returns false, without effect, if another process changed a document that this transaction read. */
  async commit(sync: boolean): Promise<boolean> {
    if (this.#writes.size === 0 && this.#readCallCount <= 1) return true;
    const changes: DocumentChange[] = [];
    for (const [key, { chain, value }] of this.#writes) changes.push({ key, chain, ...this.#versionOf(key), value });
    for (const key of this.#readDocuments.keys())
      if (!this.#writes.has(key) && isShared(key)) changes.push({ key, chain: "", ...this.#versionOf(key) });
    return changes.length === 0 || this.#store.compareAndSet(changes, { sync });
  }

  #has(key: string): boolean {
    return this.#writes.has(key) || this.#readDocuments.has(key) || this.#scannedValues.has(key);
  }

  #valueOf(key: string): unknown {
    const write = this.#writes.get(key);
    if (write) return write.value ?? undefined;
    return this.#readDocuments.has(key) ? this.#readDocuments.get(key)?.value : this.#scannedValues.get(key);
  }

  #versionOf(key: string): { version?: number } {
    if (!isShared(key)) return {};
    // A write without a read would overwrite the change of another process.
    if (!this.#readDocuments.has(key)) throw new Error(`the document ${key} was not read before it was written`);
    return { version: this.#readDocuments.get(key)?.version ?? 0 };
  }
}
