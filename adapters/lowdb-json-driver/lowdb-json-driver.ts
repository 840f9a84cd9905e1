import { existsSync } from "node:fs";
import { DriverLife, LookingNotifier, SessionExistsError, SessionNotFoundError } from "gantry";
import type { ChainData, Instruction, Logger, MemoryDriver, SessionChange, SessionDriver, SessionStart } from "gantry";
import type { LowdbJsonOptions } from "./options.js";
import { Store } from "./store.js";

/** Sessions in one JSON file each, that any number of processes share. The rules are those of `MemoryDriver`. */
export class LowdbJsonDriver implements SessionDriver {
  readonly name = "json";
  /** What others wrote is read from the log. */
  readonly notifier = new LookingNotifier(() => {
    const { chains } = this.#store ?? {};
    if (!chains) return false;
    chains.refresh();
    const news = chains.allNew || [...chains.news];
    chains.allNew = false;
    chains.news.clear();
    return news;
  });
  readonly #life: DriverLife<Store>;
  #store: Store | undefined;

  constructor(options: LowdbJsonOptions, logger?: Logger) {
    const open = async (): Promise<Store> => (this.#store = await Store.open(options, logger));
    const close = (store: Store): Promise<void> => {
      this.#store = undefined;
      return store.close();
    };
    this.#life = new DriverLife({ where: options.path, open, close });
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
  readonly asks: SessionDriver["asks"] = (query) => this.#read("", (memory) => memory.asks(query));
  readonly ask: SessionDriver["ask"] = (id) => this.#read("", (memory) => memory.ask(id));
  readonly instructions: SessionDriver["instructions"] = (id) => this.#read("", (memory) => memory.instructions(id));
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
      chains.addChange(chain.root, { sessions, ...(run && { runs: [run] }) }, text);
      folding.note(chain.root);
    });
  }

  write(
    id: string,
    { runs, asks, followed = [], fence, release = false, ...change }: SessionChange,
  ): Promise<Instruction[]> {
    return this.#change(change.sync, ({ chains, folding }) => {
      const root = chains.rootOf(id);
      if (!chains.load(root)) throw new SessionNotFoundError(id);
      const text = JSON.stringify({ id, change: { ...change, fence: null } });
      const own = JSON.parse(text) as { change: SessionChange };
      const others = { ...(runs && { runs }), ...(asks && { asks }) };
      const left = chains.store.write(id, { ...own.change, fence, ...others, followed, release });
      const all = change.cut !== undefined || change.restore !== undefined;
      // Text that only grows changes nothing that a list shows.
      const some = change.set !== undefined || change.usage !== undefined || change.add !== undefined;
      const sessions = chains.sessionsOf(root).filter((one) => all || (some && [id, root].includes(one.id)));
      chains.addChange(root, { sessions, ...others }, text);
      if (followed.length > 0) chains.add({ followed, of: root });
      if (release && fence !== null) chains.add({ released: root });
      folding.note(root);
      return left;
    });
  }

  readonly answer: SessionDriver["answer"] = (id, answered) =>
    this.#change(true, ({ chains }) => {
      const outcome = chains.store.answer(id, answered);
      if (outcome?.counts) chains.add({ asks: [outcome.ask] });
      return outcome;
    });

  readonly instruct: SessionDriver["instruct"] = (instruction) =>
    this.#change(true, ({ chains }) => {
      chains.store.instruct(instruction);
      const stored = chains.store.instructions.get(instruction.id);
      if (stored) chains.add({ instruction: stored });
    });

  readonly withdraw: SessionDriver["withdraw"] = (id) =>
    this.#change(true, ({ chains }) => {
      const of = chains.store.instructions.get(id)?.sessionId ?? "";
      if (!chains.store.instructions.delete(id)) return false;
      chains.add({ followed: [id], of });
      return true;
    });

  readonly forgetKeys: SessionDriver["forgetKeys"] = (before) =>
    this.#change(false, ({ chains }) => {
      const runs = chains.store.forgetKeys(before);
      if (runs.length > 0) chains.add({ runs });
    });

  readonly delete: SessionDriver["delete"] = (ids) =>
    this.#change(true, ({ chains }) => {
      for (const id of ids) if (chains.store.sessions.has(id)) chains.delete(chains.rootOf(id));
    });

  readonly lease: SessionDriver["lease"] = (rootId, holder, ttlMs, options = {}) =>
    this.#change(false, ({ chains }) => {
      // What is told of its messages is read from its file.
      if (options.head) chains.load(chains.rootOf(rootId));
      const answer = chains.store.lease(rootId, holder, ttlMs, options);
      if ("heldBy" in answer) return answer;
      const { head: _, ...lease } = answer;
      chains.add({ lease });
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
