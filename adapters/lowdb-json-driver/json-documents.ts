import { copyFileSync, existsSync, readdirSync, rmSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SessionExistsError, type Logger } from "gantry";
import { createFolder, DiskReserve, isNearlyFull, withoutLease } from "gantry/plugin";
import type { DocumentChange, DocumentStore, StoredDocument } from "gantry/plugin";
import type { Low } from "lowdb";
import { ChainFileAdapter, createDamagedError, readChainFile, type ChainFile } from "./chain-file.js";
import { Chains, isSmall, parseLine, type CachedChain, type LogEntry, type LogLine } from "./chains.js";
import { toFileName, syncFolder } from "./files.js";
import { checkLayout, LAYOUT_VERSION, writeLayoutVersion } from "./layout.js";
import { Log } from "./log.js";
import { StoreLock } from "./store-lock.js";

const TEMP_FOLDER = "temp";
/** Maximum number of files written concurrently; they share disk syncs. */
const MAX_CONCURRENT_WRITES = 16;
/** Minimum interval between writes of the files of changed chains. */
const FILING_INTERVAL_MS = 250;
/** Maximum share of time spent on writing the chains' files. */
const MAX_FILING_SHARE = 0.02;
/** The log is rewritten when its size reaches twice the size after the last rewrite, plus this number of bytes. */
const LOG_GROWTH_BYTES = 2 * 1024 * 1024;
/** Size of the file that shows whether the disk has space, in bytes. */
const PROBE_BYTES = 16_384;
/** Estimated size of a rewritten log per chain; used until the first rewrite. */
const LOG_BYTES_PER_CHAIN = 4_000;

/**
 * Documents in a folder, for one process. A change is a log line; soon after the change, lowdb writes the file of the
 * chain. The log contains the small documents and everything that the files lack, so that a file is read only for the
 * messages of its chain.
 */
export class JsonDocuments implements DocumentStore {
  /** Folder of the chains' files. */
  readonly #path: string;
  /** Folder of the log, the lock and temporary files. */
  readonly #logFolder: string;
  readonly #logger: Logger | undefined;
  readonly #lock: StoreLock;
  readonly #lowdb: typeof import("lowdb");
  readonly #log: Log;
  readonly #chains: Chains;
  readonly #reserve: DiskReserve;
  /** Ids of chains with incomplete files. */
  readonly #unfiledRoots = new Set<string>();
  #filingTimer: NodeJS.Timeout | undefined;
  #lastFiling: Promise<void> = Promise.resolve();
  #filingDelayMs = FILING_INTERVAL_MS;
  /** Size of the log after the last rewrite; an estimate before the first rewrite. */
  #rewrittenLogBytes = 0;

  private constructor(path: string, lock: StoreLock, lowdb: typeof import("lowdb"), logger: Logger | undefined) {
    this.#path = path;
    this.#logFolder = `${path}.d`;
    this.#logger = logger;
    this.#lock = lock;
    this.#lowdb = lowdb;
    this.#log = new Log(join(this.#logFolder, "log.jsonl"));
    this.#chains = new Chains((root) => this.#createLow(root));
    this.#reserve = new DiskReserve(join(this.#logFolder, "reserve"), this.#logFolder);
  }

  /** `path`: folder of the chains' files. Rejects with `StoreError` if another process has the store open. */
  static async open(path: string, logger: Logger | undefined): Promise<JsonDocuments> {
    const logFolder = `${path}.d`;
    checkLayout(path, logFolder);
    for (const folder of [path, logFolder]) createFolder(folder);
    const lock = await StoreLock.acquire(join(logFolder, "lock"), path);
    try {
      rmSync(join(logFolder, TEMP_FOLDER), { recursive: true, force: true });
      createFolder(join(logFolder, TEMP_FOLDER));
      const documents = new JsonDocuments(path, lock, await import("lowdb"), logger);
      await documents.#readLog();
      documents.#applyFileChanges();
      writeLayoutVersion(logFolder);
      return documents;
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#filingTimer);
    await this.#lastFiling;
    await this.#writeChainFiles();
    this.#log.close();
    this.#lock.release();
  }

  async get(keys: readonly string[]): Promise<(StoredDocument | undefined)[]> {
    const findIncompleteChain = () =>
      keys.map((key) => this.#chains.findIncompleteChain(key)).find((chain) => chain !== undefined);
    for (let chain = findIncompleteChain(); chain; chain = findIncompleteChain()) await this.#loadChain(chain);
    const documents = keys.map((key) => this.#chains.findDocument(key));
    this.#chains.unloadOldest();
    return documents;
  }

  scan(prefixes: readonly string[]): Promise<StoredDocument[]> {
    return Promise.resolve(this.#chains.smallDocuments.scan(prefixes));
  }

  async compareAndSet(changes: readonly DocumentChange[], { sync }: { sync: boolean }): Promise<boolean> {
    const entries: LogEntry[] = [];
    for (const { chain, key, version, value } of changes) {
      if (version !== undefined && (this.#chains.findDocument(key)?.version ?? 0) !== version) return false;
      if (value !== undefined) entries.push([chain, key, value]);
    }
    const hasDeletedChain = entries.length > 0 && this.#writeEntries(entries);
    if (sync && hasDeletedChain) await syncFolder(this.#path);
    if (sync) await this.#log.sync();
    return true;
  }

  /** Writes a temporary file if the disk is nearly full. Rejects with the system's error, or `StoreError`. */
  async probe(): Promise<void> {
    this.#lock.throwIfLost();
    if (!isNearlyFull(this.#logFolder)) return;
    const path = join(this.#logFolder, TEMP_FOLDER, "probe");
    await writeFile(path, Buffer.alloc(PROBE_BYTES), { mode: 0o600, flush: true });
    await rm(path);
  }

  #pathOf(root: string): string {
    return join(this.#path, toFileName(root));
  }

  #createLow(chain: string): Low<ChainFile> {
    const adapter: ChainFileAdapter = new ChainFileAdapter(
      this.#pathOf(chain),
      join(this.#logFolder, TEMP_FOLDER),
      async () => {
        // Syncs the log first: after a power failure the log must not be older than the files.
        await this.#log.sync();
        return this.#chains.chainsByRoot.get(chain)?.low.adapter === adapter;
      },
    );
    return new this.#lowdb.Low<ChainFile>(adapter, { version: LAYOUT_VERSION, chain, upTo: 0, documents: {} });
  }

  /** Writes entries to the log and schedules the files. Returns whether the entries delete a chain. */
  #writeEntries(entries: readonly LogEntry[]): boolean {
    this.#lock.throwIfLost();
    const roots = new Set(entries.map(([root]) => root).filter((root) => root !== ""));
    // Never overwrites a file of another program or a damaged file.
    for (const root of roots)
      if (!this.#chains.chainsByRoot.has(root) && existsSync(this.#pathOf(root))) throw new SessionExistsError(root);
    const deletedRoots = this.#chains.findDeletedChains(entries).filter((root) => root !== "");
    // Removes the file before the log line. After a crash, a chain without its file is deleted, but a file without its
    // chain would be imported.
    for (const root of deletedRoots) rmSync(this.#pathOf(root), { force: true });
    const line = { version: this.#chains.version + 1, set: entries };
    try {
      this.#append(line);
    } catch (error) {
      // A chain that is only in the log has no file whose removal frees space.
      if (deletedRoots.length === 0 || (error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      this.#reserve.release();
      this.#append(line);
    }
    for (const root of roots) this.#unfiledRoots.add(root);
    this.#scheduleFiling();
    return deletedRoots.length > 0;
  }

  #append(line: LogLine): void {
    this.#log.append(JSON.stringify(line));
    this.#chains.apply(line);
  }

  /** Loads all documents of a chain into memory. */
  async #loadChain(chain: CachedChain): Promise<void> {
    const { documents, chain: root } = chain.low.data;
    const low = this.#createLow(root);
    await low.read();
    const file = low.data;
    if (file.upTo < chain.filedVersion) throw createDamagedError(this.#pathOf(root), "it is older than the log");
    if (file.upTo > this.#chains.version) throw createDamagedError(this.#pathOf(root), "it is newer than the log");
    for (const [key, document] of Object.entries(file.documents)) if (!isSmall(key)) documents[key] ??= document;
    chain.isComplete = true;
    this.#chains.recordUse(root);
  }

  #scheduleFiling(): void {
    this.#filingTimer ??= setTimeout(() => {
      this.#filingTimer = undefined;
      this.#lastFiling = this.#lastFiling.then(() => this.#writeChainFiles());
    }, this.#filingDelayMs).unref();
  }

  /** Writes the incomplete files. Never rejects: the log contains the data that a file lacks. */
  async #writeChainFiles(): Promise<void> {
    const startedAtMs = performance.now();
    const roots = [...this.#unfiledRoots];
    this.#unfiledRoots.clear();
    while (roots.length > 0)
      await Promise.all(roots.splice(0, MAX_CONCURRENT_WRITES).map((root) => this.#tryWriteChainFile(root)));
    if (this.#log.bytes > 2 * this.#rewrittenLogBytes + LOG_GROWTH_BYTES)
      await this.#rewriteLog().catch((error: unknown) =>
        this.#warnUnwritten({ path: this.#log.path, why: String(error) }),
      );
    await this.#reserve.fill();
    this.#filingDelayMs = Math.max(FILING_INTERVAL_MS, (performance.now() - startedAtMs) / MAX_FILING_SHARE);
  }

  #warnUnwritten(fields: Record<string, string>): void {
    this.#logger?.warn("session store file not written; its data stays in the log", fields);
  }

  async #tryWriteChainFile(root: string): Promise<void> {
    try {
      await this.#writeChainFile(root);
    } catch (error) {
      // Retried with the next change, or when the store is closed.
      this.#unfiledRoots.add(root);
      this.#warnUnwritten({ session: root, why: String(error) });
    }
  }

  async #writeChainFile(root: string): Promise<void> {
    let chain = this.#chains.chainsByRoot.get(root);
    for (; chain && !chain.isComplete; chain = this.#chains.chainsByRoot.get(root)) await this.#loadChain(chain);
    if (!chain || chain.low.data.upTo <= chain.filedVersion) return;
    const { upTo } = chain.low.data;
    await chain.low.write();
    // The chain may have been deleted meanwhile.
    if (this.#chains.chainsByRoot.get(root) !== chain) return;
    this.#append({ version: this.#chains.version, filed: [[root, upTo]] });
    this.#chains.recordUse(root);
  }

  async #rewriteLog(): Promise<void> {
    await this.#log.rewrite(this.#chains.createLines());
    this.#rewrittenLogBytes = this.#log.bytes;
  }

  async #readLog(): Promise<void> {
    const { chainsByRoot } = this.#chains;
    let isDamaged = false;
    for (const text of this.#log.read())
      try {
        this.#chains.apply(parseLine(text));
      } catch {
        isDamaged = true;
      }
    for (const [root, chain] of chainsByRoot) {
      this.#chains.dropFiledDocuments(chain);
      if (root !== "" && chain.low.data.upTo > chain.filedVersion) this.#unfiledRoots.add(root);
    }
    if (this.#unfiledRoots.size > 0) this.#scheduleFiling();
    this.#rewrittenLogBytes = LOG_BYTES_PER_CHAIN * chainsByRoot.size;
    if (!isDamaged) return;
    const copyPath = join(this.#logFolder, `bad-${Date.now()}-log.jsonl`);
    copyFileSync(this.#log.path, copyPath);
    this.#logger?.error("session store log damaged; readable lines used, copy stored", { copy: copyPath });
    await this.#rewriteLog();
  }

  /** Deletes chains whose file was removed, and imports files that were added. */
  #applyFileChanges(): void {
    const fileNames = new Set(readdirSync(this.#path).filter((name) => name.endsWith(".json")));
    for (const [root, { filedVersion }] of [...this.#chains.chainsByRoot])
      if (!fileNames.delete(toFileName(root)) && filedVersion > 0) this.#deleteChain(root);
    for (const path of [...fileNames].map((name) => join(this.#path, name)))
      try {
        this.#importFile(path);
      } catch (error) {
        this.#logger?.error("session file unusable; ignored", { path, why: String(error) });
      }
  }

  #deleteChain(root: string): void {
    const { documents } = this.#chains.chainsByRoot.get(root)?.low.data ?? {};
    this.#writeEntries(Object.keys(documents ?? {}).map((key) => [root, key, null]));
  }

  #importFile(path: string): void {
    const file = readChainFile(path);
    if (!file) return;
    const { chain: root, upTo, documents } = file;
    const smallEntries = Object.entries(documents).filter(([key]) => isSmall(key));
    if (this.#pathOf(root) !== path) throw new Error(`it contains the session ${root}`);
    for (const [key] of smallEntries)
      if (this.#chains.findDocument(key)) throw new Error(`the store has another ${key}`);
    const set = smallEntries.map(([key, { value }]): LogEntry => [root, key, withoutLease(key, value)]);
    this.#append({ version: Math.max(this.#chains.version, upTo) + 1, set, filed: [[root, upTo]] });
    const chain = this.#chains.chainsByRoot.get(root);
    if (chain) this.#chains.dropFiledDocuments(chain);
  }
}
