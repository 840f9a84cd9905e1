import { copied } from "../base/copy.js";
import { SessionNotFoundError, StoreError } from "../ports/errors.js";
import { newestOf, said } from "./memory-chain.js";
import { copyOfSession, MemoryStore } from "./memory-store.js";
import type { StoredFence } from "./memory-lists.js";
import type { Ask } from "../ports/ask.js";
import type { Notifier } from "../ports/notifier.js";
import type { Instruction } from "../ports/run.js";
import type { Holder } from "../ports/holder.js";
import type {
  AskAnswered,
  AskQuery,
  ChainData,
  ChainHead,
  Lease,
  LeaseHeld,
  LeaseOptions,
  LeaseTaken,
  MessagePage,
  RunQuery,
  SessionChange,
  SessionDriver,
  SessionPage,
  SessionQuery,
  SessionStart,
  StoredRun,
} from "../ports/session-driver.js";
import type { Message } from "../ports/message.js";
import type { Session, Snapshot } from "../ports/session.js";

/** Sessions in memory, gone with the process. What goes in and out is copied, so that nobody holds what is stored. */
export class MemoryDriver implements SessionDriver {
  readonly name = "memory";
  readonly notifier: Notifier;
  readonly #kept: MemoryStore;
  #open = false;

  constructor(store: MemoryStore = new MemoryStore()) {
    this.#kept = store;
    this.notifier = store.notifier();
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

  async create({ messages = [], view = [], ...start }: SessionStart): Promise<void> {
    this.#store.create({ ...start, messages: copied(messages), view: copied(view) });
  }

  async get(id: string): Promise<Session | undefined> {
    return copied(this.#store.find(id)?.session);
  }

  async newest(rootId: string): Promise<Session | undefined> {
    const chain = this.#store.sessions.get(rootId)?.chain;
    return copied(chain && newestOf(chain)?.session);
  }

  async head(id: string, wanted = { messages: true }): Promise<ChainHead | undefined> {
    return this.#store.head(id, wanted.messages);
  }

  async list(query: SessionQuery): Promise<SessionPage> {
    const { sessions, total } = this.#store.sessions.list(query);
    return { sessions: sessions.map(copyOfSession), total };
  }

  async messages(id: string, page: MessagePage = {}): Promise<Message[]> {
    const stored = this.#store.sessions.get(id);
    return stored ? copied(said(stored, page)) : [];
  }

  async snapshots(id: string): Promise<Snapshot[]> {
    return copied(this.#store.sessions.get(id)?.chain.snapshots ?? []);
  }

  async runs({ sessionId, ...query }: RunQuery): Promise<StoredRun[]> {
    return this.#store.runs.list(this.#rootOf(sessionId), query).map((stored) => this.#told(stored));
  }

  async run(id: string): Promise<StoredRun | undefined> {
    const stored = this.#store.runs.get(id);
    return stored && this.#told(stored);
  }

  async asks({ sessionId, ...query }: AskQuery): Promise<Ask[]> {
    return copied(this.#store.asks.list(this.#rootOf(sessionId), query));
  }

  async ask(id: string): Promise<Ask | undefined> {
    return copied(this.#store.asks.get(id));
  }

  async answer(id: string, answered: AskAnswered): Promise<{ ask: Ask; counts: boolean } | undefined> {
    return this.#store.answer(id, answered);
  }

  async instruct(instruction: Instruction): Promise<void> {
    this.#store.instruct(instruction);
  }

  async instructions(sessionId: string): Promise<Instruction[]> {
    const stored = this.#store.sessions.get(sessionId);
    if (!stored) throw new SessionNotFoundError(sessionId);
    return copied(this.#store.instructionsOf(stored.session.chain.root));
  }

  async withdraw(id: string): Promise<boolean> {
    return this.#store.instructions.delete(id);
  }

  async forgetKeys(before: string): Promise<void> {
    this.#store.forgetKeys(before);
  }

  async write(id: string, { add = [], finish = [], ...change }: SessionChange): Promise<Instruction[]> {
    return this.#store.write(id, { ...change, add: copied(add), finish: copied(finish) });
  }

  async delete(ids: readonly string[]): Promise<void> {
    const store = this.#store;
    for (const id of ids) {
      const stored = store.sessions.get(id);
      if (stored) store.remove(stored.session.chain.root);
    }
  }

  async lease(rootId: string, holder: Holder, ttlMs: number, options?: LeaseOptions): Promise<LeaseTaken | LeaseHeld> {
    return this.#store.lease(rootId, holder, ttlMs, options);
  }

  async release(lease: Lease): Promise<void> {
    this.#store.release(lease);
  }

  async dump(id: string): Promise<ChainData | undefined> {
    return this.#store.dump(id);
  }

  async load(chain: ChainData): Promise<void> {
    this.#store.checkFree(chain);
    this.#store.load(copied(chain));
  }

  /** `""` for an unknown session: of it there is nothing. */
  #rootOf(sessionId: string | undefined): string | undefined {
    return sessionId === undefined ? undefined : (this.#store.sessions.get(sessionId)?.session.chain.root ?? "");
  }

  #told({ run, fence }: StoredFence): StoredRun {
    const lease = this.#store.leases.get(run.sessionId);
    const held = lease?.fence === fence && Date.parse(lease?.expiresAt ?? "") > Date.now();
    return copied({ run, holder: held && lease ? lease.holder : null });
  }
}
