import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { GantryError, StoreError, holderState, thisHolder } from "gantry";
import type { Holder, Logger } from "gantry";
import { Chains, VERSION } from "./chains.js";
import { Files, parsed, textOf } from "./files.js";
import { CARD, Lock } from "./lock.js";
import { Log } from "./log.js";
import type { LowdbJsonOptions } from "./options.js";

/** The log is written anew when it is so long, in bytes, and so much longer for each session and run; at open earlier. */
const LOG_LIMIT = 2 * 1024 * 1024;
const LOG_PER_ENTRY = 1000;

/** An opened store: what is in it, and the turns in which it is changed. */
export class Store {
  #turn: Promise<unknown> = Promise.resolve();
  #limit = LOG_LIMIT / 16;

  private constructor(
    readonly chains: Chains,
    readonly lock: Lock,
  ) {}

  static async open({ path, durability }: LowdbJsonOptions, logger: Logger | undefined): Promise<Store> {
    const beside = `${path}.d`;
    const drivers = join(beside, "open");
    const version = join(beside, "version.json");
    const stored = storedVersion(path, version);
    const { LowSync } = await import("lowdb");
    for (const folder of [path, beside, drivers]) {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      chmodSync(folder, 0o700);
    }
    const self = thisHolder();
    const files = new Files(join(drivers, self.id), durability !== "normal");
    mkdirSync(files.temp, { mode: 0o700 });
    try {
      writeFileSync(join(files.temp, CARD), JSON.stringify(self), { mode: 0o600 });
      if (stored !== VERSION) files.replace(version, JSON.stringify({ version: VERSION }));
      const log = new Log(join(beside, "log.jsonl"), files.durable);
      const chains = new Chains(path, log, files, LowSync, logger);
      const store = new Store(chains, new Lock(join(beside, "lock"), drivers, self.id));
      await store.change(() => store.#agree());
      store.#limit = LOG_LIMIT;
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

  /** Do `work` while nobody else changes the store, first come, first served. */
  change<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(() => this.#locked(work));
    this.#turn = mine.catch(() => undefined);
    return mine;
  }

  /** Within `change`: have all of a chain in its file. A failure loses nothing: the log has it, and whoever comes next tries again. */
  async fold(root: string): Promise<void> {
    const { chains } = this;
    try {
      if (!chains.isBehind(root) || !chains.load(root)) return;
      // First the log: what lists show must not be older than the files after a power cut.
      await chains.log.sync();
      chains.add({ root, v: chains.write(root), folded: true });
    } catch (error) {
      this.chains.logger?.warn("the file of a session could not be written yet", { root, why: String(error) });
    }
  }

  /** Within `change`. A crash between the two leaves a chain without a file, which is none. */
  delete(root: string): void {
    rmSync(this.chains.pathOf(root), { force: true });
    this.chains.files.syncFolder(this.chains.path);
    this.chains.add({ gone: root });
  }

  async close(): Promise<void> {
    const { chains } = this;
    // What cannot be written now is in the log.
    if ([...chains.known.keys()].some((root) => chains.isBehind(root)))
      await this.change(() => this.#agree()).catch(() => undefined);
    chains.log.close();
    rmSync(chains.files.temp, { recursive: true, force: true });
  }

  async #locked<T>(work: () => Promise<T>): Promise<T> {
    const { chains } = this;
    await this.lock.take();
    try {
      if (!chains.refresh() || chains.damaged) await this.#mend();
      const { sessions, runs } = chains.store;
      if (chains.log.end > this.#limit + LOG_PER_ENTRY * (sessions.size + runs.size)) await this.#shorten();
      return await work();
    } catch (error) {
      // Memory may be ahead of what was written: what is on the disk is true.
      if (!(error instanceof GantryError)) chains.log.end = 0;
      throw error;
    } finally {
      this.lock.give();
    }
  }

  /** Write the log anew without what is in the chains' files, which get all that they lack. What they cannot get stays in the log. */
  async #shorten(): Promise<void> {
    const { chains } = this;
    chains.damaged = false;
    for (const root of [...chains.known.keys()]) await this.fold(root);
    try {
      if ([...chains.known.keys()].every((root) => !chains.isBehind(root))) return chains.rewrite();
    } catch (error) {
      this.chains.logger?.warn("the log of the session store could not be written anew yet", { why: String(error) });
    }
    this.#limit = chains.log.end + LOG_LIMIT;
  }

  /** The log is lost or damaged: make one of what could be read of it, and of what the files say. */
  async #mend(): Promise<void> {
    const { chains } = this;
    const kept = join(`${chains.path}.d`, `bad-${Date.now()}-log.jsonl`);
    if (existsSync(chains.log.path)) {
      copyFileSync(chains.log.path, kept);
      this.chains.logger?.error("the log of the session store is damaged; what is readable is used, a copy is kept", {
        kept,
      });
    }
    if (chains.damaged) return this.#shorten();
    // Above all that can ever have been given.
    chains.store.fence = Date.now();
    const { upgrade } = await import("./upgrade.js");
    await upgrade(chains.path, chains.files);
    chains.rewrite();
    await this.#agree();
  }

  /** Make log and files agree after a crash, or after someone put files there or took them away. */
  async #agree(): Promise<void> {
    const { chains } = this;
    const names = new Set(readdirSync(chains.path).filter((name) => name.endsWith(".json")));
    for (const root of [...chains.known.keys()]) {
      const lease = chains.store.leases.get(root);
      if (!names.delete(basename(chains.pathOf(root)))) this.delete(root);
      else if (!lease || holderState(lease.holder) === "dead") await this.fold(root);
    }
    // What the log does not know is of a process that died while it made it, or was put there by hand.
    for (const path of [...names].map((name) => join(chains.path, name))) {
      const file = chains.read(path);
      const root = file?.sessions[0]?.session.id ?? "";
      if (!file || chains.pathOf(root) !== path) continue;
      const taken = await chains.memory.load(file).catch((error: unknown) => String(error));
      if (taken === undefined) chains.addFile(root, file.v);
      else this.chains.logger?.error("a session's file is left out", { path, why: taken });
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
