import { currentDocument } from "gantry/plugin";
import { copyFileSync, existsSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SessionExistsError, StoreError, type Logger } from "gantry";
import { createFolder, withoutLease } from "gantry/plugin";
import type { DocumentChange, DocumentStore, StoredDocument } from "gantry/plugin";
import type { Low } from "lowdb";
import { ChainFileAdapter, damaged, LAYOUT, readChainFile, type ChainFile } from "./chain-file.js";
import { Chains, isSmall, type CachedChain, type LogEntry, type LogLine } from "./chains.js";
import { fileName, readJson, syncFolder } from "./files.js";
import { Log } from "./log.js";
import { ProcessLock } from "./process-lock.js";

const VERSION_FILE = "version.json";
const TEMP_FOLDER = "temp";
/** Maximum number of files written concurrently; they share disk syncs. */
const MAX_FILES_AT_ONCE = 16;
/** Minimum interval between writes of the files of changed chains, in ms. */
const FILING_INTERVAL_MS = 250;
/** Maximum share of time spent on writing files. */
const MAX_FILING_SHARE = 0.02;
/** The log is rewritten when it exceeds twice its size after the last rewrite by this number of bytes. */
const MAX_LOG_BYTES = 2 * 1024 * 1024;
/** Estimated size of a rewritten log per chain, in bytes; used until the first rewrite. */
const LOG_BYTES_PER_CHAIN = 4_000;
/** Maximum number of chains with all documents in memory. */
const MAX_COMPLETE_CHAINS = 64;

/**
 * Documents in a folder, for one process. A change is a log line; soon after it, lowdb writes the file of the chain.
 * The log contains the small documents and everything that the files lack, so that a file is read only for its
 * messages.
 */
export class JsonDocuments implements DocumentStore {
  readonly #path: string;
  readonly #beside: string;
  readonly #logger: Logger | undefined;
  readonly #lock: ProcessLock;
  readonly #lowdb: typeof import("lowdb");
  readonly #log: Log;
  readonly #chains: Chains;
  /** Chains with incomplete files. */
  readonly #unfiled = new Set<string>();
  /** Chains by last read or write of their files, most recent last. */
  readonly #used = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #filing: Promise<void> = Promise.resolve();
  #filingDelayMs = FILING_INTERVAL_MS;
  #rewrittenBytes = 0;

  private constructor(path: string, lock: ProcessLock, lowdb: typeof import("lowdb"), logger: Logger | undefined) {
    this.#path = path;
    this.#beside = `${path}.d`;
    this.#logger = logger;
    this.#lock = lock;
    this.#lowdb = lowdb;
    this.#log = new Log(join(this.#beside, "log.jsonl"));
    this.#chains = new Chains((root) => this.#create(root));
  }

  /** Opens the store. `path`: folder of the chains' files. Rejects with `StoreError` if another process has it open. */
  static async open(path: string, logger: Logger | undefined): Promise<JsonDocuments> {
    const beside = `${path}.d`;
    checkLayout(path, beside);
    for (const folder of [path, beside]) createFolder(folder);
    const lock = await ProcessLock.take(join(beside, "lock"), path);
    try {
      rmSync(join(beside, TEMP_FOLDER), { recursive: true, force: true });
      createFolder(join(beside, TEMP_FOLDER));
      const documents = new JsonDocuments(path, lock, await import("lowdb"), logger);
      await documents.#readLog();
      documents.#compareFiles();
      writeVersion(join(beside, VERSION_FILE));
      return documents;
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#filing;
    await this.#fileAll();
    this.#log.close();
    this.#lock.release();
  }

  async get(keys: readonly string[]): Promise<(StoredDocument | undefined)[]> {
    const incomplete = () => keys.map((key) => this.#chains.incompleteFor(key)).find((chain) => chain !== undefined);
    for (let chain = incomplete(); chain; chain = incomplete()) await this.#readFile(chain);
    const documents = keys.map((key) => this.#chains.document(key));
    this.#forgetOldest();
    return documents;
  }

  scan(prefixes: readonly string[]): Promise<StoredDocument[]> {
    return Promise.resolve(this.#chains.smallDocuments.scan(prefixes));
  }

  async compareAndSet(changes: readonly DocumentChange[], { sync }: { sync: boolean }): Promise<boolean> {
    const set: LogEntry[] = [];
    for (const { chain, key, version, value } of changes) {
      if (version !== undefined && (this.#chains.document(key)?.version ?? 0) !== version) return false;
      if (value !== undefined) set.push([chain, key, value]);
    }
    const deletes = set.length > 0 && this.#write(set);
    if (sync && deletes) await syncFolder(this.#path);
    if (sync) await this.#log.sync();
    return true;
  }

  #pathOf(root: string): string {
    return join(this.#path, fileName(root));
  }

  /** Creates lowdb's object for the file of a chain. */
  #create(chain: string): Low<ChainFile> {
    const adapter: ChainFileAdapter = new ChainFileAdapter(
      this.#pathOf(chain),
      join(this.#beside, TEMP_FOLDER),
      async () => {
        // Syncs the log first: after a power failure it must not be older than the files.
        await this.#log.sync();
        return this.#chains.byRoot.get(chain)?.low.adapter === adapter;
      },
    );
    return new this.#lowdb.Low<ChainFile>(adapter, { version: LAYOUT, chain, upTo: 0, documents: {} });
  }

  /** Returns whether the entries delete a chain. */
  #write(set: readonly LogEntry[]): boolean {
    this.#lock.check();
    const roots = new Set(set.map(([root]) => root).filter((root) => root !== ""));
    // Never overwrites a file of another program or a damaged file.
    for (const root of roots)
      if (!this.#chains.byRoot.has(root) && existsSync(this.#pathOf(root))) throw new SessionExistsError(root);
    const deleted = this.#chains.deletedBy(set).filter((root) => root !== "");
    // Removes the file before the log line. After a crash, a chain without its file is deleted, but a file without its
    // chain would be imported.
    for (const root of deleted) rmSync(this.#pathOf(root), { force: true });
    this.#append({ version: this.#chains.version + 1, set });
    for (const root of roots) this.#unfiled.add(root);
    this.#fileLater();
    return deleted.length > 0;
  }

  #append(line: LogLine): void {
    this.#log.append(JSON.stringify(line));
    this.#chains.apply(line);
  }

  /** Loads all documents of a chain into memory. */
  async #readFile(chain: CachedChain): Promise<void> {
    const { documents, chain: root } = chain.low.data;
    const low = this.#create(root);
    await low.read();
    const file = low.data;
    if (file.upTo < chain.filed) throw damaged(this.#pathOf(root), "it is older than the log says");
    if (file.upTo > this.#chains.version) throw damaged(this.#pathOf(root), "it is newer than the log");
    for (const [key, document] of Object.entries(file.documents)) if (!isSmall(key)) documents[key] ??= document;
    chain.isComplete = true;
    this.#noteUse(root);
  }

  #noteUse(root: string): void {
    this.#used.delete(root);
    this.#used.add(root);
  }

  #forgetOldest(): void {
    for (const root of this.#used) {
      if (this.#used.size <= MAX_COMPLETE_CHAINS) return;
      const chain = this.#chains.byRoot.get(root);
      if (chain) this.#chains.forgetFiled(chain);
      this.#used.delete(root);
    }
  }

  #fileLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#filing = this.#filing.then(() => this.#fileAll());
    }, this.#filingDelayMs).unref();
  }

  /** Writes the incomplete files. Never rejects: the log contains what a file lacks. */
  async #fileAll(): Promise<void> {
    const since = performance.now();
    const roots = [...this.#unfiled];
    this.#unfiled.clear();
    while (roots.length > 0) await Promise.all(roots.splice(0, MAX_FILES_AT_ONCE).map((root) => this.#tryFile(root)));
    if (this.#log.bytes > 2 * this.#rewrittenBytes + MAX_LOG_BYTES)
      await this.#rewrite().catch((error: unknown) => this.#warn({ path: this.#log.path, why: String(error) }));
    this.#filingDelayMs = Math.max(FILING_INTERVAL_MS, (performance.now() - since) / MAX_FILING_SHARE);
  }

  #warn(fields: Record<string, string>): void {
    this.#logger?.warn("session store file not written; its data stays in the log", fields);
  }

  async #tryFile(root: string): Promise<void> {
    try {
      await this.#file(root);
    } catch (error) {
      // Retried with the next change, or when the store is closed.
      this.#unfiled.add(root);
      this.#warn({ session: root, why: String(error) });
    }
  }

  async #file(root: string): Promise<void> {
    let chain = this.#chains.byRoot.get(root);
    for (; chain && !chain.isComplete; chain = this.#chains.byRoot.get(root)) await this.#readFile(chain);
    if (!chain || chain.low.data.upTo <= chain.filed) return;
    const { upTo } = chain.low.data;
    await chain.low.write();
    // The chain may have been deleted meanwhile.
    if (this.#chains.byRoot.get(root) !== chain) return;
    this.#append({ version: this.#chains.version, filed: [[root, upTo]] });
    this.#noteUse(root);
  }

  async #rewrite(): Promise<void> {
    await this.#log.rewrite(this.#chains.lines());
    this.#rewrittenBytes = this.#log.bytes;
  }

  async #readLog(): Promise<void> {
    const { byRoot } = this.#chains;
    let isDamaged = false;
    for (const text of this.#log.read())
      try {
        this.#chains.apply(parseLine(text));
      } catch {
        isDamaged = true;
      }
    for (const [root, chain] of byRoot) {
      this.#chains.forgetFiled(chain);
      if (root !== "" && chain.low.data.upTo > chain.filed) this.#unfiled.add(root);
    }
    if (this.#unfiled.size > 0) this.#fileLater();
    this.#rewrittenBytes = LOG_BYTES_PER_CHAIN * byRoot.size;
    if (!isDamaged) return;
    const copy = join(this.#beside, `bad-${Date.now()}-log.jsonl`);
    copyFileSync(this.#log.path, copy);
    this.#logger?.error("session store log damaged; readable lines used, copy stored", { copy });
    await this.#rewrite();
  }

  /** Deletes chains whose file was removed, and imports files that were added. */
  #compareFiles(): void {
    const names = new Set(readdirSync(this.#path).filter((name) => name.endsWith(".json")));
    for (const [root, { filed }] of [...this.#chains.byRoot])
      if (!names.delete(fileName(root)) && filed > 0) this.#deleteChain(root);
    for (const path of [...names].map((name) => join(this.#path, name)))
      try {
        this.#takeIn(path);
      } catch (error) {
        this.#logger?.error("session file unusable; ignored", { path, why: String(error) });
      }
  }

  #deleteChain(root: string): void {
    const { documents } = this.#chains.byRoot.get(root)?.low.data ?? {};
    this.#write(Object.keys(documents ?? {}).map((key) => [root, key, null]));
  }

  #takeIn(path: string): void {
    const file = readChainFile(path);
    if (!file) return;
    const { chain: root, upTo, documents } = file;
    const smallEntries = Object.entries(documents).filter(([key]) => isSmall(key));
    if (this.#pathOf(root) !== path) throw new Error(`it contains the session ${root}`);
    for (const [key] of smallEntries) if (this.#chains.document(key)) throw new Error(`the store has another ${key}`);
    const set = smallEntries.map(([key, { value }]): LogEntry => [root, key, withoutLease(key, value)]);
    this.#append({ version: Math.max(this.#chains.version, upTo) + 1, set, filed: [[root, upTo]] });
    const chain = this.#chains.byRoot.get(root);
    if (chain) this.#chains.forgetFiled(chain);
  }
}

function writeVersion(path: string): void {
  if (existsSync(path)) return;
  writeFileSync(`${path}.new`, JSON.stringify({ version: LAYOUT }), { mode: 0o600, flush: true });
  renameSync(`${path}.new`, path);
}

/** Throws if the text is not a log line. */
function parseLine(text: string): LogLine {
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

/** Throws `StoreError` for a store of another layout. */
function checkLayout(path: string, beside: string): void {
  let layout: unknown = "unknown";
  try {
    const stored = readJson(join(beside, VERSION_FILE));
    // Layout 1 had no such file. A folder without both files is new, or has lost the folder next to its chains' files.
    const isFirst = stored === undefined && existsSync(join(beside, "index.jsonl"));
    layout = isFirst ? 1 : stored === undefined ? LAYOUT : (stored as { version: unknown }).version;
  } catch {
    // The version file is damaged.
  }
  if (layout === LAYOUT) return;
  throw new StoreError(
    `session store ${path}: its layout is ${String(layout)}, and this gantry uses layout ${LAYOUT}; it was not modified. ` +
      `Keep the folders ${path} and ${beside}, and set another session.path`,
  );
}
