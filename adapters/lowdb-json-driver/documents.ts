import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { SessionExistsError, StoreError } from "gantry";
import { contentChain, createFolder, holderState, thisHolder, withoutLease } from "gantry/plugin";
import type { Logger } from "gantry";
import type { DocumentChange, DocumentStore, Holder, StoredDocument } from "gantry/plugin";
import type { Low } from "lowdb";
import { ChainFileAdapter, NO_FILE, readChainFile, VERSION } from "./chain-file.js";
import type { ChainFile, FiledDocument } from "./chain-file.js";
import { Files, fileName, parsed, textOf } from "./files.js";
import { Filing } from "./filing.js";
import { CARD, Lock } from "./lock.js";
import { Log } from "./log.js";
import { Mirror } from "./mirror.js";
import type { Chain, Entry, Line } from "./mirror.js";
import type { LowdbJsonOptions } from "./options.js";

/** The log is written anew when it is twice as long, in bytes, as it was then, and at least so much longer. */
const LOG_LIMIT = 2 * 1024 * 1024;
/** At open already when it is longer than this, and than so much for each chain. */
const OPEN_LIMIT = LOG_LIMIT / 16;
const LOG_PER_CHAIN = 4000;
/** Chains whose files are kept in memory. */
const MAX_READ_CHAINS = 64;
/** A file that is older than the log says is read so often again: another process may be about to replace it. */
const MAX_READS = 3;

/**
 * Documents in a folder, which any number of processes share. A change is a line of one log: it is made when the line is
 * there. A chain's file gets its documents when the chain was quiet for a while, and the log forgets them then.
 */
export class JsonDocuments implements DocumentStore {
  readonly path: string;
  readonly files: Files;
  readonly log: Log;
  readonly filing: Filing;
  readonly logger: Logger | undefined;
  mirror = new Mirror();
  readonly #lock: Lock;
  readonly #low: Pick<typeof import("lowdb"), "Low">;
  /** Chains whose files are in memory, the last used last. */
  readonly #read = new Set<string>();
  /** Chains that another process changed since `news` was asked; null: any. */
  #changed: Set<string> | null = null;
  /** One after the other: the lock is one of processes. */
  #turn: Promise<unknown> = Promise.resolve();
  #isDamaged = false;
  readonly #reported = new Set<string>();
  /** Length of the log when it was last as short as it can be. */
  #shortest = 0;

  private constructor(
    path: string,
    files: Files,
    low: Pick<typeof import("lowdb"), "Low">,
    lock: Lock,
    logger?: Logger,
  ) {
    this.path = path;
    this.files = files;
    this.logger = logger;
    this.log = new Log(join(`${path}.d`, "log.jsonl"), files.durable);
    this.filing = new Filing(this);
    this.#low = low;
    this.#lock = lock;
  }

  static async open({ path, durability }: LowdbJsonOptions, logger: Logger | undefined): Promise<JsonDocuments> {
    const beside = `${path}.d`;
    const drivers = join(beside, "open");
    const versionFile = join(beside, "version.json");
    const stored = storedVersion(path, versionFile);
    const low = await import("lowdb");
    for (const folder of [path, beside, drivers]) {
      createFolder(folder);
      chmodSync(folder, 0o700);
    }
    const self = thisHolder();
    const files = new Files(join(drivers, self.id), durability !== "normal");
    mkdirSync(files.temp, { mode: 0o700 });
    try {
      writeFileSync(join(files.temp, CARD), JSON.stringify(self), { mode: 0o600 });
      const documents = new JsonDocuments(path, files, low, new Lock(join(beside, "lock"), drivers, self.id), logger);
      await documents.#ready(stored, versionFile);
      for (const id of readdirSync(drivers)) {
        const holder = parsed<Holder>(textOf(join(drivers, id, CARD)));
        if (holder && holderState(holder) === "dead") rmSync(join(drivers, id), { recursive: true, force: true });
      }
      return documents;
    } catch (error) {
      rmSync(files.temp, { recursive: true, force: true });
      throw error;
    }
  }

  async close(): Promise<void> {
    // What cannot be written now is in the log.
    await this.filing.close();
    await this.#turn;
    this.log.close();
    rmSync(this.files.temp, { recursive: true, force: true });
  }

  async get(keys: readonly string[]): Promise<(StoredDocument | undefined)[]> {
    await this.#refresh();
    // A file may be newer than what was read of the log: that is looked at again until nothing is unread.
    for (let unread = this.#unread(keys); unread.size > 0; unread = this.#unread(keys)) {
      for (const root of unread) await this.readFile(root);
      await this.#refresh();
    }
    return keys.map((key) => this.mirror.get(key));
  }

  async scan(prefixes: readonly string[]): Promise<StoredDocument[]> {
    await this.#refresh();
    return this.mirror.cards.scan(prefixes);
  }

  async compareAndSet(changes: readonly DocumentChange[], { sync }: { sync: boolean }): Promise<boolean> {
    if (this.#isLong) await this.#shorten();
    const isDone = await this.locked(() => {
      const { mirror } = this;
      for (const { key, version } of changes)
        if (version !== undefined && (mirror.get(key)?.version ?? 0) !== version) return false;
      const set = changes.flatMap(({ chain, key, value }): Entry[] =>
        value === undefined ? [] : [[chain, key, value]],
      );
      if (set.length > 0) this.#write(set);
      return true;
    });
    if (isDone && sync) await this.log.sync();
    return isDone;
  }

  /** For a notifier: chains that others changed since the last call; true where it may be any. */
  news(): Iterable<string> | boolean {
    this.#take();
    const changed = this.#changed;
    this.#changed = new Set();
    return changed ?? true;
  }

  pathOf(root: string): string {
    return join(this.path, fileName(root));
  }

  /** Work while no other process changes the store, with all that they did. What the work throws leaves memory as the log is. */
  locked<T>(work: () => T): Promise<T> {
    const done = this.#turn.then(async () => {
      await this.#lock.take();
      try {
        if (!this.#take() || this.#isDamaged) this.#mend();
        return work();
      } catch (error) {
        // What is on the disk is true.
        this.log.drop();
        this.log.end = 0;
        throw error;
      } finally {
        this.#lock.give();
      }
    });
    this.#turn = done.catch(() => undefined);
    return done;
  }

  /** Has the file of a chain in memory, if the chain has one. Rejects where it cannot be used; undefined for an unknown chain. */
  async readFile(root: string): Promise<Chain | undefined> {
    for (let attempt = 0; ; attempt++) {
      const { mirror } = this;
      const chain = mirror.chains.get(root);
      if (!chain) return undefined;
      this.#keep(root);
      if (chain.low) return chain;
      const low = this.#lowOf(root);
      if (chain.filed > 0) await this.#readLow(root, low);
      // Removed by hand, or by another process that deletes the chain.
      if (chain.filed > 0 && low.data === NO_FILE) await this.#forgetLost(root);
      // The log was read anew meanwhile, or says of a newer file.
      if (this.mirror !== mirror || mirror.chains.get(root) !== chain || chain.low) continue;
      if (low.data.upTo < chain.filed && attempt < MAX_READS) continue;
      if (low.data.upTo > mirror.version && (await this.#isNewer(low.data))) continue;
      chain.size = statSync(this.pathOf(root), { throwIfNoEntry: false })?.size ?? 0;
      chain.low = low;
      mirror.filed(root, low.data.upTo);
      return chain;
    }
  }

  /** Under the lock: says in the log that the chain's file has everything up to a version. */
  writeFiled(root: string, upTo: number): void {
    this.log.add(JSON.stringify({ filed: [[root, upTo]] } satisfies Line));
    this.log.flush();
    this.mirror.filed(root, upTo);
  }

  #lowOf(root: string): Low<ChainFile> {
    const replace = (temp: string): Promise<void> => this.filing.replace(root, temp);
    return new this.#low.Low<ChainFile>(new ChainFileAdapter(this.pathOf(root), this.files, replace), NO_FILE);
  }

  async #readLow(root: string, low: Low<ChainFile>): Promise<void> {
    try {
      await low.read();
    } catch (error) {
      this.#report(this.pathOf(root), error);
      throw error;
    }
  }

  /** Whether a power cut took the end of the log, so that a file knows more. Its small documents are true then. */
  #isNewer({ chain, upTo, documents }: ChainFile): Promise<boolean> {
    return this.locked(() => {
      if (upTo > this.mirror.version) this.#writeCards(chain, upTo, documents);
      return true;
    });
  }

  #report(path: string, error: unknown): void {
    const message = "a session's file cannot be used; it is left as it is";
    if (!this.#reported.has(path)) this.logger?.error(message, { path, why: String(error) });
    this.#reported.add(path);
  }

  /** A chain whose file somebody removed is deleted. */
  #forgetLost(root: string): Promise<void> {
    return this.locked(() => {
      const chain = this.mirror.chains.get(root);
      if (!chain || chain.filed === 0 || existsSync(this.pathOf(root))) return;
      this.#write([...chain.cards].map((key) => [root, key, null]));
    });
  }

  #write(set: readonly Entry[]): void {
    const { mirror } = this;
    const version = mirror.version + 1;
    for (const root of new Set(set.map(([chain]) => chain))) {
      if (root === "") continue;
      const chain = mirror.chains.get(root);
      // Left by somebody else, or damaged: what it holds is not written over.
      if (!chain && existsSync(this.pathOf(root))) throw new SessionExistsError(root);
      const gone = set.filter(([of, key, value]) => of === root && value === null && contentChain(key) === undefined);
      // A crash between the two leaves a chain without its file, which is none.
      if (chain && gone.length === chain.cards.size) this.#removeFile(root);
    }
    const text = JSON.stringify({ version, set });
    this.log.add(text);
    this.log.flush();
    mirror.apply(version, set, text.length);
    for (const [root] of set) if (root !== "") this.filing.note(root);
  }

  #removeFile(root: string): void {
    const path = this.pathOf(root);
    if (!existsSync(path)) return;
    rmSync(path, { force: true });
    this.files.syncFolder(this.path);
  }

  #unread(keys: readonly string[]): Set<string> {
    const unread = new Set<string>();
    for (const key of keys) if (this.mirror.isUnread(key)) unread.add(contentChain(key) as string);
    return unread;
  }

  #keep(root: string): void {
    this.#read.delete(root);
    this.#read.add(root);
    for (const other of this.#read) {
      if (this.#read.size <= MAX_READ_CHAINS) return;
      const chain = this.mirror.chains.get(other);
      if (chain) chain.low = undefined;
      this.#read.delete(other);
    }
  }

  async #refresh(): Promise<void> {
    if (!this.#take()) await this.locked(() => undefined);
  }

  /** Takes in what any process has done. Needs no lock. False if there is no log that can be used: memory is as it was then. */
  #take(): boolean {
    const { lines = [], another = true } = this.log.read() ?? {};
    if (another) {
      if (!("head" in (parsed<object>(lines[0]) ?? {}))) {
        this.log.end = 0;
        return false;
      }
      this.mirror = new Mirror();
      this.#read.clear();
      this.#isDamaged = false;
      this.#changed = null;
    }
    for (const line of lines) if (!this.mirror.take(line, this.#changed ?? undefined)) this.#isDamaged = true;
    return true;
  }

  async #ready(storedVersion: number, versionFile: string): Promise<void> {
    if (storedVersion < VERSION)
      await this.#inTurn(async () => {
        const { upgrade } = await import("./upgrade.js");
        await upgrade(this.path, this.files, this.logger);
        this.files.replace(versionFile, JSON.stringify({ version: VERSION }));
      });
    await this.locked(() => {
      this.#agree();
      if (this.log.end > OPEN_LIMIT + LOG_PER_CHAIN * this.mirror.chains.size) this.#rewrite();
      this.#shortest = this.log.end;
    });
    for (const root of this.mirror.chains.keys()) this.filing.note(root);
  }

  /** The lock, without a look at the log. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(async () => {
      await this.#lock.take();
      try {
        return await work();
      } finally {
        this.#lock.give();
      }
    });
    this.#turn = done.catch(() => undefined);
    return done;
  }

  /** Under the lock: makes log and files agree after a crash, or after somebody put files there or took them away. */
  #agree(): void {
    const names = new Set(readdirSync(this.path).filter((name) => name.endsWith(".json")));
    for (const [root, chain] of [...this.mirror.chains]) {
      const hasFile = names.delete(basename(this.pathOf(root)));
      if (!hasFile && chain.filed > 0) this.#write([...chain.cards].map((key) => [root, key, null]));
    }
    // What the log does not know was put there by hand, or is older than the log.
    for (const path of [...names].map((name) => join(this.path, name)))
      try {
        this.#takeFile(path);
      } catch (error) {
        this.#report(path, error);
      }
  }

  #takeFile(path: string): void {
    const file = readChainFile(path);
    if (!file) return;
    const { chain, upTo, documents } = file;
    const cards = cardsOf(documents);
    if (this.pathOf(chain) !== path) throw new Error(`it has the session ${chain}`);
    for (const [key] of cards) if (this.mirror.get(key)) throw new Error(`the store has another ${key}`);
    this.#writeCards(chain, upTo, documents);
  }

  /** Under the lock: says in the log what a file has. */
  #writeCards(chain: string, upTo: number, documents: ChainFile["documents"]): void {
    const version = Math.max(this.mirror.version, upTo) + 1;
    const set = cardsOf(documents).map(([key, { value }]): Entry => [chain, key, withoutLease(key, value)]);
    const text = JSON.stringify({ version, set } satisfies Line);
    this.log.add(text);
    this.mirror.apply(version, set, text.length);
    this.writeFiled(chain, upTo);
  }

  /** Has what is long in the files, so that the log need not have it, and writes the log anew. */
  async #shorten(): Promise<void> {
    await this.filing.fileLong();
    await this.locked(() => {
      if (this.#isLong) this.#rewrite();
      this.#shortest = this.log.end;
    });
  }

  get #isLong(): boolean {
    return this.log.end > this.#shortest + Math.max(this.#shortest, LOG_LIMIT);
  }

  /** Under the lock: puts a log in place that says what there is, and no more. */
  #rewrite(): void {
    // What the old log could still make good.
    this.files.syncFolder(this.path);
    this.files.replace(this.log.path, `${this.mirror.lines().join("\n")}\n`);
    this.log.adopt();
    this.#isDamaged = false;
  }

  /** Under the lock: the log is lost or damaged. Makes one of what could be read of it, of what is in memory, and of the files. */
  #mend(): void {
    const kept = join(`${this.path}.d`, `bad-${Date.now()}-log.jsonl`);
    if (existsSync(this.log.path)) {
      copyFileSync(this.log.path, kept);
      this.logger?.error("the log of the session store is damaged; what is readable is used, a copy is kept", { kept });
    }
    const isLost = !this.#isDamaged;
    if (isLost) this.mirror.forgetLeases();
    this.#rewrite();
    if (isLost) this.#agree();
    this.log.flush();
  }
}

function cardsOf(documents: ChainFile["documents"]): [string, FiledDocument][] {
  return Object.entries(documents).filter(([key]) => contentChain(key) === undefined);
}

function storedVersion(path: string, file: string): number {
  const text = textOf(file);
  const version = text === undefined ? 0 : Number(parsed<{ version: unknown }>(text)?.version);
  if (version <= VERSION) return version;
  const why = version > VERSION ? `written by a newer gantry (version ${version})` : `${file} is damaged`;
  throw new StoreError(`session store ${path}: ${why}; left as it is: update gantry, or choose another session.path`);
}
