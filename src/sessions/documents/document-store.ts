/** A document as a store returns it. */
export interface StoredDocument {
  key: string;
  /** Positive. Every change gives the document a number that it never had, also after a delete. */
  version: number;
  /** JSON. Neither the store nor the driver modifies it in place. */
  value: unknown;
}

/** One document of a commit. */
export interface DocumentChange {
  key: string;
  /**
   * Id of the original of the document's chain; `""` for documents of the complete store. All documents of a chain are
   * deleted together, so a store may keep them in one file.
   */
  chain: string;
  /** Required current version; 0 if the document must not exist. Undefined: any version. */
  version?: number;
  /** The new value; null deletes the document. Undefined: only the version is compared. */
  value?: unknown;
}

/**
 * Versioned JSON documents that any number of processes may share. A key is `kind/rest` or `kind/chain/rest`; its parts
 * contain no `/`. Every method may reject with any error; the driver converts it to a `StoreError`.
 */
export interface DocumentStore {
  /** Opens the store. Called once before other methods, and again after `close`. */
  open?(): Promise<void> | void;
  /** As `SessionDriver.probe`. */
  probe?(): Promise<void>;
  /** Closes the store. No other call is active. */
  close?(): Promise<void> | void;
  /** Reads the documents of the keys at one moment; undefined for a missing document. */
  get(keys: readonly string[]): Promise<readonly (StoredDocument | undefined)[]>;
  /**
   * Reads all documents with a key that starts with one of the prefixes, at one moment, in any order. Prefixes end in
   * `/`.
   */
  scan(prefixes: readonly string[]): Promise<readonly StoredDocument[]>;
  /**
   * Atomically compares the versions of all documents and, if all match, makes all changes. If a version does not
   * match, the call resolves with false and changes nothing. With `sync`, the change is on disk when the promise
   * resolves. Keys are distinct.
   */
  compareAndSet(changes: readonly DocumentChange[], options: { sync: boolean }): Promise<boolean>;
}
