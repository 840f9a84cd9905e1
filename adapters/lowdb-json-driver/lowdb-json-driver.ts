import { stat } from "node:fs/promises";
import { RunKeyTakenError, SessionExistsError, SessionNotFoundError, StoreError } from "gantry";
import type {
  ChainData,
  ChainHead,
  Holder,
  Lease,
  Logger,
  Message,
  MessagePage,
  RunQuery,
  RunRecord,
  Session,
  SessionChange,
  SessionDriver,
  SessionPage,
  SessionQuery,
  SessionStart,
  Snapshot,
  StoredRun,
} from "gantry";
import { checkIn, createUnder, runsOf, sessionsOf } from "./chains.js";
import type { Chain } from "./chains.js";
import { toStoreError, unlessMissing } from "./errors.js";
import type { LowdbJsonOptions } from "./options.js";
import type { IndexedRun } from "./session-index.js";
import { OpenStore } from "./store.js";

/** Sessions in one JSON file each, that any number of processes share. */
export class LowdbJsonDriver implements SessionDriver {
  readonly name = "json";
  readonly #options: LowdbJsonOptions;
  readonly #logger: Logger | undefined;
  readonly #underWay = new Set<Promise<unknown>>();
  /** Originals of chains that this driver changed, so that it folds their journals before it goes. */
  readonly #changed = new Set<string>();
  #opening: Promise<OpenStore> | undefined;
  #closing: Promise<void> | undefined;
  #opened: OpenStore | undefined;

  constructor(options: LowdbJsonOptions, logger?: Logger) {
    this.#options = options;
    this.#logger = logger;
  }

  async open(): Promise<void> {
    await this.#closing;
    this.#opening ??= this.#start();
    await this.#opening;
  }

  async close(): Promise<void> {
    this.#closing ??= this.#stop().finally(() => (this.#closing = undefined));
    await this.#closing;
  }

  create(start: SessionStart): Promise<void> {
    const { root } = start.session.chain;
    return this.#do((store) =>
      store.withChain(root, async () => {
        try {
          await this.#create(store, start);
        } catch (error) {
          store.chains.forget(root);
          throw error;
        }
      }),
    );
  }

  get(id: string): Promise<Session | undefined> {
    return this.#do(async (store) => {
      await store.index.refresh();
      return id === "" ? undefined : store.index.get(id);
    });
  }

  newest(rootId: string): Promise<Session | undefined> {
    return this.#read(rootId, (chain) => chain.driver.newest(rootId), undefined);
  }

  head(id: string): Promise<ChainHead | undefined> {
    return this.#do(async (store) => {
      await store.index.refresh();
      const own = id === "" ? undefined : store.index.get(id);
      return own && this.#in(store, own.id, (chain) => chain.driver.head(own.id), undefined);
    });
  }

  list(query: SessionQuery): Promise<SessionPage> {
    return this.#do(async (store) => {
      await store.index.refresh();
      return store.index.list(query);
    });
  }

  messages(id: string, page: MessagePage = {}): Promise<Message[]> {
    return this.#read(id, (chain) => chain.driver.messages(id, page), []);
  }

  snapshots(id: string): Promise<Snapshot[]> {
    return this.#read(id, (chain) => chain.driver.snapshots(id), []);
  }

  write(id: string, change: SessionChange): Promise<void> {
    return this.#do(async (store) => {
      const root = await rootOf(store, id);
      if (root === undefined) throw new SessionNotFoundError(id);
      await store.withChain(root, async () => {
        const chain = await store.chains.current(root, store.withIndex);
        checkIn(chain, id);
        await store.leases.check(root, change.fence);
        this.#changed.add(root);
        const apply = (): Promise<void> => store.chains.change(chain, id, change);
        if (change.runs) {
          await store.withIndex(async () => {
            await store.index.refresh();
            checkRuns(store, root, change.runs ?? []);
            await apply();
            await store.index.put(sessionsOf(chain), runsOf(chain));
          });
          return;
        }
        await apply();
        // Text that only grows changes nothing that a list shows.
        const sessions = sessionsOf(chain);
        if (store.index.differs(sessions)) await store.withIndex(() => store.index.put(sessions));
      });
    });
  }

  runs(query: RunQuery): Promise<StoredRun[]> {
    return this.#do(async (store) => {
      await store.index.refresh();
      return Promise.all(store.index.runs(query).map((one) => told(store, one)));
    });
  }

  run(id: string): Promise<StoredRun | undefined> {
    return this.#do(async (store) => {
      await store.index.refresh();
      const found = store.index.run(id);
      return found && told(store, found);
    });
  }

  delete(ids: readonly string[]): Promise<void> {
    return this.#do(async (store) => {
      for (const id of ids) {
        const root = await rootOf(store, id);
        if (root === undefined) continue;
        await store.withChain(root, async () => {
          const chain = await store.chains.current(root, store.withIndex);
          if (chain) await store.chains.remove(chain, store.withIndex);
        });
        this.#changed.delete(root);
      }
    });
  }

  lease(rootId: string, holder: Holder, ttlMs: number, replacing?: string): Promise<Lease | { heldBy: Holder }> {
    return this.#do(async (store) => {
      const root = (await rootOf(store, rootId)) ?? rootId;
      return store.withChain(root, () => store.leases.take(root, holder, ttlMs, replacing, store.withIndex));
    });
  }

  /** Also folds the chain's journal in: a run has ended. */
  release(lease: Lease): Promise<void> {
    return this.#do((store) =>
      store.withChain(lease.rootId, async () => {
        if (await store.leases.release(lease)) await this.#fold(store, lease.rootId);
      }),
    );
  }

  dump(id: string): Promise<ChainData | undefined> {
    return this.#read(id, (chain) => chain.driver.dump(id), undefined);
  }

  load(chain: ChainData): Promise<void> {
    const root = chain.sessions[0]?.session.id ?? "";
    return this.#do((store) =>
      store.withChain(root, async () => {
        await store.chains.current(root, store.withIndex);
        await store.withIndex(async () => {
          await store.index.refresh();
          const ids = chain.sessions.flatMap(({ session }) => [session.id, session.alias]);
          const taken = ids.find((id) => id !== "" && store.index.isTaken(id));
          if (taken !== undefined) throw new SessionExistsError(taken);
          checkRuns(store, undefined, chain.runs);
          // Not known, yet there: a file that cannot be used, and is not ours to replace.
          if (await unlessMissing(stat(store.layout.session(root)))) throw new SessionExistsError(root);
          await store.chains.take(chain);
          const runs = chain.runs.map((run) => ({ run, fence: null }));
          await store.index.put(
            chain.sessions.map(({ session }) => session),
            runs,
          );
        });
      }),
    );
  }

  async #create(store: OpenStore, start: SessionStart): Promise<void> {
    const { session, run, fence = null } = start;
    const { root } = session.chain;
    const present = await store.chains.current(root, store.withIndex);
    await store.withIndex(async () => {
      await store.index.refresh();
      const { id: own, alias } = session;
      const taken = [own, alias].find((id) => id !== "" && (store.index.isTaken(id) || own === alias));
      if (taken !== undefined) throw new SessionExistsError(taken);
      // Not known, yet there: a file that cannot be used, and is not ours to replace.
      if (await unlessMissing(stat(store.layout.session(session.id)))) throw new SessionExistsError(session.id);
      if (root !== session.id && !present) throw new SessionNotFoundError(root);
      await store.leases.check(root, fence);
      checkRuns(store, root, run ? [{ ...run, sessionId: root }] : []);
      if (!present) {
        await store.chains.begin(start);
      } else {
        await createUnder(present.driver, present.store, start);
        present.dirty.add(session.id);
        await store.chains.fold(present);
      }
      const chain = present ?? (await store.chains.current(root, (work) => work()));
      if (chain) await store.index.put(sessionsOf(chain), runsOf(chain));
    });
  }

  async #start(): Promise<OpenStore> {
    try {
      this.#opened = await OpenStore.open(this.#options, this.#logger);
      return this.#opened;
    } catch (error) {
      this.#opening = undefined;
      throw toStoreError(error, this.#options.path);
    }
  }

  async #stop(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    const store = this.#opened;
    // From here on nothing new is taken; what was taken is waited for.
    this.#opened = undefined;
    this.#opening = undefined;
    if (!store) return;
    await Promise.allSettled(this.#underWay);
    for (const root of this.#changed) await store.withChain(root, () => this.#fold(store, root));
    this.#changed.clear();
    await store.close();
  }

  /** A fold that fails loses nothing: the journal stays, and is folded in by whoever comes next. */
  async #fold(store: OpenStore, root: string): Promise<void> {
    try {
      const chain = await store.chains.current(root, store.withIndex);
      if (chain) await store.chains.fold(chain);
      this.#changed.delete(root);
    } catch (error) {
      store.chains.forget(root);
      this.#logger?.warn("the journal of a session could not be folded in yet", { root, why: String(error) });
    }
  }

  async #read<T>(id: string, read: (chain: Chain) => Promise<T>, missing: T): Promise<T> {
    return this.#do((store) => this.#in(store, id, read, missing));
  }

  async #in<T>(store: OpenStore, id: string, read: (chain: Chain) => Promise<T>, missing: T): Promise<T> {
    const root = await rootOf(store, id);
    if (root === undefined) return missing;
    return store.withChain(root, async () => {
      const chain = await store.chains.current(root, store.withIndex);
      return chain ? read(chain) : missing;
    });
  }

  async #do<T>(work: (store: OpenStore) => Promise<T>): Promise<T> {
    const store = this.#opened;
    if (!store) throw new StoreError(`session store ${this.#options.path}: not open`);
    const result = work(store);
    this.#underWay.add(result);
    try {
      return await result;
    } catch (error) {
      throw toStoreError(error, this.#options.path);
    } finally {
      this.#underWay.delete(result);
    }
  }
}

async function rootOf(store: OpenStore, id: string): Promise<string | undefined> {
  await store.index.refresh();
  return store.index.rootOf(id);
}

/** Under the index lock, which is fresh. */
function checkRuns(store: OpenStore, root: string | undefined, runs: readonly RunRecord[]): void {
  const taken = store.index.takenKey(root, runs);
  if (taken !== undefined) throw new RunKeyTakenError(taken);
}

async function told(store: OpenStore, { run, fence }: IndexedRun): Promise<StoredRun> {
  return { run, holder: await store.leases.holderOf(run.sessionId, fence) };
}
