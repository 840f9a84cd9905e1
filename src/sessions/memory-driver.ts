import {
  LeaseLostError,
  PointNotFoundError,
  RunKeyTakenError,
  SeqTakenError,
  SessionExistsError,
  SessionNotFoundError,
  StoreError,
} from "../ports/errors.js";
import { MemoryStore, newChain, newestFirst } from "./memory-store.js";
import type { Chain, StoredMessage, StoredSession } from "./memory-store.js";
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
import type { Usage } from "../ports/usage.js";

/** Sessions in memory, gone with the process. */
export class MemoryDriver implements SessionDriver {
  readonly name = "memory";
  readonly #store: MemoryStore;
  #open = false;

  constructor(store: MemoryStore = new MemoryStore()) {
    this.#store = store;
  }

  async open(): Promise<void> {
    this.#open = true;
  }

  async close(): Promise<void> {
    this.#open = false;
  }

  async create({ session, messages = [], view = [], run, fence = null }: SessionStart): Promise<void> {
    this.#check();
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

    const stored: StoredSession = { session: structuredClone(session), view: view.map(copy), cut: "", chain };
    chain.sessions.set(index, stored);
    this.#store.sessions.set(id, stored);
    if (alias !== "") this.#store.aliases.set(alias, id);
    addMessages(stored, messages);
    this.#putRuns(root, runs, fence);
  }

  async get(id: string): Promise<Session | undefined> {
    this.#check();
    return structuredClone(this.#find(id)?.session);
  }

  async newest(rootId: string): Promise<Session | undefined> {
    this.#check();
    const chain = this.#store.sessions.get(rootId)?.chain;
    return structuredClone(chain && newestOf(chain)?.session);
  }

  async head(id: string): Promise<ChainHead | undefined> {
    this.#check();
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
    this.#check();
    const { projectDir, emptyBefore, before } = query;
    const search = (query.search ?? "").toLowerCase();
    const matching: Session[] = [];
    for (const { session } of this.#store.sessions.values()) {
      if (session.chain.root !== session.id) continue;
      if (projectDir !== undefined && session.projectDir !== projectDir) continue;
      if (search !== "" && !session.title.toLowerCase().includes(search)) continue;
      if (emptyBefore !== undefined && !(session.lastSeq === 0 && session.updatedAt < emptyBefore)) continue;
      matching.push(session);
    }
    matching.sort((a, b) => newestFirst([a.updatedAt, a.id], [b.updatedAt, b.id]));
    const rest = before
      ? matching.filter(({ updatedAt, id }) => newestFirst([before.updatedAt, before.id], [updatedAt, id]) < 0)
      : matching;
    const from = query.offset ?? 0;
    return {
      sessions: rest.slice(from, from + query.limit).map(copyOfSession),
      total: matching.length,
    };
  }

  async messages(id: string, page: MessagePage = {}): Promise<Message[]> {
    this.#check();
    const stored = this.#store.sessions.get(id);
    return stored ? said(stored, page) : [];
  }

  async snapshots(id: string): Promise<Snapshot[]> {
    this.#check();
    return structuredClone(this.#store.sessions.get(id)?.chain.snapshots ?? []);
  }

  async runs({ sessionId, states, limit, before }: RunQuery): Promise<StoredRun[]> {
    this.#check();
    const root = sessionId === undefined ? undefined : (this.#store.sessions.get(sessionId)?.session.chain.root ?? "");
    return this.#store
      .runsOf(root)
      .filter(({ run }) => !states || states.includes(run.state))
      .filter(({ run }) => !before || newestFirst([before.startedAt, before.id], [run.startedAt, run.id]) < 0)
      .slice(0, limit)
      .map((stored) => this.#told(stored));
  }

  async run(id: string): Promise<StoredRun | undefined> {
    this.#check();
    const stored = this.#store.runs.get(id);
    return stored && this.#told(stored);
  }

  async write(id: string, change: SessionChange): Promise<void> {
    this.#check();
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
    const newest = newestOf(chain);
    if (newest && (change.cut || change.restore !== undefined)) {
      for (const seq of chain.messages.keys()) newest.session.lastSeq = Math.max(newest.session.lastSeq, seq);
    }
    const original = this.#store.sessions.get(session.chain.root);
    for (const target of new Set([stored, original])) if (target) applyFields(target.session, change);
    addMessages(stored, change.add ?? []);
    for (const delta of change.append ?? []) grow(chain, delta);
    for (const final of change.finish ?? []) complete(chain, final);
    this.#putRuns(session.chain.root, change.runs ?? [], change.fence);
  }

  async delete(ids: readonly string[]): Promise<void> {
    this.#check();
    for (const id of ids) {
      const stored = this.#store.sessions.get(id);
      if (stored) this.#store.remove(stored.session.chain.root);
    }
  }

  async lease(rootId: string, holder: Holder, ttlMs: number, replacing?: string): Promise<Lease | { heldBy: Holder }> {
    this.#check();
    const root = this.#store.sessions.get(rootId)?.session.chain.root ?? rootId;
    const now = Date.now();
    const held = this.#store.leases.get(root);
    const mine = held?.holder.id === holder.id;
    if (held && !mine && Date.parse(held.expiresAt) > now && held.holder.id !== replacing) {
      return { heldBy: { ...held.holder } };
    }
    const fence = held && mine ? held.fence : ++this.#store.fence;
    const lease: Lease = { rootId: root, holder: { ...holder }, fence, expiresAt: new Date(now + ttlMs).toISOString() };
    this.#store.leases.set(root, lease);
    return structuredClone(lease);
  }

  async release(lease: Lease): Promise<void> {
    this.#check();
    if (this.#store.leases.get(lease.rootId)?.fence === lease.fence) this.#store.leases.delete(lease.rootId);
  }

  async dump(id: string): Promise<ChainData | undefined> {
    this.#check();
    return this.#store.dump(id);
  }

  async load(chain: ChainData): Promise<void> {
    this.#check();
    for (const id of chain.sessions.flatMap(({ session }) => [session.id, session.alias])) {
      if (id !== "" && this.#taken(id)) throw new SessionExistsError(id);
    }
    this.#checkRuns(undefined, chain.runs);
    this.#store.load(structuredClone(chain));
  }

  #check(): void {
    if (!this.#open) throw new StoreError("the session store is not open");
  }

  #checkFence(root: string, fence: number | null): void {
    if (fence !== null && this.#store.leases.get(root)?.fence !== fence) throw new LeaseLostError(root);
  }

  /** `root` is the chain's that they are put in; undefined when all must be new. */
  #checkRuns(root: string | undefined, runs: readonly RunRecord[]): void {
    const keys = new Map([...this.#store.runs.values()].map(({ run }) => [run.id, run.key]));
    for (const { id, key } of runs) {
      const there = this.#store.runs.get(id);
      keys.set(id, "");
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

function copy(message: Message): Message {
  return structuredClone(message);
}

function newestOf(chain: Chain): StoredSession | undefined {
  let newest: StoredSession | undefined;
  for (const stored of chain.sessions.values()) {
    if (stored.cut === "" && stored.session.chain.index >= (newest?.session.chain.index ?? 0)) newest = stored;
  }
  return newest;
}

function said({ session, chain }: StoredSession, page: MessagePage): Message[] {
  const { after = 0, before = Infinity, limit = Infinity, hiddenBy } = page;
  const found = [...chain.messages.values()]
    .filter(({ cut }) => (hiddenBy === undefined ? cut === "" : cut === hiddenBy && cut !== ""))
    .map(({ message }) => message)
    .filter(({ seq, sessionId }) => seq > after && seq < before && (page.scope === "chain" || sessionId === session.id))
    .sort((a, b) => a.seq - b.seq);
  const last = page.after === undefined && page.before !== undefined && found.length > limit;
  return (last ? found.slice(found.length - limit) : found.slice(0, limit)).map(copy);
}

function checkSeqs(chain: Chain, messages: readonly Message[]): void {
  const seqs = new Set<number>();
  for (const { seq } of messages) {
    if (chain.messages.has(seq) || seqs.has(seq)) throw new SeqTakenError(seq);
    seqs.add(seq);
  }
}

function checkGrowing(chain: Chain, change: SessionChange): void {
  for (const id of [
    ...(change.append ?? []).map((delta) => delta.messageId),
    ...(change.finish ?? []).map((m) => m.id),
  ]) {
    const added = change.add?.some((message) => message.id === id && !message.finished);
    if (!added && !chain.growing.has(id)) throw new PointNotFoundError("message");
  }
}

function addMessages({ session, chain }: StoredSession, messages: readonly Message[]): void {
  for (const given of messages) {
    const message = { ...copy(given), sessionId: session.id };
    const stored: StoredMessage = { message, cut: "" };
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
  target.message = { ...copy(final), seq, sessionId, finished: true };
  chain.growing.delete(final.id);
}

function cutChain(stored: StoredSession, snapshot: Snapshot): void {
  const { chain, session } = stored;
  for (const hidden of chain.messages.values()) {
    if (hidden.cut === "" && hidden.message.seq > snapshot.after) hidden.cut = snapshot.id;
  }
  for (const hidden of chain.sessions.values()) {
    if (hidden.cut === "" && hidden.session.chain.index > session.chain.index) hidden.cut = snapshot.id;
  }
  chain.snapshots.push({ ...snapshot });
}

function restoreChain(chain: Chain, snapshotId: string): void {
  for (const hidden of [...chain.messages.values(), ...chain.sessions.values()]) {
    if (hidden.cut === snapshotId) hidden.cut = "";
  }
  chain.snapshots = chain.snapshots.filter((snapshot) => snapshot.id !== snapshotId);
}

function applyFields(session: Session, { set = {}, usage }: SessionChange): void {
  session.title = set.title ?? session.title;
  session.titled = set.titled ?? session.titled;
  session.provider = set.provider ?? session.provider;
  session.model = set.model ?? session.model;
  session.reasoningEffort = set.reasoningEffort ?? session.reasoningEffort;
  session.projectDir = set.projectDir ?? session.projectDir;
  if (set.updatedAt !== undefined && set.updatedAt > session.updatedAt) session.updatedAt = set.updatedAt;
  if (usage) session.usage = sum(session.usage, usage);
}

function sum(a: Usage, b: Usage): Usage {
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    totalTokens: a.totalTokens + b.totalTokens,
    cost: a.cost + b.cost,
  };
}
