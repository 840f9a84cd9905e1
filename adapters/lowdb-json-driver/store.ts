import { randomUUID } from "node:crypto";
import { chmod, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { StoreError } from "gantry";
import type { Logger } from "gantry";
import { Chains } from "./chains.js";
import type { Lock } from "./chains.js";
import { unlessMissing } from "./errors.js";
import { Files } from "./files.js";
import { stateOf, thisProcess } from "./holder.js";
import type { Process } from "./holder.js";
import { Layout, VERSION, slotOf } from "./layout.js";
import { Leases } from "./leases.js";
import { Locks } from "./locks.js";
import type { LowdbJsonOptions } from "./options.js";
import { SessionIndex } from "./session-index.js";

/** File in an instance's folder that says whose it is. */
const CARD = "process.json";

/** An opened store: its parts, and the locks around them. A chain's lock is always taken before the index lock. */
export class OpenStore {
  readonly layout: Layout;
  readonly index: SessionIndex;
  readonly chains: Chains;
  readonly leases: Leases;
  readonly #locks: Locks;
  readonly #folder: string;
  readonly #self: Process;

  private constructor(layout: Layout, files: Files, self: Process, logger: Logger | undefined) {
    this.layout = layout;
    this.#self = self;
    this.#folder = files.temp;
    this.index = new SessionIndex(layout.index, files);
    this.chains = new Chains(layout, files, this.index, logger);
    this.leases = new Leases(layout, files, logger);
    this.#locks = new Locks(layout.locks, self, join(files.temp, CARD));
  }

  static async open(options: LowdbJsonOptions, logger: Logger | undefined): Promise<OpenStore> {
    const layout = new Layout(options.path);
    await checkVersion(layout);
    for (const folder of [
      layout.sessions,
      layout.beside,
      layout.journals,
      layout.leases,
      layout.locks,
      layout.instances,
    ]) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await chmod(folder, 0o700);
    }
    const self = await thisProcess(randomUUID());
    const files = new Files(join(layout.instances, self.instance), options.durability !== "normal");
    await mkdir(files.temp, { mode: 0o700 });
    try {
      await writeFile(join(files.temp, CARD), JSON.stringify(self), { mode: 0o600 });
      const store = new OpenStore(layout, files, self, logger);
      await files.replace(layout.version, JSON.stringify({ version: VERSION }));
      // Who dies meanwhile may leave a fold that needs its temporary files: those wait for the next start.
      const left = await store.#left();
      await store.#recover();
      for (const folder of left) await rm(folder, { recursive: true, force: true });
      return store;
    } catch (error) {
      await rm(files.temp, { recursive: true, force: true });
      throw error;
    }
  }

  /** Do `work` while no other process touches the chain. */
  withChain<T>(root: string, work: () => Promise<T>): Promise<T> {
    return this.#locks.with(slotOf(root), work);
  }

  /** Do `work` while no other process changes the index. */
  readonly withIndex: Lock = (work) => this.#locks.with("index", work);

  async close(): Promise<void> {
    await this.#locks.idle();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** Make index and files agree after a crash, or after someone put files there or took them away. */
  async #recover(): Promise<void> {
    if (!(await this.index.refresh())) {
      await this.withIndex(async () => {
        if (!(await this.index.refresh())) await this.index.rewrite();
      });
    }
    const names = new Set((await readdir(this.layout.sessions)).filter((name) => name.endsWith(".json")));
    const known = new Map(this.index.ids().map((id) => [basename(this.layout.session(id)), id]));
    const roots = new Set<string>();
    for (const [name, id] of known) if (!names.has(name)) roots.add(this.index.rootOf(id) ?? id);
    for (const name of names) if (!known.has(name)) await this.#adopt(name);
    for (const root of await this.chains.waiting()) roots.add(root);
    for (const root of roots) {
      await this.withChain(root, async () => {
        const chain = await this.chains.current(root, this.withIndex);
        if (!chain) return;
        const missing = this.index.idsOf(root).filter((id) => !chain.store.sessions.has(id));
        if (missing.length > 0) await this.withIndex(() => this.index.remove(missing));
        await this.chains.fold(chain);
      });
    }
  }

  /** Take a file in that the index does not know: of a process that died while it made it, or put there by hand. */
  async #adopt(name: string): Promise<void> {
    const path = join(this.layout.sessions, name);
    const found = (await this.chains.read(path))?.session;
    if (!found || this.layout.session(found.id) !== path) return;
    await this.withChain(found.chain.root, async () => {
      // A removal that was cut short is completed first; then the file is gone.
      await this.chains.current(found.chain.root, this.withIndex);
      const file = await this.chains.read(path);
      if (!file) return;
      const { session } = file;
      await this.withIndex(async () => {
        await this.index.refresh();
        const { root, index } = session.chain;
        const clash = this.index.idsOf(root).some((id) => this.index.get(id)?.chain.index === index);
        const taken = this.index.isTaken(session.id) || (session.alias !== "" && this.index.isTaken(session.alias));
        const orphan = root !== session.id && !(await unlessMissing(readFile(this.layout.session(root))));
        if (!clash && !taken && !orphan) await this.index.put([session], file.runs);
      });
      this.chains.forget(found.chain.root);
    });
  }

  /** Folders with the temporary files of processes that are gone. */
  async #left(): Promise<string[]> {
    const left: string[] = [];
    for (const name of await readdir(this.layout.instances)) {
      if (name === this.#self.instance) continue;
      const folder = join(this.layout.instances, name);
      const text = await unlessMissing(readFile(join(folder, CARD), "utf8"));
      let owner: Process | undefined;
      try {
        owner = text === undefined ? undefined : (JSON.parse(text) as Process);
      } catch {
        owner = undefined;
      }
      if (owner && (await stateOf(owner, this.#self)) === "dead") left.push(folder);
    }
    return left;
  }
}

async function checkVersion(layout: Layout): Promise<void> {
  const text = await unlessMissing(readFile(layout.version, "utf8"));
  if (text === undefined) return;
  let version: unknown;
  try {
    version = (JSON.parse(text) as { version?: unknown }).version;
  } catch {
    version = undefined;
  }
  if (version === VERSION) return;
  if (typeof version === "number" && version > VERSION) {
    throw new StoreError(
      `session store ${layout.sessions}: written by a newer gantry (version ${version}, this one knows ${VERSION}); ` +
        "it was left as it is: update gantry, or choose another session.path",
    );
  }
  throw new StoreError(
    `session store ${layout.sessions}: ${layout.version} is damaged; it was left as it is: remove that file if the rest is well`,
  );
}
