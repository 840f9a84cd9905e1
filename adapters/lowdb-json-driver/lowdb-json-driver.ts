import { existsSync } from "node:fs";
import { DriverLife, SessionExistsError, SessionNotFoundError } from "gantry";
import type { ChainData, Logger, MemoryDriver, SessionChange, SessionDriver, SessionStart } from "gantry";
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
  readonly head: SessionDriver["head"] = (id, wanted) => this.#read(id, (memory) => memory.head(id, wanted));
  readonly list: SessionDriver["list"] = (query) => this.#read("", (memory) => memory.list(query));
  readonly messages: SessionDriver["messages"] = (id, page) => this.#read(id, (memory) => memory.messages(id, page));
  readonly snapshots: SessionDriver["snapshots"] = (id) => this.#read(id, (memory) => memory.snapshots(id));
  readonly runs: SessionDriver["runs"] = (query) => this.#read("", (memory) => memory.runs(query));
  readonly run: SessionDriver["run"] = (id) => this.#read("", (memory) => memory.run(id));
  readonly dump: SessionDriver["dump"] = (id) => this.#read(id, (memory) => memory.dump(id));

  create({ run, fence = null, ...start }: SessionStart): Promise<void> {
    const { id, chain } = start.session;
    return this.#change(true, ({ chains, folding }) => {
      if (chain.root === id && existsSync(chains.files.pathOf(id))) throw new SessionExistsError(id);
      chains.load(chain.root);
      // What is kept in memory is what the line says, and nobody else's.
      const text = JSON.stringify({ start: { ...start, fence: null } });
      const own = JSON.parse(text) as { start: SessionStart };
      chains.store.create({ ...own.start, fence, ...(run && { run }) });
      const sessions = chains.sessionsOf(chain.root).filter((one) => one.id === id);
      chains.addChange(chain.root, sessions, run ? [run] : [], text);
      folding.note(chain.root);
    });
  }

  write(id: string, { runs = [], fence, ...change }: SessionChange): Promise<void> {
    return this.#change(change.sync, ({ chains, folding }) => {
      const root = chains.rootOf(id);
      if (!chains.load(root)) throw new SessionNotFoundError(id);
      const text = JSON.stringify({ id, change: { ...change, fence: null } });
      const own = JSON.parse(text) as { change: SessionChange };
      chains.store.write(id, { ...own.change, fence, runs });
      const all = change.cut !== undefined || change.restore !== undefined;
      // Text that only grows changes nothing that a list shows.
      const some = change.set !== undefined || change.usage !== undefined || change.add !== undefined;
      const sessions = chains.sessionsOf(root).filter((one) => all || (some && [id, root].includes(one.id)));
      chains.addChange(root, sessions, runs, text);
      folding.note(root);
    });
  }

  readonly delete: SessionDriver["delete"] = (ids) =>
    this.#change(true, ({ chains }) => {
      for (const id of ids) if (chains.store.sessions.has(id)) chains.delete(chains.rootOf(id));
    });

  readonly lease: SessionDriver["lease"] = (...asked) =>
    this.#change(false, ({ chains }) => {
      const answer = chains.store.lease(...asked);
      if (!("heldBy" in answer)) chains.add({ lease: answer });
      return answer;
    });

  /** The chain's file is written when nobody took it again for a while. */
  readonly release: SessionDriver["release"] = (lease) =>
    this.#change(false, ({ chains, folding }) => {
      if (!chains.store.release(lease)) return;
      chains.add({ released: lease.rootId });
      folding.note(lease.rootId);
    });

  readonly load: SessionDriver["load"] = (chain) =>
    this.#change(false, ({ chains }) => {
      const root = chain.sessions[0]?.session.id ?? "";
      if (existsSync(chains.files.pathOf(root))) throw new SessionExistsError(root);
      chains.store.checkFree(chain);
      chains.store.load(JSON.parse(JSON.stringify(chain)) as ChainData);
      chains.addFile(root, chains.write(root));
    });

  /** `id`: any of the chain whose messages are asked for; `""` for none. */
  #read<T>(id: string, read: (memory: MemoryDriver) => Promise<T>): Promise<T> {
    return this.#life.do(async (store) => {
      // Waits for nobody, unless the log is lost and must be made again.
      if (!store.chains.refresh()) await store.change(false, () => undefined);
      store.chains.load(store.chains.rootOf(id));
      return read(store.chains.memory);
    });
  }

  #change<T>(sync: boolean, work: (store: Store) => T): Promise<T> {
    return this.#life.do((store) => store.change(sync, () => work(store)));
  }
}
