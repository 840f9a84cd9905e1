import { contentChain, currentDocument, DocumentMap, type StoredDocument } from "gantry/plugin";
import type { Low } from "lowdb";
import type { ChainFile } from "./chain-file.js";

/** Maximum number of chains with all documents in memory. */
const MAX_COMPLETE_CHAINS = 64;

/**
 * A document in a log line. A null value deletes the document. `version` is set if it differs from the line's version.
 */
export type LogEntry = readonly [chain: string, key: string, value: unknown, version?: number];

/** A log line. `set`: changed documents; `filed`: chains whose file is complete up to the version `upTo`. */
export interface LogLine {
  version: number;
  set?: readonly LogEntry[];
  filed?: readonly (readonly [chain: string, upTo: number])[];
}

/** Parses a log line. Updates documents of older versions of gantry. Throws if the text is not a log line. */
export function parseLine(text: string): LogLine {
  const line = JSON.parse(text) as Partial<LogLine>;
  if (typeof line.version !== "number") throw new Error("it has no version");
  const set = line.set?.map(([chain, key, value, ...version]): LogEntry => [
    chain,
    key,
    currentDocument(key, value),
    ...version,
  ]);
  return { ...(line as LogLine), ...(set && { set }) };
}

export interface CachedChain {
  /**
   * lowdb's object for the chain's file. `low.data` are the documents in memory; a null value marks a deleted document.
   */
  readonly low: Low<ChainFile>;
  /** Version up to which the file is complete; 0 without a file. */
  filedVersion: number;
  /** False if documents with messages may exist only in the file. */
  isComplete: boolean;
}

interface SmallDocument extends StoredDocument {
  chain: string;
}

/** Whether a document contains no messages. Such documents are always in memory, because lists and runs need them. */
export const isSmall = (key: string): boolean => contentChain(key) === undefined;

/** The chains of a store. The chain `""` has the documents of the complete store. */
export class Chains {
  /** Chains by the id of their first session. */
  readonly chainsByRoot = new Map<string, CachedChain>();
  readonly smallDocuments = new DocumentMap();
  /** Version of the last change. */
  version = 0;
  /** Ids of chains by the last read or write of their files, most recent last. */
  readonly #recentRoots = new Set<string>();
  readonly #createLow: (root: string) => Low<ChainFile>;

  constructor(createLow: (root: string) => Low<ChainFile>) {
    this.#createLow = createLow;
  }

  findDocument(key: string): StoredDocument | undefined {
    const root = contentChain(key);
    if (root === undefined) return this.smallDocuments.get(key);
    const document = this.chainsByRoot.get(root)?.low.data.documents[key];
    return document && document.value !== null ? { key, ...document } : undefined;
  }

  /** The chain whose file must be read to find this document; undefined if no file must be read. */
  findIncompleteChain(key: string): CachedChain | undefined {
    const chain = this.chainsByRoot.get(contentChain(key) ?? "");
    return chain && !chain.isComplete && !(key in chain.low.data.documents) ? chain : undefined;
  }

  /** Applies a log line. */
  apply({ version, set = [], filed = [] }: LogLine): void {
    this.version = Math.max(this.version, version);
    for (const [root, key, value, entryVersion = version] of set)
      this.#put(root, key, { version: entryVersion, value });
    for (const root of this.findDeletedChains(set)) this.chainsByRoot.delete(root);
    for (const [root, upTo] of filed) this.#markFiled(this.#getOrCreateChain(root), upTo);
  }

  /** Chains that have no small document left after these entries. The entries may be applied already. */
  findDeletedChains(entries: readonly LogEntry[]): string[] {
    const deletedEntries = entries.filter(([, key, value]) => value === null && isSmall(key));
    const deletedKeys = new Set(deletedEntries.map(([, key]) => key));
    const isDeleted = (root: string): boolean => {
      for (const key in this.chainsByRoot.get(root)?.low.data.documents)
        if (isSmall(key) && !deletedKeys.has(key)) return false;
      return true;
    };
    return [...new Set(deletedEntries.map(([root]) => root))].filter(isDeleted);
  }

  /** Removes documents from memory that the chain's file contains, except small documents. */
  dropFiledDocuments(chain: CachedChain): void {
    if (chain.filedVersion === 0) return;
    chain.isComplete = false;
    const { documents } = chain.low.data;
    for (const key in documents)
      if ((documents[key]?.version ?? 0) <= chain.filedVersion && !isSmall(key)) delete documents[key];
  }

  /** Records a read or write of a chain's file. */
  recordUse(root: string): void {
    this.#recentRoots.delete(root);
    this.#recentRoots.add(root);
  }

  /** Removes the filed documents of the least recently used chains, down to `MAX_COMPLETE_CHAINS`. */
  unloadOldest(): void {
    for (const root of this.#recentRoots) {
      if (this.#recentRoots.size <= MAX_COMPLETE_CHAINS) return;
      const chain = this.chainsByRoot.get(root);
      if (chain) this.dropFiledDocuments(chain);
      this.#recentRoots.delete(root);
    }
  }

  /** Log lines with everything that the files lack, and all small documents. */
  *createLines(): Generator<string> {
    const { version } = this;
    for (const [root, { filedVersion, low }] of this.chainsByRoot) {
      const set: LogEntry[] = [];
      for (const [key, document] of Object.entries(low.data.documents))
        if (document.version > filedVersion || isSmall(key)) set.push([root, key, document.value, document.version]);
      yield JSON.stringify({ version, filed: filedVersion > 0 ? [[root, filedVersion]] : [], set } satisfies LogLine);
    }
  }

  #put(root: string, key: string, document: { version: number; value: unknown }): void {
    const { data } = this.#getOrCreateChain(root).low;
    data.upTo = Math.max(data.upTo, document.version);
    data.documents[key] = document;
    if (!isSmall(key)) return;
    // The head of a chain belongs to no chain before the chain is created.
    const previousDocument = this.smallDocuments.get(key) as SmallDocument | undefined;
    if (previousDocument && previousDocument.chain !== root)
      delete this.chainsByRoot.get(previousDocument.chain)?.low.data.documents[key];
    if (document.value !== null) this.smallDocuments.set({ key, ...document, chain: root } as SmallDocument);
    else {
      delete data.documents[key];
      this.smallDocuments.delete(key);
    }
  }

  #markFiled(chain: CachedChain, upTo: number): void {
    const { data } = chain.low;
    chain.filedVersion = upTo;
    data.upTo = Math.max(data.upTo, upTo);
    for (const [key, { version, value }] of Object.entries(data.documents))
      if (version <= upTo && value === null) delete data.documents[key];
  }

  #getOrCreateChain(root: string): CachedChain {
    const chain = this.chainsByRoot.get(root) ?? { low: this.#createLow(root), filedVersion: 0, isComplete: true };
    this.chainsByRoot.set(root, chain);
    return chain;
  }
}
