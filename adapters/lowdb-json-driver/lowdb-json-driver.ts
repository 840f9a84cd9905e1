import { existsSync } from "node:fs";
import { DriverLife, SessionExistsError, SessionNotFoundError } from "gantry";
import type { Logger, MemoryDriver, SessionChange, SessionDriver, SessionStart } from "gantry";
import type { LowdbJsonOptions } from "./options.js";
import { Store } from "./store.js";

/** Sessions in one JSON file each, that any number of processes share. The rules are those of `MemoryDriver`. */
export class LowdbJsonDriver implements SessionDriver {
  readonly name = "json";
  readonly #life: DriverLife<Store>;

  constructor(options: LowdbJsonOptions, logger?: Logger) {
    const open = (): Promise<Store> => Store.open(options, logger);
    this.#life = new DriverLife({ where: options.path, open, close: (store) => store.close() });
  }

  readonly open: SessionDriver["open"] = () => this.#life.open();
  readonly close: SessionDriver["close"] = () => this.#life.close();
  readonly get: SessionDriver["get"] = (id) => this.#read("", (memory) => memory.get(id));
  readonly newest: SessionDriver["newest"] = (rootId) => this.#read(rootId, (memory) => memory.newest(rootId));
  readonly head: SessionDriver["head"] = (id) => this.#read(id, (memory) => memory.head(id));
  readonly list: SessionDriver["list"] = (query) => this.#read("", (memory) => memory.list(query));
  readonly messages: SessionDriver["messages"] = (id, page) => this.#read(id, (memory) => memory.messages(id, page));
  readonly snapshots: SessionDriver["snapshots"] = (id) => this.#read(id, (memory) => memory.snapshots(id));
  readonly runs: SessionDriver["runs"] = (query) => this.#read("", (memory) => memory.runs(query));
  readonly run: SessionDriver["run"] = (id) => this.#read("", (memory) => memory.run(id));
  readonly dump: SessionDriver["dump"] = (id) => this.#read(id, (memory) => memory.dump(id));

  create({ run, ...start }: SessionStart): Promise<void> {
    const { id, chain } = start.session;
    const isOriginal = chain.root === id;
    // The file of an original is on the disk by itself.
    return this.#change(!isOriginal, async ({ chains }) => {
      if (isOriginal && existsSync(chains.pathOf(id))) throw new SessionExistsError(id);
      chains.load(chain.root);
      await chains.memory.create(run ? { ...start, run } : start);
      if (isOriginal) return chains.addFile(id, chains.write(id));
      const sessions = chains.sessionsOf(chain.root).filter((one) => one.id === id);
      chains.addChange(chain.root, sessions, run ? [run] : [], { start: { ...start, fence: null } });
    });
  }

  write(id: string, { runs = [], ...change }: SessionChange): Promise<void> {
    return this.#change(change.sync, async ({ chains }) => {
      const root = chains.rootOf(id);
      if (!chains.load(root)) throw new SessionNotFoundError(id);
      await chains.memory.write(id, { ...change, runs });
      const all = change.cut !== undefined || change.restore !== undefined;
      // Text that only grows changes nothing that a list shows.
      const some = change.set !== undefined || change.usage !== undefined || change.add !== undefined;
      const sessions = chains.sessionsOf(root).filter((one) => all || (some && [id, root].includes(one.id)));
      chains.addChange(root, sessions, runs, { id, change: { ...change, fence: null } });
    });
  }

  readonly delete: SessionDriver["delete"] = (ids) =>
    this.#change(false, async (store) => {
      for (const id of ids) if (store.chains.store.sessions.has(id)) store.delete(store.chains.rootOf(id));
    });

  readonly lease: SessionDriver["lease"] = (...asked) =>
    this.#change(false, async ({ chains }) => {
      const answer = await chains.memory.lease(...asked);
      if ("fence" in answer) chains.add({ lease: answer });
      return answer;
    });

  /** Also writes the chain's file: a run has ended. */
  readonly release: SessionDriver["release"] = (lease) =>
    this.#change(false, async (store) => {
      if (store.chains.store.leases.get(lease.rootId)?.fence !== lease.fence) return;
      await store.chains.memory.release(lease);
      store.chains.add({ released: lease.rootId });
      await store.fold(lease.rootId);
    });

  readonly load: SessionDriver["load"] = (chain) =>
    this.#change(false, async ({ chains }) => {
      const root = chain.sessions[0]?.session.id ?? "";
      if (existsSync(chains.pathOf(root))) throw new SessionExistsError(root);
      await chains.memory.load(chain);
      chains.addFile(root, chains.write(root));
    });

  /** `id`: any of the chain whose messages are asked for; `""` for none. */
  #read<T>(id: string, read: (memory: MemoryDriver) => Promise<T>): Promise<T> {
    return this.#life.do(async (store) => {
      // Waits for nobody, unless the log is lost and must be made again.
      if (!store.chains.refresh()) await store.change(() => Promise.resolve());
      store.chains.load(store.chains.rootOf(id));
      return read(store.chains.memory);
    });
  }

  #change<T>(sync: boolean, work: (store: Store) => Promise<T>): Promise<T> {
    return this.#life.do(async (store) => {
      const result = await store.change(() => work(store));
      if (sync) await store.sync();
      return result;
    });
  }
}
