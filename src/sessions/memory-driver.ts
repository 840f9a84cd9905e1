import {
  LeaseLostError,
  PointNotFoundError,
  RunKeyTakenError,
  SeqTakenError,
  SessionExistsError,
  SessionNotFoundError,
  StoreError,
} from "../ports/errors.js";
import { addUsage } from "../conversation/usage.js";
import { cutChain, MemoryStore, newChain, newestFirst, newestOf, restoreChain, said } from "./memory-store.js";
import type { Chain, StoredSession } from "./memory-store.js";
import type {
  ChainData,
  ChainHead,
  Holder,
  Lease,
  MessagePage,
  PartDelta,
  RunQuery,
  SessionChange,
  SessionDriver,
  SessionPage,
  SessionQuery,
  SessionStart,
  StoredRun,
} from "../ports/session-driver.js";
import type { Message } from "../ports/message.js";
import type { RunRecord } from "../ports/run.js";
import type { Session, Snapshot } from "../ports/session.js";

/** Sessions in memory, gone with the process. */
export class MemoryDriver implements SessionDriver {
  readonly name = "memory";
  readonly #kept: MemoryStore;
  #open = false;

  constructor(store: MemoryStore = new MemoryStore()) {
    this.#kept = store;
  }

  get #store(): MemoryStore {
    if (!this.#open) throw new StoreError("the session store is not open");
    return this.#kept;
  }

  async open(): Promise<void> {
    this.#open = true;
  }

  async close(): Promise<void> {
    this.#open = false;
  }

  async create({ session, messages = [], view = [], run, fence = null }: SessionStart): Promise<void> {
    const { id, alias } = session;
    const { root, index } = session.chain;
    if (this.#taken(id)) throw new SessionExistsError(id);
    if (alias !== "" && (alias === id || this.#taken(alias))) throw new SessionExistsError(alias);
    const original = root === id ? undefined : this.#store.sessions.get(root);
    if (root !== id && !original) throw new SessionNotFoundError(root);
    this.#checkFence(root, fence);
    const chain: Chain = original?.chain ?? newChain();
    if (chain.sessions.has(index)) throw new SessionExistsError(id);
    checkSeqs(chain, messages);
    const runs = run ? [run] : [];
    this.#checkRuns(root, runs);

    const stored: StoredSession = {
      session: structuredClone(session),
      view: structuredClone([...view]),
      cut: "",
      chain,
    };
    chain.sessions.set(index, stored);
    this.#store.sessions.set(id, stored);
    if (alias !== "") this.#store.aliases.set(alias, id);
    addMessages(stored, messages);
    this.#putRuns(root, runs, fence);
  }

  async get(id: string): Promise<Session | undefined> {
    return structuredClone(this.#find(id)?.session);
  }

  async newest(rootId: string): Promise<Session | undefined> {
    const chain = this.#store.sessions.get(rootId)?.chain;
    return structuredClone(chain && newestOf(chain)?.session);
  }

  async head(id: string): Promise<ChainHead | undefined> {
    const chain = this.#find(id)?.chain;
    const original = chain?.sessions.get(0);
    const newest = chain && newestOf(chain);
    if (!original || !newest) return undefined;
    const unfinished = this.#store.runsOf(original.session.id).map(({ run }) => run);
    return structuredClone({
      original: original.session,
      newest: newest.session,
      messages: [...newest.view, ...said(newest, {})],
      unfinished: unfinished.filter(({ state }) => state === "running" || state === "waiting"),
    });
  }

  async list(query: SessionQuery): Promise<SessionPage> {
    const { projectDir, emptyBefore, before } = query;
    const search = (query.search ?? "").toLowerCase();
    const matching = [...this.#store.sessions.values()]
      .map(({ session }) => session)
      .filter(
        (session) =>
          session.chain.root === session.id &&
          (projectDir === undefined || session.projectDir === projectDir) &&
          (search === "" || session.title.toLowerCase().includes(search)) &&
          (emptyBefore === undefined || (session.lastSeq === 0 && session.updatedAt < emptyBefore)),
      )
      .sort((a, b) => newestFirst(a.updatedAt, a.id, b.updatedAt, b.id));
    const rest = before
      ? matching.filter(({ updatedAt, id }) => newestFirst(before.updatedAt, before.id, updatedAt, id) < 0)
      : matching;
    const from = query.offset ?? 0;
    const sessions = rest.slice(from, from + query.limit).map(copyOfSession);
    return { sessions, total: matching.length };
  }

  async messages(id: string, page: MessagePage = {}): Promise<Message[]> {
    const stored = this.#store.sessions.get(id);
    return stored ? structuredClone(said(stored, page)) : [];
  }

  async snapshots(id: string): Promise<Snapshot[]> {
    return structuredClone(this.#store.sessions.get(id)?.chain.snapshots ?? []);
  }

  async runs({ sessionId, states, limit, before }: RunQuery): Promise<StoredRun[]> {
    const root = sessionId === undefined ? undefined : (this.#store.sessions.get(sessionId)?.session.chain.root ?? "");
    return this.#store
      .runsOf(root)
      .filter(({ run }) => !states || states.includes(run.state))
      .filter(({ run }) => !before || newestFirst(before.startedAt, before.id, run.startedAt, run.id) < 0)
      .slice(0, limit)
      .map((stored) => this.#told(stored));
  }

  async run(id: string): Promise<StoredRun | undefined> {
    const stored = this.#store.runs.get(id);
    return stored && this.#told(stored);
  }

  async write(id: string, change: SessionChange): Promise<void> {
    const stored = this.#store.sessions.get(id);
    if (!stored) throw new SessionNotFoundError(id);
    const { chain, session } = stored;
    // All that can refuse comes first, so that a refused change leaves nothing behind.
    this.#checkFence(session.chain.root, change.fence);
    if (change.restore !== undefined && !chain.snapshots.some((snapshot) => snapshot.id === change.restore)) {
      throw new PointNotFoundError("snapshot");
    }
    checkSeqs(chain, change.add ?? []);
    checkGrowing(chain, change);
    this.#checkRuns(session.chain.root, change.runs ?? []);

    if (change.cut) cutChain(stored, change.cut);
    if (change.restore !== undefined) restoreChain(chain, change.restore);
    const newest = change.cut || change.restore !== undefined ? newestOf(chain) : undefined;
    for (const seq of newest ? chain.messages.keys() : [])
      if (newest && seq > newest.session.lastSeq) newest.session.lastSeq = seq;
    for (const target of new Set([stored, chain.sessions.get(0)])) if (target) applyFields(target.session, change);
    addMessages(stored, change.add ?? []);
    for (const delta of change.append ?? []) grow(chain, delta);
    for (const final of change.finish ?? []) complete(chain, final);
    this.#putRuns(session.chain.root, change.runs ?? [], change.fence);
  }

  async delete(ids: readonly string[]): Promise<void> {
    const store = this.#store;
    for (const id of ids) {
      const stored = store.sessions.get(id);
      if (!stored) continue;
      const { root } = stored.session.chain;
      store.leases.delete(root);
      for (const { run } of store.runsOf(root)) store.runs.delete(run.id);
      for (const { session } of stored.chain.sessions.values()) {
        store.sessions.delete(session.id);
        store.aliases.delete(session.alias);
      }
    }
  }

  async lease(rootId: string, holder: Holder, ttlMs: number, replacing?: string): Promise<Lease | { heldBy: Holder }> {
    const store = this.#store;
    const root = store.sessions.get(rootId)?.session.chain.root ?? rootId;
    const now = Date.now();
    const held = store.leases.get(root);
    const mine = held?.holder.id === holder.id;
    if (held && !mine && Date.parse(held.expiresAt) > now && held.holder.id !== replacing)
      return { heldBy: { ...held.holder } };
    const fence = held && mine ? held.fence : ++store.fence;
    const lease: Lease = { rootId: root, holder: { ...holder }, fence, expiresAt: new Date(now + ttlMs).toISOString() };
    store.leases.set(root, lease);
    return structuredClone(lease);
  }

  async release(lease: Lease): Promise<void> {
    if (this.#store.leases.get(lease.rootId)?.fence === lease.fence) this.#store.leases.delete(lease.rootId);
  }

  async dump(id: string): Promise<ChainData | undefined> {
    return this.#store.dump(id);
  }

  async load(chain: ChainData): Promise<void> {
    for (const id of chain.sessions.flatMap(({ session }) => [session.id, session.alias])) {
      if (id !== "" && this.#taken(id)) throw new SessionExistsError(id);
    }
    this.#checkRuns(undefined, chain.runs);
    this.#store.load(structuredClone(chain));
  }

  #checkFence(root: string, fence: number | null): void {
    if (fence !== null && this.#store.leases.get(root)?.fence !== fence) throw new LeaseLostError(root);
  }

  /** `root` is the chain's that they are put in; undefined when all must be new. */
  #checkRuns(root: string | undefined, runs: readonly RunRecord[]): void {
    const keys = new Map(
      runs.some(({ key }) => key !== "") ? [...this.#store.runs].map(([id, { run }]) => [id, run.key]) : [],
    );
    for (const { id, key } of runs) {
      const there = this.#store.runs.get(id);
      keys.delete(id);
      if ((there && there.run.sessionId !== root) || (key !== "" && [...keys.values()].includes(key)))
        throw new RunKeyTakenError(key);
      keys.set(id, key);
    }
  }

  #putRuns(root: string, runs: readonly RunRecord[], fence: number | null): void {
    for (const run of runs) this.#store.runs.set(run.id, { run: { ...structuredClone(run), sessionId: root }, fence });
  }

  #told({ run, fence }: { run: RunRecord; fence: number | null }): StoredRun {
    const lease = this.#store.leases.get(run.sessionId);
    const held = lease?.fence === fence && Date.parse(lease?.expiresAt ?? "") > Date.now();
    return structuredClone({ run, holder: held && lease ? lease.holder : null });
  }

  /** By id or alias. */
  #find(id: string): StoredSession | undefined {
    return this.#store.sessions.get(id) ?? this.#store.sessions.get(this.#store.aliases.get(id) ?? "");
  }

  #taken(id: string): boolean {
    return this.#store.sessions.has(id) || this.#store.aliases.has(id);
  }
}

/** By hand, because lists are long. */
function copyOfSession(session: Session): Session {
  return { ...session, chain: { ...session.chain }, usage: { ...session.usage } };
}

function checkSeqs(chain: Chain, messages: readonly Message[]): void {
  const seqs = new Set<number>();
  for (const { seq } of messages) {
    if (chain.messages.has(seq) || seqs.has(seq)) throw new SeqTakenError(seq);
    seqs.add(seq);
  }
}

function checkGrowing(chain: Chain, { add = [], append = [], finish = [] }: SessionChange): void {
  for (const id of [...append.map(({ messageId }) => messageId), ...finish.map((message) => message.id)])
    if (!chain.growing.has(id) && !add.some((message) => message.id === id && !message.finished))
      throw new PointNotFoundError("message");
}

function addMessages({ session, chain }: StoredSession, messages: readonly Message[]): void {
  for (const given of messages) {
    const message = { ...structuredClone(given), sessionId: session.id };
    const stored = { message, cut: "" };
    chain.messages.set(message.seq, stored);
    if (!message.finished) chain.growing.set(message.id, stored);
    session.lastSeq = Math.max(session.lastSeq, message.seq);
  }
}

function grow(chain: Chain, { messageId, part, type, text }: PartDelta): void {
  const parts = chain.growing.get(messageId)?.message.parts;
  const present = parts?.[part];
  if (present && "text" in present) present.text += text;
  else parts?.push({ type, text });
}

function complete(chain: Chain, final: Message): void {
  const target = chain.growing.get(final.id);
  if (!target) return;
  const { seq, sessionId } = target.message;
  target.message = { ...structuredClone(final), seq, sessionId, finished: true };
  chain.growing.delete(final.id);
}

function applyFields(session: Session, { set = {}, usage }: SessionChange): void {
  const { updatedAt = "", ...fields } = set;
  for (const [field, value] of Object.entries(fields))
    if (value !== undefined) Object.assign(session, { [field]: value });
  if (updatedAt > session.updatedAt) session.updatedAt = updatedAt;
  if (usage) session.usage = addUsage(session.usage, usage);
}
