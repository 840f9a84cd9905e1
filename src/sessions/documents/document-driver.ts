import { copied } from "../../base/copy.js";
import { GantryError, SessionNotFoundError, StoreError } from "../../ports/errors.js";
import type { Notifier } from "../../ports/notifier.js";
import type { MessagePage, SessionDriver } from "../../ports/session-driver.js";
import { DriverLife } from "../driver-lifecycle.js";
import { Chain } from "./chain.js";
import type { DocumentStore } from "./document-store.js";
import { takeLease } from "./leases.js";
import { messagesOf } from "./messages.js";
import { forgetKeys, listAsks, listRuns } from "./runs.js";
import { createSession, deleteChain, findSession, headOf, listSessions, writeChange } from "./sessions.js";
import { Transaction } from "./transaction.js";
import { dumpChain, loadChain } from "./transfer.js";

/** A name, a document store, and what the driver reports about them. */
export interface DocumentDriverOptions {
  /** In errors and in `SessionDriver.name`. */
  name: string;
  /** Location of the store, for errors. Default: the name. */
  where?: string | undefined;
  documents: DocumentStore;
  /** Default: one that gives every subscriber a hint five times a second. */
  notifier?: Notifier | undefined;
}

/** Most calls that share one commit. */
const MAX_GROUP = 64;
/** After so many conflicts calls are made one at a time. */
const MAX_GROUP_CONFLICTS = 3;
/** A call that other processes keep from being done is refused after so many milliseconds. */
const MAX_CONFLICT_MS = 60_000;

interface Call {
  work: (tx: Transaction) => Promise<unknown>;
  /** Whether it must be on the disk. */
  sync: boolean;
  /** Whether it looks at the whole store: such a call shares its commit with no other. */
  isAlone: boolean;
  resolve: (value: never) => void;
  reject: (error: unknown) => void;
}

type Outcome = { value: unknown } | { error: unknown };

/**
 * A session driver on any store of versioned documents. Calls take effect one after the other, in the order in which they
 * were made; what is asked for while a commit is in progress shares the next one. Every call reads documents, decides, and
 * commits what it changes if no other process changed what it read; else it is made again.
 */
export class DocumentDriver implements SessionDriver {
  readonly name: string;
  readonly notifier?: Notifier;
  readonly #documents: DocumentStore;
  readonly #life: DriverLife<true>;
  readonly #calls: Call[] = [];
  #isPumping = false;

  constructor({ name, where = name, documents, notifier }: DocumentDriverOptions) {
    this.name = name;
    if (notifier) this.notifier = notifier;
    this.#documents = documents;
    this.#life = new DriverLife<true>({
      where,
      open: async () => {
        await documents.open?.();
        return true;
      },
      close: () => documents.close?.(),
    });
  }

  open(): Promise<void> {
    return this.#life.open();
  }

  close(): Promise<void> {
    return this.#life.close();
  }

  create(...[start]: Parameters<SessionDriver["create"]>): Promise<void> {
    const own = copied(start);
    return this.#do((tx) => createSession(tx, own), { sync: start.sync !== false });
  }

  get(id: string): ReturnType<SessionDriver["get"]> {
    return this.#do((tx) => findSession(tx, id));
  }

  head(id: string, wanted = { messages: true }): ReturnType<SessionDriver["head"]> {
    return this.#do((tx) => headOf(tx, id, wanted.messages));
  }

  list(...[query]: Parameters<SessionDriver["list"]>): ReturnType<SessionDriver["list"]> {
    return this.#do((tx) => listSessions(tx, query), { isAlone: true });
  }

  messages(id: string, page: MessagePage = {}): ReturnType<SessionDriver["messages"]> {
    return this.#do(async (tx) => {
      const chain = await Chain.of(tx, id);
      const link = chain?.content.links.find((one) => one.id === id);
      return chain && link ? messagesOf(chain, link, page) : [];
    });
  }

  runs(...[query]: Parameters<SessionDriver["runs"]>): ReturnType<SessionDriver["runs"]> {
    return this.#do((tx) => listRuns(tx, query), { isAlone: isOfAll(query) });
  }

  asks(...[query]: Parameters<SessionDriver["asks"]>): ReturnType<SessionDriver["asks"]> {
    return this.#do((tx) => listAsks(tx, query), { isAlone: isOfAll(query) });
  }

  instructions(sessionId: string): ReturnType<SessionDriver["instructions"]> {
    return this.#do(async (tx) => {
      const chain = await Chain.of(tx, sessionId);
      if (!chain) throw new SessionNotFoundError(sessionId);
      return [...chain.head.instructions];
    });
  }

  forgetKeys(before: string): Promise<void> {
    return this.#do((tx) => forgetKeys(tx, before), { isAlone: true });
  }

  write(...[id, change]: Parameters<SessionDriver["write"]>): ReturnType<SessionDriver["write"]> {
    const own = copied(change);
    return this.#do((tx) => writeChange(tx, id, own), { sync: change.sync });
  }

  delete(ids: readonly string[]): Promise<void> {
    const own = [...ids];
    const work = async (tx: Transaction): Promise<void> => {
      for (const id of own) await deleteChain(tx, id);
    };
    return this.#do(work, { sync: true });
  }

  lease(...[id, holder, ttlMs, options = {}]: Parameters<SessionDriver["lease"]>): ReturnType<SessionDriver["lease"]> {
    const own = { ...holder };
    return this.#do((tx) => takeLease(tx, id, own, ttlMs, options));
  }

  dump(id: string): ReturnType<SessionDriver["dump"]> {
    return this.#do((tx) => dumpChain(tx, id));
  }

  load(...[chain]: Parameters<SessionDriver["load"]>): Promise<void> {
    const own = copied(chain);
    return this.#do((tx) => loadChain(tx, own), { sync: true });
  }

  #do<T>(work: (tx: Transaction) => Promise<T>, { sync = false, isAlone = false } = {}): Promise<T> {
    return this.#life.do(
      () =>
        new Promise<T>((resolve, reject) => {
          this.#calls.push({ work, sync, isAlone, resolve, reject });
          // Never rejects: each call hears of its own failure.
          if (!this.#isPumping) void this.#pump();
        }),
    );
  }

  async #pump(): Promise<void> {
    this.#isPumping = true;
    // Calls of one turn of the event loop share a commit.
    await Promise.resolve();
    while (this.#calls.length > 0) {
      const calls = this.#nextGroup();
      try {
        await this.#makeGroup(calls);
      } catch (error) {
        for (const { reject } of calls) reject(error);
      }
    }
    // In the same turn as the last look at the list, so that nothing is added to a pump that has ended.
    this.#isPumping = false;
  }

  #nextGroup(): Call[] {
    const alone = this.#calls.findIndex(({ isAlone }) => isAlone);
    return this.#calls.splice(0, alone < 0 ? MAX_GROUP : Math.max(1, Math.min(MAX_GROUP, alone)));
  }

  async #makeGroup(calls: readonly Call[]): Promise<void> {
    for (let conflicts = 0; conflicts <= MAX_GROUP_CONFLICTS; conflicts++)
      if (await this.#make(calls, conflicts)) return;
    const until = Date.now() + MAX_CONFLICT_MS;
    for (const call of calls)
      for (let conflicts = 0; !(await this.#make([call], conflicts)); conflicts++)
        if (Date.now() > until)
          throw new StoreError("session store: other processes changed the same session all the time");
  }

  /** False if another process was faster: nothing is done then, and nobody is answered. */
  async #make(calls: readonly Call[], conflicts: number): Promise<boolean> {
    // Processes that conflict wait for different times, so that they do not conflict again.
    if (conflicts > 0)
      await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(50, 2 ** conflicts)));
    const tx = new Transaction(this.#documents);
    const outcomes: Outcome[] = [];
    for (const { work } of calls) {
      tx.begin();
      try {
        outcomes.push({ value: await work(tx) });
      } catch (error) {
        tx.rollback();
        // The store itself failed, so the reads of the other calls cannot be trusted.
        if (!(error instanceof GantryError) && calls.length > 1) return false;
        outcomes.push({ error });
      }
    }
    if (!(await commit(tx, calls))) return false;
    for (const [at, { resolve, reject }] of calls.entries()) {
      const outcome = outcomes[at];
      if (outcome && "value" in outcome) resolve(copied(outcome.value) as never);
      else reject(outcome?.error);
    }
    return true;
  }
}

function isOfAll({ id, sessionId, key }: { id?: string; sessionId?: string; key?: string }): boolean {
  return id === undefined && sessionId === undefined && key === undefined;
}

async function commit(tx: Transaction, calls: readonly Call[]): Promise<boolean> {
  try {
    return await tx.commit(calls.some(({ sync }) => sync));
  } catch (error) {
    // The store refused one of the calls, so each is made again alone.
    if (error instanceof GantryError && calls.length > 1) return false;
    throw error;
  }
}
