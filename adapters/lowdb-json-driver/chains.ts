import { contentChain, DocumentMap, type StoredDocument } from "gantry/plugin";
import type { Low } from "lowdb";
import type { ChainFile } from "./chain-file.js";

/**
 * A document in a log line. A null value deletes the document. `version` is set if it differs from the line's version.
 */
export type LogEntry = readonly [chain: string, key: string, value: unknown, version?: number];

/** A log line: a change, or the versions up to which the files of chains are complete. */
export interface LogLine {
  version: number;
  set?: readonly LogEntry[];
  filed?: readonly (readonly [chain: string, upTo: number])[];
}

export interface CachedChain {
  /**
   * lowdb's object for the chain's file. Its data are the documents in memory; a null value marks a deleted document.
   */
  readonly low: Low<ChainFile>;
  /** Version up to which the file is complete; 0 without a file. */
  filed: number;
  /** False if documents with messages may exist only in the file. */
  isComplete: boolean;
}

interface SmallDocument extends StoredDocument {
  chain: string;
}

/** Whether a document is small. Lists and runs need small documents, so they are always in memory. */
export const isSmall = (key: string): boolean => contentChain(key) === undefined;

/** The chains of a store by the id of the original. `""` has the documents of the complete store. */
export class Chains {
  readonly byRoot = new Map<string, CachedChain>();
  readonly smallDocuments = new DocumentMap();
  /** Version of the last change. */
  version = 0;
  readonly #create: (root: string) => Low<ChainFile>;

  constructor(create: (root: string) => Low<ChainFile>) {
    this.#create = create;
  }

  document(key: string): StoredDocument | undefined {
    const root = contentChain(key);
    if (root === undefined) return this.smallDocuments.get(key);
    const document = this.byRoot.get(root)?.low.data.documents[key];
    return document && document.value !== null ? { key, ...document } : undefined;
  }

  /** The chain whose file must be read to get this document; undefined if none. */
  incompleteFor(key: string): CachedChain | undefined {
    const chain = this.byRoot.get(contentChain(key) ?? "");
    return chain && !chain.isComplete && !(key in chain.low.data.documents) ? chain : undefined;
  }

  /** Applies a log line. */
  apply({ version, set = [], filed = [] }: LogLine): void {
    this.version = Math.max(this.version, version);
    for (const [root, key, value, entryVersion = version] of set)
      this.#put(root, key, { version: entryVersion, value });
    for (const root of this.deletedBy(set)) this.byRoot.delete(root);
    for (const [root, upTo] of filed) this.#filed(this.#chain(root), upTo);
  }

  /** Chains that have no small document left after these entries. The entries may be applied already. */
  deletedBy(set: readonly LogEntry[]): string[] {
    const deleted = set.filter(([, key, value]) => value === null && isSmall(key));
    const keys = new Set(deleted.map(([, key]) => key));
    const isDeleted = (root: string): boolean => {
      for (const key in this.byRoot.get(root)?.low.data.documents) if (isSmall(key) && !keys.has(key)) return false;
      return true;
    };
    return [...new Set(deleted.map(([root]) => root))].filter(isDeleted);
  }

  /** Removes documents from memory that the chain's file contains, except small ones. */
  forgetFiled(chain: CachedChain): void {
    if (chain.filed === 0) return;
    chain.isComplete = false;
    const { documents } = chain.low.data;
    for (const key in documents)
      if ((documents[key]?.version ?? 0) <= chain.filed && !isSmall(key)) delete documents[key];
  }

  /** Log lines with everything that the files lack, and all small documents. */
  *lines(): Generator<string> {
    const { version } = this;
    for (const [root, { filed, low }] of this.byRoot) {
      const set: LogEntry[] = [];
      for (const [key, document] of Object.entries(low.data.documents))
        if (document.version > filed || isSmall(key)) set.push([root, key, document.value, document.version]);
      yield JSON.stringify({ version, filed: filed > 0 ? [[root, filed]] : [], set } satisfies LogLine);
    }
  }

  #put(root: string, key: string, document: { version: number; value: unknown }): void {
    const { data } = this.#chain(root).low;
    data.upTo = Math.max(data.upTo, document.version);
    data.documents[key] = document;
    if (!isSmall(key)) return;
    // The head of a chain belongs to no chain before the chain is created.
    const old = this.smallDocuments.get(key) as SmallDocument | undefined;
    if (old && old.chain !== root) delete this.byRoot.get(old.chain)?.low.data.documents[key];
    if (document.value !== null) this.smallDocuments.set({ key, ...document, chain: root } as SmallDocument);
    else {
      delete data.documents[key];
      this.smallDocuments.delete(key);
    }
  }

  #filed(chain: CachedChain, upTo: number): void {
    const { data } = chain.low;
    chain.filed = upTo;
    data.upTo = Math.max(data.upTo, upTo);
    for (const [key, { version, value }] of Object.entries(data.documents))
      if (version <= upTo && value === null) delete data.documents[key];
  }

  #chain(root: string): CachedChain {
    const chain = this.byRoot.get(root) ?? { low: this.#create(root), filed: 0, isComplete: true };
    this.byRoot.set(root, chain);
    return chain;
  }
}
