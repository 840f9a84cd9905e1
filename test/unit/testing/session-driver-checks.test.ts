import assert from "node:assert/strict";
import { closeSync, openSync } from "node:fs";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { MemoryDriver, SessionNotFoundError } from "gantry";
import type { Ask, Message, Session } from "gantry";
import type {
  AskQuery,
  ChainData,
  ChainHead,
  ChangeResult,
  MessageQuery,
  MessageSearchPage,
  MessageSearchQuery,
  RunQuery,
  SessionChange,
  SessionPage,
  SessionQuery,
  SessionStart,
  StoredRun,
} from "gantry/plugin";
import { scanMessages } from "gantry/plugin";
import { sessionDriverChecks, type Check } from "gantry/testing";
import { assertCheckRejects } from "../../helpers/assert-check-rejects.js";
import { Tables } from "../../helpers/tables.js";
import { keys } from "../../../src/sessions/documents/keys.js";

/** A correct driver, apart from the fault of a subclass. */
class Driver extends MemoryDriver {
  readonly memory: Tables;
  constructor(memory: Tables) {
    super(memory);
    this.memory = memory;
  }
  getStoredSession(id: string): Session {
    return this.memory.sessions.get(id)!.session;
  }
}

type DriverClass = new (memory: Tables) => Driver;

function createChecks(
  WrongDriver: DriverClass,
  options: { losesData?: boolean; hasSeparateStores?: boolean; timeoutMs?: number } = {},
): Check[] {
  let memory = new Tables();
  const openDriver = async (tables: Tables): Promise<Driver> => {
    const driver = new WrongDriver(tables);
    await driver.open();
    return driver;
  };
  return sessionDriverChecks({
    create: () => openDriver((memory = new Tables())),
    second: () => openDriver(options.hasSeparateStores ? new Tables() : memory),
    reopen: () => openDriver(options.losesData ? new Tables() : memory),
    clean: () => Promise.resolve(),
    ...(options.timeoutMs !== undefined && { timeoutMs: options.timeoutMs }),
  });
}

const waitForTick = () => new Promise((resolve) => setImmediate(resolve));

/** Description of the fault, the driver, and the check that must fail. */
const FAULTY_DRIVERS: [fault: string, WrongDriver: DriverClass, checkName: string][] = [
  [
    "does not find a session by its alias",
    class extends Driver {
      override async get(id: string): Promise<Session | undefined> {
        const session = await super.get(id);
        return session?.id === id ? session : undefined;
      }
    },
    "get: finds a session by id or alias; undefined if there is none",
  ],
  [
    "allows one alias for two sessions",
    class extends Driver {
      override async create(start: SessionStart) {
        this.memory.put(keys.alias(start.session.alias), "", null);
        await super.create(start);
      }
    },
    "create: an alias is unique among aliases and ids",
  ],
  [
    "lists the oldest first",
    class extends Driver {
      override async list(query: SessionQuery): Promise<SessionPage> {
        const page = await super.list(query);
        return { ...page, sessions: page.sessions.reverse() };
      }
    },
    "list: sorted by updatedAt, newest first, then by id, greatest first",
  ],
  [
    "lists follow-ups",
    class extends Driver {
      override async list(query: SessionQuery): Promise<SessionPage> {
        const page = await super.list(query);
        const allSessions = this.memory.sessions.values().map(({ session }) => session);
        return { ...page, sessions: [...page.sessions, ...allSessions.filter(({ chain }) => chain.index > 0)] };
      }
    },
    "list: follow-ups are neither listed nor counted",
  ],
  [
    "counts only the sessions of the page",
    class extends Driver {
      override async list(query: SessionQuery): Promise<SessionPage> {
        const page = await super.list(query);
        return { ...page, total: page.sessions.length };
      }
    },
    "list: pages by offset contain every session once; total counts all",
  ],
  [
    "treats `%` in a search as a wildcard",
    class extends Driver {
      override list(query: SessionQuery): Promise<SessionPage> {
        return super.list({ ...query, ...(query.search?.includes("%") ? { search: "" } : {}) });
      }
    },
    "list: search matches a literal part of the title and ignores case",
  ],
  [
    "finds nothing for a search that is not ASCII",
    class extends Driver {
      override list(query: SessionQuery): Promise<SessionPage> {
        const isAscii = /^[\x20-\x7e]*$/.test(query.search ?? "");
        return isAscii ? super.list(query) : Promise.resolve({ sessions: [], total: 0 });
      }
    },
    "list: search matches a literal part of the title and ignores case",
  ],
  [
    "ignores the fence",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<ChangeResult> {
        return super.write(id, { ...change, fence: null });
      }
    },
    "lease: an expired holder is replaced, and from then on its writes are rejected",
  ],
  [
    "grants every request for a lease",
    class extends Driver {
      override lease(...[root, holder, ttl]: Parameters<MemoryDriver["lease"]>) {
        return super.lease(root, holder, ttl, { fenceToReplace: this.memory.leases.get(root)?.fence ?? 0 });
      }
    },
    "lease: one holder at a time; other callers receive the current lease",
  ],
  [
    "reuses a fence",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const result = await super.write(id, change);
        if (change.release && change.fence !== null) this.memory.fence = change.fence - 1;
        return result;
      }
    },
    "release: the lease is free, its fence is invalid, and the next fence is greater",
  ],
  [
    "writes a change in two steps",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const { add, ...otherChange } = change;
        if (add) await super.write(id, { fence: null, sync: false, add });
        return super.write(id, otherChange);
      }
    },
    "write: a rejected change has no effect",
  ],
  [
    "makes half of a change visible",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const [firstMessage, ...laterMessages] = change.add ?? [];
        if (firstMessage) await super.write(id, { fence: null, sync: false, add: [firstMessage] });
        await waitForTick();
        return super.write(id, { ...change, add: laterMessages });
      }
    },
    "a reader sees a change completely or not at all",
  ],
  [
    "loses usage that is added between its read and its write",
    class extends Driver {
      override async write(id: string, { usage, ...change }: SessionChange): Promise<ChangeResult> {
        const earlierUsage = (await this.get(id))?.usage;
        await waitForTick();
        const result = await super.write(id, change);
        if (!usage || !earlierUsage) return result;
        for (const key of ["promptTokens", "completionTokens", "totalTokens", "cost"] as const)
          this.getStoredSession(id).usage = {
            ...this.getStoredSession(id).usage,
            [key]: earlierUsage[key] + usage[key],
          };
        return result;
      }
    },
    "usage adds up and each seq is stored once if two drivers write one session concurrently",
  ],
  [
    "returns overlapping pages of messages",
    class extends Driver {
      override messages(id: string, page: MessageQuery = {}): Promise<Message[]> {
        return super.messages(id, page.after === undefined ? page : { ...page, after: page.after - 1 });
      }
    },
    "messages: pages in both directions, always in ascending order",
  ],
  [
    "orders messages by their creation time",
    class extends Driver {
      override async messages(id: string, page: MessageQuery = {}): Promise<Message[]> {
        const pageMessages = await super.messages(id, page);
        return pageMessages.sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
      }
    },
    "messages: in seq order, regardless of creation times and insertion order",
  ],
  [
    "returns messages that a revert hides",
    class extends Driver {
      override async messages(id: string, page: MessageQuery = {}): Promise<Message[]> {
        const allMessages = this.memory.sessions.get(id)?.chain.messages ?? [];
        return page.limit === undefined ? allMessages : super.messages(id, page);
      }
    },
    "messages: pages omit messages that a revert hides",
  ],
  [
    "decreases updatedAt",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const result = await super.write(id, change);
        if (change.set?.updatedAt !== undefined) this.getStoredSession(id).updatedAt = change.set.updatedAt;
        return result;
      }
    },
    "write: updatedAt never decreases; the other fields of such a change apply",
  ],
  [
    "returns no snapshots",
    class extends Driver {
      override async head(...args: Parameters<MemoryDriver["head"]>): Promise<ChainHead | undefined> {
        const head = await super.head(...args);
        return head && { ...head, snapshots: [] };
      }
    },
    "revert: hides messages after a point under a snapshot, in this chain only",
  ],
  [
    "reuses the seq of a reverted message",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const result = await super.write(id, change);
        if (change.revert) this.getStoredSession(id).lastSeq = change.revert.after;
        return result;
      }
    },
    "revert: also hides later sessions of the chain; the reverted session becomes the newest, with the chain's lastSeq",
  ],
  [
    "keeps a restored snapshot",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const snapshot = this.memory.sessions
          .get(id)
          ?.chain.snapshots.find((candidate) => candidate.id === change.restore);
        const result = await super.write(id, change);
        if (snapshot) this.memory.sessions.get(id)?.chain.snapshots.push(snapshot);
        return result;
      }
    },
    "restore: shows the messages and sessions that its revert hid, and removes the snapshot",
  ],
  [
    "creates a session although its messages are rejected",
    class extends Driver {
      override async create({ messages, ...start }: SessionStart) {
        await super.create(start);
        if (messages) await super.write(start.session.id, { fence: null, sync: true, add: messages });
      }
    },
    "create: rejects messages with the same seq, and creates no session",
  ],
  [
    "returns its own objects instead of copies",
    class extends Driver {
      override async get(id: string): Promise<Session | undefined> {
        return (await super.get(id)) && this.getStoredSession(id);
      }
    },
    "a caller's later changes to its objects do not affect the store",
  ],
  [
    "deletes only one session of a chain",
    class extends Driver {
      override async delete(ids: readonly string[]): Promise<void> {
        for (const id of ids) this.memory.sessions.delete(id);
      }
    },
    "delete: any id of a chain deletes the whole chain with hidden sessions and snapshots, and no other",
  ],
  [
    "merges the parts of a growing message",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<ChangeResult> {
        const append = change.append?.map((delta) => ({ ...delta, part: 0 }));
        return super.write(id, { ...change, ...(append ? { append } : {}) });
      }
    },
    "write: a growing message gains text part by part",
  ],
  [
    "sets usage instead of adding it",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const result = await super.write(id, change);
        if (change.usage) this.getStoredSession(id).usage = { ...change.usage };
        return result;
      }
    },
    "write: usage is added up",
  ],
  [
    "does not store the view",
    class extends Driver {
      override create({ view: _, ...start }: SessionStart): Promise<void> {
        return super.create(start);
      }
    },
    "head: messages of a follow-up are its view and its own messages, not earlier ones",
  ],
  [
    "returns the requested session as the newest in the head",
    class extends Driver {
      override async head(id: string): Promise<ChainHead | undefined> {
        const [head, newest] = [await super.head(id), await this.get(id)];
        return head && newest && { ...head, newest };
      }
    },
    "head: `newest` has the greatest index, for any id of the chain; undefined for an unknown id",
  ],
  [
    "rejects a second close",
    class extends Driver {
      #isClosed = false;
      override async close(): Promise<void> {
        if (this.#isClosed) throw new Error("closed already");
        this.#isClosed = true;
        await super.close();
      }
      override async open(): Promise<void> {
        this.#isClosed = false;
        await super.open();
      }
    },
    "close: safe to call twice; afterwards every method rejects with StoreError",
  ],
  [
    "omits hidden messages from a dump",
    class extends Driver {
      override async dump(id: string): Promise<ChainData | undefined> {
        const data = await super.dump(id);
        for (const session of data?.sessions ?? [])
          session.messages = session.messages.filter(({ hiddenBy }) => hiddenBy === "");
        return data;
      }
    },
    "dump: returns the whole chain with hidden parts, for any id of the chain; undefined for an unknown id",
  ],
  [
    "loads part of a chain although an id is taken",
    class extends Driver {
      override async load({ sessions, ...otherData }: ChainData): Promise<void> {
        const [firstSession, ...laterSessions] = sessions;
        if (firstSession) await super.load({ sessions: [firstSession], ...otherData });
        for (const { session, view } of laterSessions) await this.create({ session, view });
      }
    },
    "load: rejected without any effect if an id, an alias or a run's id or key is taken",
  ],
  [
    "stores two runs with one idempotency key",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const result = await super.write(id, {
          ...change,
          runs: change.runs?.map((run) => ({ ...run, idempotencyKey: "" })) ?? [],
        });
        for (const run of change.runs ?? []) this.memory.runs.get(run.id)!.run.idempotencyKey = run.idempotencyKey;
        return result;
      }
    },
    "runs: an idempotency key is unique in the store; a call that is rejected for it has no effect",
  ],
  [
    "stores a key some time after it checked that the key is free",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const storedKeys = this.memory.runs.values().map(({ run }) => run.idempotencyKey);
        if (change.runs?.some(({ idempotencyKey: key }) => storedKeys.includes(key))) return super.write(id, change);
        await waitForTick();
        const result = await super.write(id, {
          ...change,
          runs: change.runs?.map((run) => ({ ...run, idempotencyKey: "" })) ?? [],
        });
        for (const run of change.runs ?? []) this.memory.runs.get(run.id)!.run.idempotencyKey = run.idempotencyKey;
        return result;
      }
    },
    "runs: of two concurrent runs with one key, through two drivers, one is stored",
  ],
  [
    "does not replace an existing run",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<ChangeResult> {
        const runs = change.runs?.filter((run) => !this.memory.runs.has(run.id)) ?? [];
        return super.write(id, { ...change, runs });
      }
    },
    "runs: a write with the same id replaces the run, whatever fields differ",
  ],
  [
    "lets a chain overwrite another chain's run",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<ChangeResult> {
        for (const run of change.runs ?? []) this.memory.runs.delete(run.id);
        return super.write(id, change);
      }
    },
    "runs: rejects the id of another chain's run, which stays unchanged",
  ],
  [
    "stores a follow-up's id as the sessionId of a run",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const result = await super.write(id, change);
        for (const run of change.runs ?? []) this.memory.runs.get(run.id)!.run.sessionId = id;
        return result;
      }
    },
    "runs: a run of a follow-up belongs to the chain, and its sessionId is the original's id",
  ],
  [
    "lists the oldest runs first",
    class extends Driver {
      override async runs(query: RunQuery): Promise<StoredRun[]> {
        return (await super.runs(query)).reverse();
      }
    },
    "runs: sorted by startedAt, newest first, then by id; filtered by chain, states and id",
  ],
  [
    "treats an empty list of states as all states",
    class extends Driver {
      override runs({ states, ...query }: RunQuery): Promise<StoredRun[]> {
        return super.runs(states && states.length > 0 ? { ...query, states } : query);
      }
    },
    "runs: sorted by startedAt, newest first, then by id; filtered by chain, states and id",
  ],
  [
    "filters runs by state after it limits the page",
    class extends Driver {
      override async runs({ states, ...query }: RunQuery): Promise<StoredRun[]> {
        return (await super.runs(query)).filter(({ run }) => !states || states.includes(run.state));
      }
    },
    "runs: sorted by startedAt, newest first, then by id; filtered by chain, states and id",
  ],
  [
    "starts a page of runs with the last run of the previous page",
    class extends Driver {
      override runs({ before, ...query }: RunQuery): Promise<StoredRun[]> {
        return super.runs(before ? { ...query, before: { ...before, id: `${before.id}~` } } : query);
      }
    },
    "runs: pages that continue after an entry contain every run once",
  ],
  [
    "returns the current lease holder as the holder of every run",
    class extends Driver {
      override async runs(query: RunQuery): Promise<StoredRun[]> {
        const getHolder = (root: string) => this.memory.leases.get(root)?.holder ?? null;
        return (await super.runs(query)).map(({ run }) => ({ run, holder: getHolder(run.sessionId) }));
      }
    },
    "runs: a run has no holder after its lease is replaced, until the new holder writes it",
  ],
  [
    "treats an expired holder as active",
    class extends Driver {
      override async runs(query: RunQuery): Promise<StoredRun[]> {
        for (const lease of this.memory.leases.values()) lease.expiresAt = new Date(Date.now() + 9999).toISOString();
        return super.runs(query);
      }
    },
    "runs: a run has no holder after its lease expired",
  ],
  [
    "loses the holder of a run that was created with its session",
    class extends Driver {
      override async create(start: SessionStart): Promise<void> {
        await super.create(start);
        if (start.run) this.memory.runs.get(start.run.id)!.fence = null;
      }
    },
    "runs: every driver returns the holder of a run while the lease of its last write is active",
  ],
  [
    "keeps the runs of a deleted chain",
    class extends Driver {
      override async delete(ids: readonly string[]): Promise<void> {
        const runs = this.memory.runs.values();
        await super.delete(ids);
        for (const storedRun of runs) this.memory.runs.set(storedRun.run.id, storedRun);
      }
    },
    "runs: a delete of a chain, by any id of the chain, deletes its runs and frees their ids and keys",
  ],
  [
    "creates a session although its run is rejected",
    class extends Driver {
      override async create({ run, ...start }: SessionStart): Promise<void> {
        await super.create(start);
        if (run) await this.write(start.session.id, { fence: start.fence ?? null, sync: true, runs: [run] });
      }
    },
    "runs: an idempotency key is unique in the store; a call that is rejected for it has no effect",
  ],
  [
    "omits runs from a dump",
    class extends Driver {
      override async dump(id: string): Promise<ChainData | undefined> {
        const data = await super.dump(id);
        return data && { ...data, runs: [] };
      }
    },
    "dump: returns the whole chain with hidden parts, for any id of the chain; undefined for an unknown id",
  ],
  [
    "does not load the runs of a chain",
    class extends Driver {
      override load(chain: ChainData): Promise<void> {
        return super.load({ ...chain, runs: [] });
      }
    },
    "load: restores a dumped and deleted chain, which can be continued",
  ],
  [
    "returns the whole conversation in the head of a follow-up",
    class extends Driver {
      override async head(id: string): Promise<ChainHead | undefined> {
        const head = await super.head(id);
        return head && { ...head, messages: await this.messages(head.root.id, { scope: "chain" }) };
      }
    },
    "head: messages of a follow-up are its view and its own messages, not earlier ones",
  ],
  [
    "returns a head from two separate reads",
    class extends Driver {
      override async head(id: string): Promise<ChainHead | undefined> {
        const head = await super.head(id);
        await waitForTick();
        return head && { ...head, messages: (await super.head(id))?.messages ?? [] };
      }
    },
    "head: contains each concurrent change completely or not at all",
  ],
  [
    "returns ended runs in the head",
    class extends Driver {
      override async head(id: string): Promise<ChainHead | undefined> {
        const head = await super.head(id);
        const allRuns = head && (await this.runs({ sessionId: head.root.id, limit: 99 }));
        return head && { ...head, unfinished: (allRuns ?? []).map(({ run }) => run) };
      }
    },
    "head: returns original, newest, the messages for the model, snapshots and unfinished runs",
  ],
  [
    "returns the original as the newest in the head",
    class extends Driver {
      override async head(id: string): Promise<ChainHead | undefined> {
        const head = await super.head(id);
        return head && { ...head, newest: head.root };
      }
    },
    "head: reflects reverts and restores of the chain",
  ],
  [
    "replaces any lease if `fenceToReplace` is set",
    class extends Driver {
      override lease(...[root, holder, ttl, options]: Parameters<MemoryDriver["lease"]>) {
        const fence = this.memory.leases.get(root)?.fence;
        const isReplacementRequested = options?.fenceToReplace !== undefined && fence !== undefined;
        return super.lease(root, holder, ttl, isReplacementRequested ? { ...options, fenceToReplace: fence } : options);
      }
    },
    "lease: `fenceToReplace` replaces the lease of that fence at once, and no other",
  ],
  [
    "never replaces an active lease",
    class extends Driver {
      override lease(...[root, holder, ttl]: Parameters<MemoryDriver["lease"]>) {
        return super.lease(root, holder, ttl);
      }
    },
    "lease: `fenceToReplace` replaces the lease of that fence at once, and no other",
  ],
  [
    "replaces a lease some time after it checked the fence",
    class extends Driver {
      override async lease(...[root, holder, ttl, options]: Parameters<MemoryDriver["lease"]>) {
        const earlierFence = this.memory.leases.get(root)?.fence;
        await waitForTick();
        const fence = this.memory.leases.get(root)?.fence;
        const hasExpectedFence = earlierFence === options?.fenceToReplace && fence !== undefined;
        return super.lease(root, holder, ttl, hasExpectedFence ? { ...options, fenceToReplace: fence } : {});
      }
    },
    "lease: of concurrent calls that replace the same dead holder through two drivers, exactly one succeeds",
  ],
  [
    "creates a session with any fence",
    class extends Driver {
      override create(start: SessionStart): Promise<void> {
        return super.create({ ...start, fence: null });
      }
    },
    "lease: can be acquired before its session exists; create rejects another fence",
  ],
  [
    "returns a dump from two separate reads",
    class extends Driver {
      override async dump(id: string): Promise<ChainData | undefined> {
        const data = await super.dump(id);
        await waitForTick();
        return data && { ...data, runs: (await super.dump(id))?.runs ?? [] };
      }
    },
    "dump: contains each concurrent change completely or not at all",
  ],
  [
    "keeps the lease of a session that was never created",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        if (!this.memory.sessions.has(id)) throw new SessionNotFoundError(id);
        return super.write(id, change);
      }
    },
    "release: a change with `release` alone releases the lease of a session that was never created",
  ],
  [
    "reports no error for the release of a lease that is not held",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<ChangeResult> {
        const emptyResult = { instructions: [], consumedInstructions: [] };
        return super.write(id, change).catch((error: unknown) => {
          if (change.release && !change.add) return emptyResult;
          throw error;
        });
      }
    },
    "release: the lease is free, its fence is invalid, and the next fence is greater",
  ],
  [
    "answers asks of other chains",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<ChangeResult> {
        const root = this.memory.asks.get(change.answer?.askId ?? "")?.sessionId;
        return super.write(root ?? id, change);
      }
    },
    "answers an ask by any id of its chain, and none of another chain",
  ],
  [
    "answers an ask before it validates the change",
    class extends Driver {
      override async write(id: string, { answer, ...change }: SessionChange): Promise<ChangeResult> {
        const answerResult = answer && (await super.write(id, { fence: null, sync: false, answer }));
        return { ...(await super.write(id, change)), ...(answerResult?.answer && { answer: answerResult.answer }) };
      }
    },
    "write: a rejected change never releases the lease",
  ],
  [
    "reports every instruction that a change names as consumed",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        return { ...(await super.write(id, change)), consumedInstructions: [...(change.consumedInstructions ?? [])] };
      }
    },
    "returns which instructions a change removed, and removes none of another chain",
  ],
  [
    "ignores the other filters in a query for a run's id",
    class extends Driver {
      override runs(query: RunQuery): Promise<StoredRun[]> {
        return super.runs(query.id === undefined ? query : { id: query.id, limit: query.limit });
      }
    },
    "runs: sorted by startedAt, newest first, then by id; filtered by chain, states and id",
  ],
  [
    "ignores the id in a query for asks",
    class extends Driver {
      override asks({ id: _, ...query }: AskQuery): Promise<Ask[]> {
        return super.asks(query);
      }
    },
    "stores all fields of an ask under the lease, and finds it by its id and by any id of the chain",
  ],
  [
    "returns no snapshots in the head of a lease",
    class extends Driver {
      override async lease(...args: Parameters<MemoryDriver["lease"]>) {
        const lease = await super.lease(...args);
        return "head" in lease && lease.head ? { ...lease, head: { ...lease.head, snapshots: [] } } : lease;
      }
    },
    "lease: returns the chain's head on request, in its state under the lease",
  ],
  [
    "needs one close for each open",
    class extends Driver {
      #openCount = 0;
      override async open(): Promise<void> {
        this.#openCount++;
        await super.open();
      }
      override async close(): Promise<void> {
        if (--this.#openCount <= 0) await super.close();
      }
    },
    "open: repeated and concurrent calls have no effect; one close closes, and open reopens",
  ],
];

/** A correct search, apart from the fault of a subclass. */
class SearchingDriver extends Driver {
  searchMessages(query: MessageSearchQuery): Promise<MessageSearchPage> {
    return scanMessages(this, query);
  }
}

FAULTY_DRIVERS.push(
  [
    "compares case in a search",
    class extends SearchingDriver {
      override async searchMessages(query: MessageSearchQuery): Promise<MessageSearchPage> {
        const page = await super.searchMessages(query);
        const words = query.text.split(/\W+/);
        const hasWords = (snippet: string): boolean => words.every((word) => snippet.includes(word));
        return { ...page, matches: page.matches.filter(({ snippet }) => hasWords(snippet)) };
      }
    },
    "search: finds messages with all words, in any order, ignoring case and accents; the last word may be a start",
  ],
  [
    "treats the text of a search as an expression",
    class extends SearchingDriver {
      override async searchMessages({ text, ...query }: MessageSearchQuery): Promise<MessageSearchPage> {
        if ((text.match(/"/g)?.length ?? 0) % 2 === 1) throw new Error("syntax error");
        return super.searchMessages({ ...query, text: text.replaceAll(" AND ", " ") });
      }
    },
    "search: operators, quotes and wildcards have no meaning; a text without words finds nothing",
  ],
  [
    "finds messages that a revert hides",
    class extends SearchingDriver {
      override async messages(id: string, query: MessageQuery = {}): Promise<Message[]> {
        const { sessions = [] } = (await this.dump(id)) ?? {};
        const { before = Infinity } = query;
        return sessions
          .flatMap(({ messages }) => messages.map(({ message }) => message))
          .filter(({ seq }) => seq < before);
      }
    },
    "search: never finds hidden messages, and finds restored ones",
  ],
  [
    "finds messages of deleted sessions",
    class extends SearchingDriver {
      readonly #pagesByText = new Map<string, MessageSearchPage>();
      override async searchMessages(query: MessageSearchQuery): Promise<MessageSearchPage> {
        const page = this.#pagesByText.get(query.text) ?? (await super.searchMessages(query));
        this.#pagesByText.set(query.text, page);
        return page;
      }
    },
    "search: never finds deleted sessions, also if their ids are used again",
  ],
  [
    "searches the text of a growing message only at its start",
    class extends SearchingDriver {
      override async searchMessages(query: MessageSearchQuery): Promise<MessageSearchPage> {
        const page = await super.searchMessages(query);
        const texts = await Promise.all(page.matches.map(({ sessionId }) => this.messages(sessionId)));
        const isFinished = (id: string): boolean =>
          texts.flat().some((message) => message.id === id && message.finished);
        return { ...page, matches: page.matches.filter(({ messageId }) => isFinished(messageId)) };
      }
    },
    "search: finds the current text of growing messages, also of a crashed process",
  ],
  [
    "searches archived sessions, whatever the query says",
    class extends SearchingDriver {
      override searchMessages({ archived: _, ...query }: MessageSearchQuery): Promise<MessageSearchPage> {
        return super.searchMessages(query);
      }
    },
    "search: filters by folder and archive state, and omits sessions of subagents",
  ],
  [
    "starts each page of a search with the last match of the previous page",
    class extends SearchingDriver {
      override async searchMessages(query: MessageSearchQuery): Promise<MessageSearchPage> {
        const page = await super.searchMessages(query);
        const [matches, lastMatch] = [page.matches, page.matches.at(-1)];
        return query.before !== undefined && lastMatch ? { ...page, matches: [lastMatch, ...matches.slice(1)] } : page;
      }
    },
    "search: pages contain every match once, newest first, despite writes",
  ],
  [
    "returns the offset of a word in the message as a range",
    class extends SearchingDriver {
      override async searchMessages(query: MessageSearchQuery): Promise<MessageSearchPage> {
        const page = await super.searchMessages(query);
        const shift = ([start, end]: readonly [number, number]): [number, number] => [start + 200, end + 200];
        return { ...page, matches: page.matches.map((match) => ({ ...match, ranges: match.ranges.map(shift) })) };
      }
    },
    "search: a match has the fields of its message, and a snippet with the ranges of the words",
  ],
  [
    "ignores the cursor of a search",
    class extends SearchingDriver {
      override searchMessages({ before: _, ...query }: MessageSearchQuery): Promise<MessageSearchPage> {
        return super.searchMessages(query);
      }
    },
    "search: rejects an invalid cursor and an aborted signal",
  ],
  [
    "indexes only words of ASCII letters",
    class extends SearchingDriver {
      override async searchMessages(query: MessageSearchQuery): Promise<MessageSearchPage> {
        return /^\p{ASCII}*$/u.test(query.text) ? super.searchMessages(query) : { matches: [], isIncomplete: false };
      }
    },
    "search: finds parts of names, and words of every script",
  ],
  [
    "updates its index after a search instead of before",
    class extends SearchingDriver {
      #nextResult: Promise<MessageSearchPage> | undefined;
      override searchMessages(query: MessageSearchQuery): Promise<MessageSearchPage> {
        const result = this.#nextResult ?? super.searchMessages(query);
        this.#nextResult = super.searchMessages(query);
        this.#nextResult.catch(() => undefined);
        return result;
      }
    },
    "search: sees every earlier change of all drivers, while drivers write and search concurrently",
  ],
);

FAULTY_DRIVERS.push(
  [
    "lists all sessions for every user",
    class extends Driver {
      override list({ visibleTo: _, ...query }: SessionQuery): Promise<SessionPage> {
        return super.list(query);
      }
    },
    "users: a list with `visibleTo` has the user's own and shared sessions, with each other filter, and a total",
  ],
  [
    "counts the sessions of all users",
    class extends Driver {
      override async list(query: SessionQuery): Promise<SessionPage> {
        const { visibleTo: _, ...countQuery } = query;
        return { ...(await super.list(query)), total: (await super.list(countQuery)).total };
      }
    },
    "users: a list with `visibleTo` has the user's own and shared sessions, with each other filter, and a total",
  ],
  [
    "removes the sessions of other users from a complete page",
    class extends Driver {
      override async list({ visibleTo, ...query }: SessionQuery): Promise<SessionPage> {
        const page = await super.list(query);
        const isVisible = ({ owner, shared }: Session): boolean => owner === visibleTo || shared === true;
        const sessions = page.sessions.filter((session) => visibleTo === undefined || isVisible(session));
        return {
          sessions,
          total: (await super.list({ ...query, ...(visibleTo !== undefined && { visibleTo }) })).total,
        };
      }
    },
    "users: a list with `visibleTo` has the user's own and shared sessions, with each other filter, and a total",
  ],
  [
    "lists all sessions of a subagent's parent for every user",
    class extends Driver {
      override list({ visibleTo, ...query }: SessionQuery): Promise<SessionPage> {
        const needsFilter = visibleTo !== undefined && query.spawnedBy === undefined;
        return super.list(needsFilter ? { ...query, visibleTo } : query);
      }
    },
    "users: sessions of subagents are visible by their own owner and flag",
  ],
  [
    "finds a run by its id or key for every user",
    class extends Driver {
      override runs({ visibleTo, ...query }: RunQuery): Promise<StoredRun[]> {
        const isLookup = query.id !== undefined || query.idempotencyKey !== undefined;
        return super.runs(visibleTo === undefined || isLookup ? query : { ...query, visibleTo });
      }
    },
    "users: runs with `visibleTo` are those of visible sessions, in every form of the query",
  ],
  [
    "lists the asks of all users",
    class extends Driver {
      override asks({ visibleTo: _, ...query }: AskQuery): Promise<Ask[]> {
        return super.asks(query);
      }
    },
    "users: asks with `visibleTo` are those of visible sessions, in every form of the query",
  ],
  [
    "searches the messages of all users",
    class extends SearchingDriver {
      override searchMessages({ visibleTo: _, ...query }: MessageSearchQuery): Promise<MessageSearchPage> {
        return super.searchMessages(query);
      }
    },
    "users: a search with `visibleTo` finds messages of visible sessions, on every page",
  ],
  [
    "shares only the session of a change, not the first one of its chain",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const original = await this.get((await this.get(id))?.chain.root ?? "");
        const result = await super.write(id, change);
        if (change.set?.shared === undefined || !original || original.id === id) return result;
        await super.write(original.id, { fence: null, sync: false, set: { shared: original.shared ?? false } });
        return result;
      }
    },
    "users: the first session of a chain decides, also after follow-ups and reverts; `shared` of any session changes it",
  ],
  [
    "loses the owner in a load",
    class extends Driver {
      override load(chain: ChainData): Promise<void> {
        const sessions = chain.sessions.map((data) => {
          const { owner: _, ...session } = data.session;
          return { ...data, session };
        });
        return super.load({ ...chain, sessions });
      }
    },
    "users: owner and `shared` stay in a head, a dump and a load; a session without an owner has no field",
  ],
  [
    "caches a user's sessions",
    class extends Driver {
      readonly #pagesByUser = new Map<string, SessionPage>();
      override async list(query: SessionQuery): Promise<SessionPage> {
        const { visibleTo = "" } = query;
        const page = this.#pagesByUser.get(visibleTo) ?? (await super.list(query));
        this.#pagesByUser.set(visibleTo, page);
        return page;
      }
    },
    "users: a list sees each change of `shared` by another driver",
  ],
);

/** File descriptors that a wrong driver leaves open. */
const openFileDescriptors: number[] = [];
after(() => openFileDescriptors.forEach((fileDescriptor) => closeSync(fileDescriptor)));

class LeakingDriver extends Driver {
  override async open(): Promise<void> {
    openFileDescriptors.push(openSync(fileURLToPath(import.meta.url), "r"));
    await super.open();
  }
}

class UnsyncedDriver extends Driver {
  synced(): Promise<void> {
    return new Promise(() => undefined);
  }
}

/** A driver that ignores users, and does not claim to separate them. */
class UnseparatedDriver extends Driver {
  // The type of the port allows false.
  override readonly separatesUsers = false as never;
  override list({ visibleTo: _, ...query }: SessionQuery): Promise<SessionPage> {
    return super.list(query);
  }
}

describe("the session driver checks", () => {
  for (const [fault, WrongDriver, check] of FAULTY_DRIVERS)
    it(`catches a driver that ${fault}`, () => assertCheckRejects(createChecks(WrongDriver), check));

  it("catches a driver that leaks a file on each open", { skip: process.platform !== "linux" }, () =>
    assertCheckRejects(
      createChecks(LeakingDriver, { timeoutMs: 20_000 }),
      "close: leaves no file and no connection open",
    ),
  );

  it("need no separation of users without `separatesUsers`", async () => {
    const checks = createChecks(UnseparatedDriver).filter(({ group }) => group === "users");
    assert.ok(checks.length > 0);
    for (const check of checks) await check.run();
  });

  it("catches a driver whose synced() never resolves", () =>
    assertCheckRejects(
      createChecks(UnsyncedDriver, { timeoutMs: 500 }),
      "synced: if present, resolves when all writes are on disk, also if there are none",
    ));

  it("catches a driver that loses all data on close", () =>
    assertCheckRejects(createChecks(Driver, { losesData: true }), "reopen: the store keeps all data"));

  it("catches a driver with a separate store for each process", () =>
    assertCheckRejects(
      createChecks(Driver, { hasSeparateStores: true }),
      "two drivers on one store see each other's changes as soon as the calls have settled",
    ));
});
