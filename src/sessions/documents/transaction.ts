import type { DocumentChange, DocumentStore, StoredDocument } from "./document-store.js";
import { isShared } from "./keys.js";

interface Write {
  chain: string;
  /** Null: the document is deleted. */
  value: unknown;
}

/**
 * Reads and changes of documents that take effect together or not at all. What it read is compared again when it commits.
 * Documents of a chain change only together with the chain's head: of these only the head is compared.
 */
export class Transaction {
  readonly #store: DocumentStore;
  readonly #read = new Map<string, StoredDocument | undefined>();
  readonly #written = new Map<string, Write>();
  readonly #scanned = new Map<string, unknown>();
  /** Earlier values that `rollback` restores, oldest first. */
  #undo: [key: string, write: Write | undefined][] = [];
  /** Calls of the store that read. What one call returned is of one moment. */
  #calls = 0;

  constructor(store: DocumentStore) {
    this.#store = store;
  }

  /** From here on changes can be rolled back. */
  begin(): void {
    this.#undo = [];
  }

  /** Drops the changes since `begin`. */
  rollback(): void {
    for (const [key, write] of this.#undo.reverse())
      if (write) this.#written.set(key, write);
      else this.#written.delete(key);
    this.#undo = [];
  }

  async get<T>(key: string): Promise<T | undefined> {
    const [value] = await this.getAll([key]);
    return value as T | undefined;
  }

  /** The values of these keys; undefined for a missing document. */
  async getAll(keys: readonly string[]): Promise<unknown[]> {
    const unread = new Set<string>();
    for (const key of keys) if (!this.#has(key)) unread.add(key);
    if (unread.size > 0) {
      this.#calls++;
      const wanted = [...unread];
      const found = await this.#store.get(wanted);
      wanted.forEach((key, at) => this.#read.set(key, found[at]));
    }
    return keys.map((key) => this.#valueOf(key));
  }

  /** All documents under these prefixes, with the changes of this transaction. */
  async scan<T>(...prefixes: string[]): Promise<[key: string, value: T][]> {
    this.#calls++;
    const found = new Map<string, unknown>();
    for (const { key, value } of await this.#store.scan(prefixes)) found.set(key, value);
    for (const [key, { value }] of this.#written) {
      if (!prefixes.some((prefix) => key.startsWith(prefix))) continue;
      if (value === null) found.delete(key);
      else found.set(key, value);
    }
    return [...found] as [string, T][];
  }

  /** A document that a scan of the whole store returned is used for reads of this transaction, and not compared. */
  know(key: string, value: unknown): void {
    if (!this.#has(key)) this.#scanned.set(key, value);
  }

  /** `chain`: as in `DocumentChange`. */
  set(key: string, chain: string, value: unknown): void {
    this.#undo.push([key, this.#written.get(key)]);
    this.#written.set(key, { chain, value });
  }

  delete(key: string, chain: string): void {
    this.set(key, chain, null);
  }

  /** False if another process changed what this transaction read: nothing is changed then. */
  async commit(sync: boolean): Promise<boolean> {
    if (this.#written.size === 0 && this.#calls <= 1) return true;
    const changes: DocumentChange[] = [];
    for (const [key, { chain, value }] of this.#written) changes.push({ key, chain, ...this.#versionOf(key), value });
    for (const key of this.#read.keys())
      if (!this.#written.has(key) && isShared(key)) changes.push({ key, chain: "", ...this.#versionOf(key) });
    return changes.length === 0 || this.#store.compareAndSet(changes, { sync });
  }

  #has(key: string): boolean {
    return this.#written.has(key) || this.#read.has(key) || this.#scanned.has(key);
  }

  #valueOf(key: string): unknown {
    const write = this.#written.get(key);
    if (write) return write.value ?? undefined;
    return this.#read.has(key) ? this.#read.get(key)?.value : this.#scanned.get(key);
  }

  #versionOf(key: string): { version?: number } {
    if (!isShared(key)) return {};
    // Writing a document without reading it would overwrite the change of another process.
    if (!this.#read.has(key)) throw new Error(`the document ${key} was not read before it was written`);
    return { version: this.#read.get(key)?.version ?? 0 };
  }
}
