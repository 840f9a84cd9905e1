import { contentChain, DocumentMap, withoutLease } from "gantry/plugin";
import type { StoredDocument } from "gantry/plugin";
import type { Low } from "lowdb";
import type { ChainFile } from "./chain-file.js";
import { VERSION } from "./chain-file.js";
import { parsed } from "./files.js";

/** A document in a line of the log. A null value: it is gone. The version, if it is not that of the line. */
export type Entry = readonly [chain: string, key: string, value: unknown, version?: number];

/** Any line. The first one is a head. `filed`: up to which version the files of chains have everything. */
export type Line =
  | { head: number; version: number }
  | { version: number; set: readonly Entry[] }
  | { filed: readonly (readonly [chain: string, upTo: number])[] };

/** A chain beside its small documents. */
export interface Chain {
  /** Keys of its small documents. */
  readonly cards: Set<string>;
  /** Documents with messages that its file lacks; a null value: the file may have one that is gone. */
  readonly fresh: Map<string, { version: number; value: unknown }>;
  /** Version of its last change. */
  last: number;
  /** Version up to which its file has everything; 0 without a file. */
  filed: number;
  /** Characters of the log that its file lacks, roughly. */
  behind: number;
  /** Length of its file, as far as it is known. */
  size: number;
  /** Its file, read. */
  low?: Low<ChainFile> | undefined;
}

/** All that is stored, as the log says: small documents always, those with messages as far as no file has them. */
export class Mirror {
  readonly cards = new DocumentMap();
  readonly chains = new Map<string, Chain>();
  /** Keys of small documents, with their chain. */
  readonly #owners = new Map<string, string>();
  /** Of the last change. */
  version = 0;

  /** Takes a line in. False for one that is none. */
  take(text: string, changed?: Set<string>): boolean {
    const line = parsed<Line>(text);
    if (!line) return false;
    if ("head" in line) {
      this.version = line.version;
      return line.head === VERSION;
    }
    if ("filed" in line) for (const [chain, upTo] of line.filed) this.filed(chain, upTo);
    else if (Array.isArray(line.set)) this.apply(line.version, line.set, text.length, changed);
    else return false;
    return true;
  }

  /** `length`: how many characters of the log say so. */
  apply(version: number, set: readonly Entry[], length: number, changed?: Set<string>): void {
    this.version = Math.max(this.version, version);
    const roots = new Set(set.map(([chain]) => chain));
    for (const [root, key, value, own = version] of set) this.#put(root, { key, value, version: own });
    for (const root of roots) {
      changed?.add(root);
      const chain = this.chains.get(root);
      if (!chain) continue;
      if (chain.last > chain.filed) chain.behind += length / roots.size;
      if (chain.cards.size === 0) this.chains.delete(root);
    }
  }

  /** The chain's file has everything up to a version. What is in memory of an older file is of no use then. */
  filed(root: string, upTo: number): void {
    const chain = this.#chain(root);
    if (upTo <= chain.filed) return;
    this.version = Math.max(this.version, upTo);
    chain.filed = upTo;
    if ((chain.low?.data.upTo ?? upTo) < upTo) chain.low = undefined;
    for (const [key, { version }] of chain.fresh) if (version <= upTo) chain.fresh.delete(key);
    chain.behind = 0;
    // What came since the file was begun.
    for (const { value } of chain.fresh.values()) chain.behind += JSON.stringify(value).length;
  }

  /** Whether the chain's file must be read for this document. */
  isUnread(key: string): Chain | undefined {
    const root = contentChain(key);
    const chain = root === undefined ? undefined : this.chains.get(root);
    return chain && chain.filed > 0 && !chain.low && !chain.fresh.has(key) ? chain : undefined;
  }

  get(key: string): StoredDocument | undefined {
    const root = contentChain(key);
    if (root === undefined) return this.cards.get(key);
    const chain = this.chains.get(root);
    const document = chain?.fresh.get(key) ?? chain?.low?.data.documents[key];
    return document && document.value !== null ? { key, ...document } : undefined;
  }

  /** Lines that say all that there is and what files lack of it. */
  lines(): string[] {
    const filed = [...this.chains]
      .filter(([, chain]) => chain.filed > 0)
      .map(([root, chain]) => [root, chain.filed] as const);
    const lines: Line[] = [{ head: VERSION, version: this.version }, { filed }];
    for (const [root, { cards, fresh }] of this.chains) {
      const set: Entry[] = [];
      for (const key of cards) {
        const card = this.cards.get(key);
        if (card) set.push([root, key, card.value, card.version]);
      }
      for (const [key, { value, version }] of fresh) set.push([root, key, value, version]);
      lines.push({ version: this.version, set });
    }
    return lines.map((line) => JSON.stringify(line));
  }

  /** Everything of a chain, whose file was read if there is one. */
  fileOf(root: string): ChainFile {
    const chain = this.#chain(root);
    const documents = { ...chain.low?.data.documents };
    for (const [key, { version, value }] of chain.fresh)
      if (value === null) delete documents[key];
      else documents[key] = { version, value };
    for (const key of Object.keys(documents)) if (contentChain(key) === undefined) delete documents[key];
    for (const key of chain.cards) {
      const card = this.cards.get(key);
      if (card) documents[key] = { version: card.version, value: card.value };
    }
    return { version: VERSION, chain: root, upTo: chain.last, documents };
  }

  /** What other processes did since is lost: nobody has a lease any more, and versions and fences begin above all that can have been given. */
  forgetLeases(): void {
    this.version = Math.max(this.version, Date.now());
    for (const [root, { cards }] of [...this.chains])
      for (const key of [...cards]) {
        const value = root === "" ? null : withoutLease(key, this.cards.get(key)?.value);
        this.#put(root, { key, value, version: this.version });
      }
    this.chains.delete("");
  }

  #put(root: string, { key, value, version }: StoredDocument): void {
    const chain = this.#chain(root);
    chain.last = Math.max(chain.last, version);
    if (contentChain(key) !== undefined) {
      if (version > chain.filed) chain.fresh.set(key, { version, value });
      return;
    }
    const owner = this.#owners.get(key);
    if (owner !== undefined) this.chains.get(owner)?.cards.delete(key);
    this.#owners.delete(key);
    if (value === null) return this.cards.delete(key);
    this.#owners.set(key, root);
    chain.cards.add(key);
    this.cards.set({ key, value, version });
  }

  #chain(root: string): Chain {
    const chain = this.chains.get(root) ?? {
      cards: new Set(),
      fresh: new Map(),
      last: 0,
      filed: 0,
      behind: 0,
      size: 0,
    };
    this.chains.set(root, chain);
    return chain;
  }
}
