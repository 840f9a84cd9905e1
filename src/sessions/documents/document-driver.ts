import { deepCopy } from "../../base/copy.js";
import { GantryError, SessionNotFoundError, StoreError } from "../../ports/errors.js";
import type { Notifier, SessionDriver } from "../../ports/session-driver.js";
import type { MessageQuery } from "../../ports/session-queries.js";
import { DriverLifecycle } from "../driver-lifecycle.js";
import { Chain } from "./chain.js";
import type { DocumentStore } from "./document-store.js";
import { takeLease } from "./leases.js";
import { messagesOf } from "./messages.js";
import { forgetKeys, listAsks, listRuns } from "./runs.js";
import { createSession, deleteChain, findSession, readHead, listSessions, writeChange } from "./sessions.js";
import { Transaction } from "./transaction.js";
import { dumpChain, loadChain } from "./transfer.js";

/** Options of `DocumentDriver`: a name, a document store and its location. */
export interface DocumentDriverOptions {
  /** Used in errors and as `SessionDriver.name`. */
  name: string;
  /** Location of the store, for errors. Default: the name. */
  location?: string | undefined;
  documents: DocumentStore;
  /** Default: the kernel notifies every subscriber five times a second. */
  notifier?: Notifier | undefined;
}

/** Maximum number of calls in one commit. */
const MAX_GROUP_CALLS = 64;
/** Number of conflicts after which the calls of a group run one at a time. */
const MAX_GROUP_CONFLICTS = 3;
/** Time after which a call that conflicts with other processes is rejected, in ms. */
const MAX_CONFLICT_MS = 60_000;
/** Maximum delay before a commit is retried after a conflict, in ms. */
const MAX_RETRY_DELAY_MS = 50;

interface QueuedCall {
  work: (tx: Transaction) => Promise<unknown>;
  /** Whether the change must be on disk. */
  sync: boolean;
  /** Whether the call reads the complete store. Such a call shares its commit with no other. */
  isAlone: boolean;
  resolve: (value: never) => void;
  reject: (error: unknown) => void;
}

type Outcome = { value: unknown } | { error: unknown };

/**
 * Session driver for any store of versioned documents.
 *
 * Calls take effect one after the other, in the order of the calls. Calls that arrive during a commit share the next
 * one. Each call reads documents, decides, and commits its changes. If another process changed a document that
 * a call read, the call runs again.
 */
export class DocumentDriver implements SessionDriver {
  readonly name: string;
  readonly separatesUsers = true;
  readonly notifier?: Notifier;
  readonly #documents: DocumentStore;
  readonly #lifecycle: DriverLifecycle<true>;
  readonly #calls: QueuedCall[] = [];
  #isCommitting = false;

  constructor({ name, location = name, documents, notifier }: DocumentDriverOptions) {
    this.name = name;
    if (notifier) this.notifier = notifier;
    this.#documents = documents;
    this.#lifecycle = new DriverLifecycle<true>({
      location,
      open: async () => {
        await documents.open?.();
        return true;
      },
      close: () => documents.close?.(),
    });
  }

  open(): Promise<void> {
    return this.#lifecycle.open();
  }

  close(): Promise<void> {
    return this.#lifecycle.close();
  }

  create(...[start]: Parameters<SessionDriver["create"]>): Promise<void> {
    const startCopy = deepCopy(start);
    return this.#enqueue((tx) => createSession(tx, startCopy), { sync: start.sync !== false });
  }

  get(id: string): ReturnType<SessionDriver["get"]> {
    return this.#enqueue((tx) => findSession(tx, id));
  }

  head(id: string, options = { messages: true }): ReturnType<SessionDriver["head"]> {
    return this.#enqueue((tx) => readHead(tx, id, options.messages));
  }

  list(...[query]: Parameters<SessionDriver["list"]>): ReturnType<SessionDriver["list"]> {
    return this.#enqueue((tx) => listSessions(tx, query), { isAlone: true });
  }

  messages(id: string, page: MessageQuery = {}): ReturnType<SessionDriver["messages"]> {
    return this.#enqueue(async (tx) => {
      const chain = await Chain.findBySession(tx, id);
      const link = chain?.content.links.find((candidate) => candidate.id === id);
      return chain && link ? messagesOf(chain, link, page) : [];
    });
  }

  runs(...[query]: Parameters<SessionDriver["runs"]>): ReturnType<SessionDriver["runs"]> {
    return this.#enqueue((tx) => listRuns(tx, query), { isAlone: isUnfiltered(query) });
  }

  asks(...[query]: Parameters<SessionDriver["asks"]>): ReturnType<SessionDriver["asks"]> {
    return this.#enqueue((tx) => listAsks(tx, query), { isAlone: isUnfiltered(query) });
  }

  instructions(sessionId: string): ReturnType<SessionDriver["instructions"]> {
    return this.#enqueue(async (tx) => {
      const chain = await Chain.findBySession(tx, sessionId);
      if (!chain) throw new SessionNotFoundError(sessionId);
      return [...chain.head.instructions];
    });
  }

  forgetKeys(before: string): Promise<void> {
    return this.#enqueue((tx) => forgetKeys(tx, before), { isAlone: true });
  }

  write(...[id, change]: Parameters<SessionDriver["write"]>): ReturnType<SessionDriver["write"]> {
    const changeCopy = deepCopy(change);
    return this.#enqueue((tx) => writeChange(tx, id, changeCopy), { sync: change.sync });
  }

  delete(ids: readonly string[]): Promise<void> {
    const idsCopy = [...ids];
    const work = async (tx: Transaction): Promise<void> => {
      for (const id of idsCopy) await deleteChain(tx, id);
    };
    return this.#enqueue(work, { sync: true });
  }

  probe(): Promise<void> {
    return this.#lifecycle.run(async () => {
      if (this.#documents.probe) await this.#documents.probe();
      else await this.#documents.get([]);
    });
  }

  lease(...[id, holder, ttlMs, options = {}]: Parameters<SessionDriver["lease"]>): ReturnType<SessionDriver["lease"]> {
    const holderCopy = { ...holder };
    return this.#enqueue((tx) => takeLease(tx, id, holderCopy, ttlMs, options));
  }

  dump(id: string): ReturnType<SessionDriver["dump"]> {
    return this.#enqueue((tx) => dumpChain(tx, id));
  }

  load(...[chain]: Parameters<SessionDriver["load"]>): Promise<void> {
    const chainCopy = deepCopy(chain);
    return this.#enqueue((tx) => loadChain(tx, chainCopy), { sync: true });
  }

  #enqueue<T>(work: (tx: Transaction) => Promise<T>, { sync = false, isAlone = false } = {}): Promise<T> {
    return this.#lifecycle.run(
      () =>
        new Promise<T>((resolve, reject) => {
          this.#calls.push({ work, sync, isAlone, resolve, reject });
          // Never rejects: each call gets its own error.
          if (!this.#isCommitting) void this.#commitCalls();
        }),
    );
  }

  async #commitCalls(): Promise<void> {
    this.#isCommitting = true;
    // Calls in one turn of the event loop share a commit.
    await Promise.resolve();
    while (this.#calls.length > 0) {
      const calls = this.#takeGroup();
      try {
        await this.#commitGroup(calls);
      } catch (error) {
        for (const { reject } of calls) reject(error);
      }
    }
    // Set in the same turn as the loop's last check: no call can be queued between the check and this line.
    this.#isCommitting = false;
  }

  #takeGroup(): QueuedCall[] {
    const aloneIndex = this.#calls.findIndex(({ isAlone }) => isAlone);
    return this.#calls.splice(0, aloneIndex < 0 ? MAX_GROUP_CALLS : Math.max(1, Math.min(MAX_GROUP_CALLS, aloneIndex)));
  }

  async #commitGroup(calls: readonly QueuedCall[]): Promise<void> {
    for (let conflictCount = 0; conflictCount <= MAX_GROUP_CONFLICTS; conflictCount++)
      if (await this.#tryCommit(calls, conflictCount)) return;
    const giveUpAtMs = Date.now() + MAX_CONFLICT_MS;
    for (const call of calls)
      for (let conflictCount = 0; !(await this.#tryCommit([call], conflictCount)); conflictCount++)
        if (Date.now() > giveUpAtMs)
          throw new StoreError("session store: change aborted after repeated conflicts with other processes; retry");
  }

  /**
   * Runs and commits calls. Returns false if another process committed first: no change is made, no call is answered.
   */
  async #tryCommit(calls: readonly QueuedCall[], conflictCount: number): Promise<boolean> {
    // Random delays keep processes that conflict from conflicting again.
    if (conflictCount > 0)
      await new Promise((resolve) =>
        setTimeout(resolve, Math.random() * Math.min(MAX_RETRY_DELAY_MS, 2 ** conflictCount)),
      );
    const tx = new Transaction(this.#documents);
    const outcomes: Outcome[] = [];
    for (const { work } of calls) {
      tx.begin();
      try {
        outcomes.push({ value: await work(tx) });
      } catch (error) {
        tx.rollback();
        // The store itself failed, so the reads of the other calls are unreliable.
        if (!(error instanceof GantryError) && calls.length > 1) return false;
        outcomes.push({ error });
      }
    }
    if (!(await commitTransaction(tx, calls))) return false;
    for (const [i, { resolve, reject }] of calls.entries()) {
      const outcome = outcomes[i];
      if (outcome && "value" in outcome) resolve(deepCopy(outcome.value) as never);
      else reject(outcome?.error);
    }
    return true;
  }
}

/** Whether a query reads the complete store. */
function isUnfiltered({
  id,
  sessionId,
  idempotencyKey,
}: {
  id?: string;
  sessionId?: string;
  idempotencyKey?: string;
}): boolean {
  return id === undefined && sessionId === undefined && idempotencyKey === undefined;
}

/** Commits. Returns false if the calls must run again, after a conflict or alone. */
async function commitTransaction(tx: Transaction, calls: readonly QueuedCall[]): Promise<boolean> {
  try {
    return await tx.commit(calls.some(({ sync }) => sync));
  } catch (error) {
    // The store rejected one of the calls, so each runs again alone.
    if (error instanceof GantryError && calls.length > 1) return false;
    throw error;
  }
}
