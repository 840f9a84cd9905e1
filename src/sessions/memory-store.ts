import {
  LeaseLostError,
  PointNotFoundError,
  RunKeyTakenError,
  SessionExistsError,
  SessionNotFoundError,
} from "../ports/errors.js";
import { copied } from "../base/copy.js";
import { addUsage } from "../conversation/usage.js";
import {
  addMessages,
  checkGrowing,
  checkSeqs,
  complete,
  cutChain,
  grow,
  newChain,
  newestOf,
  said as saidIn,
  restoreChain,
} from "./memory-chain.js";
import type { Chain, StoredMessage, StoredSession } from "./memory-chain.js";
import { Hints } from "./hints.js";
import { StoredAsks, StoredRuns, StoredSessions } from "./memory-lists.js";
import { isOpen } from "./stored-run.js";
import type { StoredFence } from "./memory-lists.js";
import type { Ask } from "../ports/ask.js";
import type { Notifier } from "../ports/notifier.js";
import type { Holder } from "../ports/holder.js";
import type {
  AskAnswered,
  ChainData,
  ChainHead,
  Lease,
  LeaseHeld,
  LeaseOptions,
  LeaseTaken,
  SessionChange,
  SessionStart,
} from "../ports/session-driver.js";
import type { Instruction, RunRecord } from "../ports/run.js";
import type { Session } from "../ports/session.js";

/**
 * What memory drivers keep, and the rules of changing it; several drivers given the same one behave like processes that
 * share a store. It changes in the call itself. Messages that it is given are its own from then on.
 */
export class MemoryStore {
  readonly sessions = new StoredSessions();
  /** Alias to id. */
  readonly aliases = new Map<string, string>();
  /** By id, each with the fence under which it was last written. */
  readonly runs = new StoredRuns();
  /** By id. */
  readonly asks = new StoredAsks();
  /** By id, in the order in which they came. */
  readonly instructions = new Map<string, Instruction>();
  /** By the id of the chain's original. */
  readonly leases = new Map<string, Lease>();
  /** Fence of the last lease of chains that nobody holds; forgotten when what was said is changed without one. */
  readonly released = new Map<string, number>();
  fence = 0;
  /** Of each driver that is given this store. */
  readonly #notifiers = new Set<Hints>();

  /** For one more driver on this store: it hears of what the others publish. */
  notifier(): Notifier {
    const own = new Hints();
    return {
      publish: (root) => {
        // As it would come from another process: never within the call.
        for (const other of this.#notifiers) if (other !== own) setImmediate(() => other.tell(root));
      },
      subscribe: (root, hint) => {
        this.#notifiers.add(own);
        const end = own.subscribe(root, hint);
        return () => {
          end();
          if (own.size === 0) this.#notifiers.delete(own);
        };
      },
    };
  }

  /** By id or alias. */
  find(id: string): StoredSession | undefined {
    return this.sessions.get(id) ?? this.sessions.get(this.aliases.get(id) ?? "");
  }

  /** As `SessionDriver.create`. */
  create({ session: given, messages = [], view = [], run, fence = null }: SessionStart): void {
    const session = copyOfSession(given);
    const { id, alias } = session;
    const { root, index } = session.chain;
    if (this.#isTaken(id)) throw new SessionExistsError(id);
    if (alias !== "" && (alias === id || this.#isTaken(alias))) throw new SessionExistsError(alias);
    const original = root === id ? undefined : this.sessions.get(root);
    if (root !== id && !original) throw new SessionNotFoundError(root);
    this.#checkFence(root, fence);
    const chain: Chain = original?.chain ?? newChain();
    if (chain.sessions.has(index)) throw new SessionExistsError(id);
    checkSeqs(chain, messages);
    const runs = run ? [run] : [];
    this.#checkRuns(root, runs);

    if (fence === null) this.released.delete(root);
    const stored: StoredSession = { session, view: [...view], cut: "", chain };
    chain.sessions.set(index, stored);
    this.sessions.set(id, stored);
    if (alias !== "") this.aliases.set(alias, id);
    addMessages(stored, messages);
    this.#putRuns(root, runs, fence);
  }

  /** As `SessionDriver.write`. */
  write(id: string, change: SessionChange): Instruction[] {
    const stored = this.sessions.get(id);
    if (!stored) throw new SessionNotFoundError(id);
    const { chain } = stored;
    const { root } = stored.session.chain;
    const { add = [], append = [], finish = [], cut, restore, runs = [], asks = [], followed = [] } = change;
    // All that can refuse comes first, so that a refused change leaves nothing behind.
    this.#checkFence(root, change.fence);
    if (restore !== undefined && !chain.snapshots.some((snapshot) => snapshot.id === restore)) {
      throw new PointNotFoundError("snapshot");
    }
    checkSeqs(chain, add);
    checkGrowing(chain, change);
    this.#checkRuns(root, runs);
    for (const { id: ask } of asks)
      if ((this.asks.get(ask)?.sessionId ?? root) !== root) throw new SessionExistsError(ask);

    const isSaid = add.length + append.length + finish.length > 0 || cut !== undefined || restore !== undefined;
    if (isSaid && change.fence === null) this.released.delete(root);
    if (cut) cutChain(stored, cut);
    if (restore !== undefined) restoreChain(chain, restore);
    const newest = cut || restore !== undefined ? newestOf(chain)?.session : undefined;
    if (newest) newest.lastSeq = Math.max(newest.lastSeq, chain.messages.items.at(-1)?.message.seq ?? 0);
    for (const { session } of new Set([stored, chain.sessions.get(0) ?? stored])) this.#setFields(session, change);
    addMessages(stored, add);
    for (const delta of append) grow(chain, delta);
    for (const final of finish) complete(chain, final);
    this.#putRuns(root, runs, change.fence);
    for (const ask of asks)
      if (this.asks.get(ask.id)?.state !== "answered") this.asks.set(ask.id, { ...copied(ask), sessionId: root });
    for (const one of followed) if (this.instructions.get(one)?.sessionId === root) this.instructions.delete(one);
    if (change.release !== true || change.fence === null) return [];
    this.release({ rootId: root, fence: change.fence });
    return copied(this.instructionsOf(root));
  }

  /** As `SessionDriver.answer`. */
  answer(id: string, answered: AskAnswered): { ask: Ask; counts: boolean } | undefined {
    const ask = this.asks.get(id);
    if (!ask) return undefined;
    const counts = ask.state === "open";
    if (counts) this.asks.set(id, { ...ask, ...copied(answered), state: "answered" });
    return { ask: copied(this.asks.get(id) ?? ask), counts };
  }

  /** As `SessionDriver.instruct`. */
  instruct(instruction: Instruction): void {
    const root = this.sessions.get(instruction.sessionId)?.session.chain.root;
    if (root === undefined) throw new SessionNotFoundError(instruction.sessionId);
    if (!this.instructions.has(instruction.id))
      this.instructions.set(instruction.id, { ...instruction, sessionId: root });
  }

  /** Those of the chain with this original. */
  instructionsOf(root: string): Instruction[] {
    return [...this.instructions.values()].filter(({ sessionId }) => sessionId === root);
  }

  /** As `SessionDriver.forgetKeys`; tells the runs that are others now. */
  forgetKeys(before: string): StoredFence[] {
    const old = this.runs.withKeys().filter(({ run }) => run.startedAt < before && !isOpen(run));
    return old.map(({ run, fence }) => {
      const without = { run: { ...run, key: "", fingerprint: "", answer: null }, fence };
      this.runs.set(run.id, without);
      return without;
    });
  }

  /** As `SessionDriver.lease`. */
  lease(id: string, holder: Holder, ttlMs: number, { replacing, head }: LeaseOptions = {}): LeaseTaken | LeaseHeld {
    const rootId = this.sessions.get(id)?.session.chain.root ?? id;
    const now = Date.now();
    const held = this.leases.get(rootId);
    const mine = held?.holder.id === holder.id;
    if (held && !mine && Date.parse(held.expiresAt) > now && held.fence !== replacing) return { heldBy: copied(held) };
    const fence = held && mine ? held.fence : ++this.fence;
    const lease = { rootId, holder: { ...holder }, fence, expiresAt: new Date(now + ttlMs).toISOString() };
    this.leases.set(rootId, lease);
    const previous = mine ? undefined : (held?.fence ?? this.released.get(rootId));
    this.released.delete(rootId);
    const isKnown = head?.known !== undefined && head.known === previous;
    const told = head && this.head(rootId, head.messages && !isKnown);
    return { ...copied(lease), ...(previous !== undefined && { previous }), ...(told && { head: told }) };
  }

  /** As `SessionDriver.head`. */
  head(id: string, messages: boolean): ChainHead | undefined {
    const chain = this.find(id)?.chain;
    const original = chain?.sessions.get(0)?.session;
    const newest = chain && newestOf(chain);
    if (!original || !newest) return undefined;
    const unfinished = this.runs.unfinished(original.id);
    const all = messages ? [...newest.view, ...saidIn(newest, {})] : [];
    return copied({ original, newest: newest.session, messages: all, unfinished });
  }

  /** As `SessionDriver.release`. False when it was no longer held. */
  release({ rootId, fence }: Pick<Lease, "rootId" | "fence">): boolean {
    if (this.leases.get(rootId)?.fence !== fence) return false;
    this.leases.delete(rootId);
    this.released.set(rootId, fence);
    return true;
  }

  /** A copy of the chain that a session belongs to, its sessions by index; undefined when there is none. */
  dump(id: string): ChainData | undefined {
    return copied(this.chain(id));
  }

  /** The same of the store's own objects. */
  chain(id: string): ChainData | undefined {
    const chain = this.sessions.get(id)?.chain;
    if (!chain) return undefined;
    const ordered = [...chain.sessions.values()].sort((a, b) => a.session.chain.index - b.session.chain.index);
    const said = new Map<string, StoredMessage[]>(ordered.map(({ session }) => [session.id, []]));
    for (const stored of chain.messages.items) said.get(stored.message.sessionId)?.push(stored);
    const sessions = ordered.map(({ session, cut, view }) => {
      return { session, cut, view, messages: said.get(session.id) ?? [] };
    });
    const { root } = ordered[0]!.session.chain;
    const asks = this.asks.list(root, { limit: Infinity });
    return { sessions, snapshots: chain.snapshots, runs: this.runsOf(root).map(({ run }) => run), asks };
  }

  /** Take a chain in, as `dump` gave it, in place of what there is of it; it is the store's own then. Its ids and keys must be free. */
  load({ sessions, snapshots, runs, asks }: ChainData): void {
    const chain: Chain = { ...newChain(), snapshots };
    this.drop(sessions[0]?.session.id ?? "");
    for (const { session, cut, view, messages } of sessions) {
      const stored: StoredSession = { session, cut, view, chain };
      chain.sessions.set(session.chain.index, stored);
      this.sessions.set(session.id, stored);
      if (session.alias !== "") this.aliases.set(session.alias, session.id);
      for (const kept of messages) {
        chain.messages.add(kept);
        if (!kept.message.finished) chain.growing.set(kept.message.id, kept);
      }
    }
    for (const run of runs) this.runs.set(run.id, { run, fence: null });
    for (const ask of asks) this.asks.set(ask.id, ask);
  }

  /** Throws `SessionExistsError` or `RunKeyTakenError` when ids or keys of a chain are not free. */
  checkFree({ sessions, runs }: ChainData): void {
    for (const { session } of sessions)
      for (const id of [session.id, session.alias])
        if (id !== "" && this.#isTaken(id)) throw new SessionExistsError(id);
    this.#checkRuns(undefined, runs);
  }

  /** Let go of the chain with this original, its runs and its lease. */
  remove(root: string): void {
    this.drop(root);
    this.leases.delete(root);
    this.released.delete(root);
    for (const { run } of this.runsOf(root)) this.runs.delete(run.id);
    for (const { id } of this.asks.list(root, { limit: Infinity })) this.asks.delete(id);
    for (const { id } of this.instructionsOf(root)) this.instructions.delete(id);
  }

  /** Let go of the chain with this original, but not of its runs and its lease. */
  drop(root: string): void {
    for (const { session } of this.sessions.get(root)?.chain.sessions.values() ?? []) {
      this.sessions.delete(session.id);
      this.aliases.delete(session.alias);
    }
  }

  /** Runs of the chain with this original, or all; newest first. */
  runsOf(root: string | undefined): StoredFence[] {
    return this.runs.list(root, { limit: Infinity });
  }

  #isTaken(id: string): boolean {
    return this.sessions.has(id) || this.aliases.has(id);
  }

  #checkFence(root: string, fence: number | null): void {
    if (fence !== null && this.leases.get(root)?.fence !== fence) throw new LeaseLostError(root);
  }

  /** `root` is the chain's that they are put in; undefined when all must be new. */
  #checkRuns(root: string | undefined, runs: readonly RunRecord[]): void {
    const given = new Map<string, string>();
    for (const { id, key } of runs) {
      const there = this.runs.get(id);
      if (there && there.run.sessionId !== root) throw new RunKeyTakenError(key);
      given.set(id, key);
      if (key === "") continue;
      const stored = this.runs.withKey(key);
      // A run that this change gives another key lets go of its own.
      const holders = [...given].filter(([, other]) => other === key).map(([other]) => other);
      if (stored !== undefined && !given.has(stored)) holders.push(stored);
      if (holders.some((other) => other !== id)) throw new RunKeyTakenError(key);
    }
  }

  #putRuns(sessionId: string, runs: readonly RunRecord[], fence: number | null): void {
    for (const given of runs) {
      const run = { ...copied(given), sessionId };
      this.runs.set(run.id, { run, fence });
    }
  }

  #setFields(session: Session, { set = {}, usage }: SessionChange): void {
    const { updatedAt = "", projectDir, ...fields } = set;
    for (const [field, value] of Object.entries(fields))
      if (value !== undefined) Object.assign(session, { [field]: copied(value) });
    if (usage) session.usage = addUsage(session.usage, usage);
    if (updatedAt <= session.updatedAt && projectDir === undefined) return;
    this.sessions.change(session, () => {
      if (updatedAt > session.updatedAt) session.updatedAt = updatedAt;
      if (projectDir !== undefined) session.projectDir = projectDir;
    });
  }
}

/** By hand, because lists are long. */
export function copyOfSession(session: Session): Session {
  const { chain, usage, leave, cuts } = session;
  return { ...session, chain: { ...chain }, usage: { ...usage }, leave: copied(leave), cuts: [...cuts] };
}
