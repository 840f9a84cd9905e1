import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { createFolder, GantryError, StoreError, holderState, thisHolder } from "gantry";
import type { Holder, Logger } from "gantry";
import { ChainFiles } from "./chain-files.js";
import { Chains } from "./chains.js";
import { Files, parsed, textOf } from "./files.js";
import { Folding, SMALL } from "./folding.js";
import { CARD, Lock } from "./lock.js";
import { Log } from "./log.js";
import type { LowdbJsonOptions } from "./options.js";

/** Version of the store that this code reads and writes. In one of 2 each chain had a file from the start. */
const VERSION = 3;
/** The log is written anew when it is twice as long, in bytes, as it was then, and at least so much longer. */
const LOG_LIMIT = 2 * 1024 * 1024;
/** At open already when it is longer than this, and than so much for each session and run. */
const OPEN_LIMIT = LOG_LIMIT / 16;
const LOG_PER_ENTRY = 1000;
/** Most changes that share a turn at the lock. */
const GROUP = 64;

interface Job {
  work: () => unknown;
  sync: boolean;
  resolve: (value: never) => void;
  reject: (error: unknown) => void;
}

type Outcome = { value: unknown } | { error: unknown };

/**
 * An opened store: what is in it, and the turns in which it is changed, first come, first served. What piled up since
 * the last turn of the event loop shares a turn at the lock, a write to the log, and a sync of the disk.
 */
export class Store {
  readonly folding: Folding;
  readonly #jobs: Job[] = [];
  #pumping = false;
  /** Length of the log when it was last as short as it can be. */
  #shortest = 0;

  private constructor(
    readonly chains: Chains,
    readonly lock: Lock,
  ) {
    this.folding = new Folding(chains, (work) => this.change(false, work));
  }

  static async open({ path, durability }: LowdbJsonOptions, logger: Logger | undefined): Promise<Store> {
    const beside = `${path}.d`;
    const drivers = join(beside, "open");
    const version = join(beside, "version.json");
    const stored = storedVersion(path, version);
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
      if (stored !== VERSION) files.replace(version, JSON.stringify({ version: VERSION }));
      const log = new Log(join(beside, "log.jsonl"), files.durable);
      const chains = new Chains(log, new ChainFiles(path, files, low, logger));
      const store = new Store(chains, new Lock(join(beside, "lock"), drivers, self.id));
      await store.change(false, () => store.#ready());
      for (const id of readdirSync(drivers)) {
        const holder = parsed<Holder>(textOf(join(drivers, id, CARD)));
        if (holder && holderState(holder) === "dead") rmSync(join(drivers, id), { recursive: true, force: true });
      }
      return store;
    } catch (error) {
      rmSync(files.temp, { recursive: true, force: true });
      throw error;
    }
  }

  /** Do `work` while nobody else changes the store. With `sync`, what it did is on the disk when the promise resolves. */
  change<T>(sync: boolean, work: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#jobs.push({ work, sync, resolve, reject });
      // Never rejects: each job hears of its own failure, and whoever added it waits for it.
      if (!this.#pumping) void this.#pump();
    });
  }

  async close(): Promise<void> {
    const { chains } = this;
    // What cannot be written now is in the log.
    await this.folding.close();
    chains.log.close();
    rmSync(chains.files.files.temp, { recursive: true, force: true });
  }

  async #pump(): Promise<void> {
    this.#pumping = true;
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#jobs.length > 0) {
      await this.#group(this.#jobs.splice(0, GROUP));
      // Other work of the process gets its turn between two groups.
      if (this.#jobs.length > 0) await new Promise((resolve) => setImmediate(resolve));
    }
    // In the same turn as the last look at the list, so that nothing is added to a pump that has ended.
    this.#pumping = false;
  }

  async #group(jobs: readonly Job[]): Promise<void> {
    const { log } = this.chains;
    let outcomes: readonly Outcome[];
    try {
      await this.lock.take();
      try {
        outcomes = await this.#locked(jobs);
      } finally {
        this.lock.give();
      }
    } catch (error) {
      // Memory may be ahead of what was written: what is on the disk is true.
      log.end = 0;
      log.drop();
      outcomes = jobs.map(() => ({ error }));
    }
    // The next group does not wait for the disk.
    let synced: Promise<void> | undefined;
    jobs.forEach(({ sync, resolve, reject }, at) => {
      const outcome = outcomes[at];
      if (!outcome || "error" in outcome) return reject(outcome?.error);
      const done = (): void => resolve(outcome.value as never);
      if (sync) (synced ??= log.sync()).then(done, reject);
      else done();
    });
  }

  async #locked(jobs: readonly Job[]): Promise<readonly Outcome[]> {
    const { chains } = this;
    if (!chains.refresh() || chains.damaged) await this.#mend();
    this.#shortest = Math.min(this.#shortest, chains.log.end);
    if (chains.log.end > this.#shortest + Math.max(this.#shortest, LOG_LIMIT)) this.#shorten(false);
    const outcomes = jobs.map((job) => this.#done(job));
    chains.log.flush();
    return outcomes;
  }

  #done({ work }: Job): Outcome {
    const { chains } = this;
    try {
      return { value: work() };
    } catch (error) {
      if (!(error instanceof GantryError)) {
        // As below, and what those before it did is not lost.
        chains.log.flush();
        chains.log.end = 0;
        if (!chains.refresh()) throw error;
      }
      return { error };
    }
  }

  #ready(): void {
    const { chains } = this;
    this.#agree();
    chains.log.flush();
    const { sessions, runs } = chains.store;
    if (chains.log.end > OPEN_LIMIT + LOG_PER_ENTRY * (sessions.size + runs.size)) this.#shorten(false);
    this.#shortest = chains.log.end;
  }

  /**
   * Under the lock: write the log anew without what is in the chains' files. Those that lack more than a little get
   * it, or `all` do, however long they are: else the log would stay long for them. What they cannot get stays in the log.
   */
  #shorten(all: boolean): void {
    const { chains } = this;
    chains.damaged = false;
    try {
      for (const [root, known] of [...chains.known]) if (all || known.behind > SMALL) this.#fold(root);
      chains.rewrite();
    } catch (error) {
      chains.files.logger?.warn("the log of the session store could not be written anew yet", { why: String(error) });
    }
    this.#shortest = chains.log.end;
  }

  /** Under the lock: have all of a chain in its file. A failure loses nothing: the log has it. */
  #fold(root: string): void {
    const { chains } = this;
    if (!chains.isBehind(root) || !chains.load(root)) return;
    chains.log.syncNow();
    chains.addFolded(root, chains.write(root));
    chains.log.flush();
  }

  /** The log is lost or damaged: make one of what could be read of it, of what is in memory, and of what the files say. */
  async #mend(): Promise<void> {
    const { chains } = this;
    const kept = join(`${chains.files.path}.d`, `bad-${Date.now()}-log.jsonl`);
    if (existsSync(chains.log.path)) {
      copyFileSync(chains.log.path, kept);
      chains.files.logger?.error("the log of the session store is damaged; what is readable is used, a copy is kept", {
        kept,
      });
    }
    if (chains.damaged) return this.#shorten(true);
    for (const root of [...chains.known.keys()]) if (chains.isBehind(root) && chains.load(root)) chains.write(root);
    chains.clear();
    // Above all that can ever have been given.
    chains.store.fence = Date.now();
    const { upgrade } = await import("./upgrade.js");
    await upgrade(chains.files.path, chains.files.files);
    chains.rewrite();
    this.#agree();
    chains.log.flush();
  }

  /** Under the lock: make log and files agree after a crash, or after someone put files there or took them away. */
  #agree(): void {
    const { chains } = this;
    const names = new Set(readdirSync(chains.files.path).filter((name) => name.endsWith(".json")));
    for (const [root, { filed }] of [...chains.known]) {
      const hasFile = names.delete(basename(chains.files.pathOf(root)));
      if (!hasFile && filed > 0) chains.delete(root);
      else this.folding.note(root);
    }
    // What the log does not know was put there by hand, or is older than the log.
    for (const path of [...names].map((name) => join(chains.files.path, name))) {
      const file = chains.files.read(path);
      const root = file?.sessions[0]?.session.id ?? "";
      if (!file || chains.files.pathOf(root) !== path) continue;
      try {
        chains.store.checkFree(file);
        chains.store.load(file);
        chains.addFile(root, file.v);
      } catch (error) {
        if (!(error instanceof GantryError)) throw error;
        chains.files.logger?.error("a session's file is left out", { path, why: String(error) });
      }
    }
  }
}

function storedVersion(path: string, file: string): number {
  const text = textOf(file);
  const version = text === undefined ? 0 : Number(parsed<{ version: unknown }>(text)?.version);
  if (version <= VERSION) return version;
  const why = version > VERSION ? `written by a newer gantry (version ${version})` : `${file} is damaged`;
  throw new StoreError(`session store ${path}: ${why}; left as it is: update gantry, or choose another session.path`);
}
