/** A document as a store returns it. */
export interface StoredDocument {
  key: string;
  /** Positive. Every change of the document gives it a number that it never had, also after it was deleted. */
  version: number;
  /** JSON. Neither the store nor the driver ever changes it in place. */
  value: unknown;
}

/** One document of a commit. */
export interface DocumentChange {
  key: string;
  /**
   * Id of the session whose chain the document belongs to; `""` for documents of the whole store. All documents of a
   * chain are deleted together, so a store may keep them in one place.
   */
  chain: string;
  /** The version that the document must have, 0 if it must not exist. Undefined: any. */
  version?: number;
  /** The new value; null deletes the document. Undefined: the version is compared, nothing else. */
  value?: unknown;
}

/**
 * Versioned JSON documents, which any number of processes may share. A key is `kind/rest` or `kind/chain/rest`; its parts
 * have no `/` of their own. Every method may reject with any error: the driver turns it into a `StoreError`.
 */
export interface DocumentStore {
  /** Opens the store; called once before all else, and again after `close`. */
  open?(): Promise<void> | void;
  /** Closes it; no other call is in progress. */
  close?(): Promise<void> | void;
  /** The documents of these keys, undefined for a missing one; all as of one moment. */
  get(keys: readonly string[]): Promise<readonly (StoredDocument | undefined)[]>;
  /** All documents whose key begins with one of these prefixes, which end in `/`; in any order, all as of one moment. */
  scan(prefixes: readonly string[]): Promise<readonly StoredDocument[]>;
  /**
   * Compares the versions of all these documents and, if they match, changes all: one step, which no reader sees half of.
   * Resolves with false, and changes nothing, if one does not match. With `sync`, the change is on the disk when the
   * promise resolves. The keys are distinct.
   */
  compareAndSet(changes: readonly DocumentChange[], options: { sync: boolean }): Promise<boolean>;
}
