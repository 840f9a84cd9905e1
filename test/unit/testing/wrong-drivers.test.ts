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
  MessagePage,
  RunQuery,
  SessionChange,
  SessionPage,
  SessionQuery,
  SessionStart,
  StoredRun,
} from "gantry/plugin";
import { sessionDriverChecks, type Check } from "gantry/testing";
import { assertCaught } from "../../helpers/caught.js";
import { Tables } from "../../helpers/tables.js";
import { keys } from "../../../src/sessions/documents/keys.js";

/** A correct driver, apart from the fault of a subclass. */
class Driver extends MemoryDriver {
  readonly memory: Tables;
  constructor(memory: Tables) {
    super(memory);
    this.memory = memory;
  }
  stored(id: string): Session {
    return this.memory.sessions.get(id)!.session;
  }
}

type Made = new (memory: Tables) => Driver;

function checksOf(Wrong: Made, faults: { forgets?: boolean; apart?: boolean; timeoutMs?: number } = {}): Check[] {
  let memory = new Tables();
  const opened = async (on: Tables): Promise<Driver> => {
    const driver = new Wrong(on);
    await driver.open();
    return driver;
  };
  return sessionDriverChecks({
    create: () => opened((memory = new Tables())),
    second: () => opened(faults.apart ? new Tables() : memory),
    reopen: () => opened(faults.forgets ? new Tables() : memory),
    clean: () => Promise.resolve(),
    ...(faults.timeoutMs !== undefined && { timeoutMs: faults.timeoutMs }),
  });
}

const tick = () => new Promise((resolve) => setImmediate(resolve));

/** Description of the fault, the driver, and the check that must fail. */
const WRONG: [what: string, Wrong: Made, check: string][] = [
  [
    "loses the alias",
    class extends Driver {
      override async get(id: string): Promise<Session | undefined> {
        const session = await super.get(id);
        return session?.id === id ? session : undefined;
      }
    },
    "get: by id, by alias, undefined for what there is not",
  ],
  [
    "lets two sessions have one alias",
    class extends Driver {
      override async create(start: SessionStart) {
        this.memory.put(keys.alias(start.session.alias), "", null);
        await super.create(start);
      }
    },
    "create: an alias is unique over aliases and ids",
  ],
  [
    "lists the oldest first",
    class extends Driver {
      override async list(query: SessionQuery): Promise<SessionPage> {
        const page = await super.list(query);
        return { ...page, sessions: page.sessions.reverse() };
      }
    },
    "list: newest updatedAt first, ties by id, greatest first",
  ],
  [
    "lists follow-ups",
    class extends Driver {
      override async list(query: SessionQuery): Promise<SessionPage> {
        const page = await super.list(query);
        const all = this.memory.sessions.values().map(({ session }) => session);
        return { ...page, sessions: [...page.sessions, ...all.filter(({ chain }) => chain.index > 0)] };
      }
    },
    "list: follow-ups are neither listed nor counted",
  ],
  [
    "counts the page, not all",
    class extends Driver {
      override async list(query: SessionQuery): Promise<SessionPage> {
        const page = await super.list(query);
        return { ...page, total: page.sessions.length };
      }
    },
    "list: pages by offset hold every session once; total is of all",
  ],
  [
    "takes `%` in a search for a wildcard",
    class extends Driver {
      override list(query: SessionQuery): Promise<SessionPage> {
        return super.list({ ...query, ...(query.search?.includes("%") ? { search: "" } : {}) });
      }
    },
    "list: search finds a part of the title, without regard to case, and means every character literally",
  ],
  [
    "knows the case of ASCII alone",
    class extends Driver {
      override list(query: SessionQuery): Promise<SessionPage> {
        const isAscii = /^[\x20-\x7e]*$/.test(query.search ?? "");
        return isAscii ? super.list(query) : Promise.resolve({ sessions: [], total: 0 });
      }
    },
    "list: search finds a part of the title, without regard to case, and means every character literally",
  ],
  [
    "ignores the fence",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<ChangeResult> {
        return super.write(id, { ...change, fence: null });
      }
    },
    "lease: a holder whose time ran out is replaced, and its writes are refused from then on",
  ],
  [
    "gives a lease to everyone",
    class extends Driver {
      override lease(...[root, holder, ttl]: Parameters<MemoryDriver["lease"]>) {
        return super.lease(root, holder, ttl, { fenceToReplace: this.memory.leases.get(root)?.fence ?? 0 });
      }
    },
    "lease: one holder at a time; other callers receive the current lease",
  ],
  [
    "uses a fence again",
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
    "shows half of a change",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const [first, ...laterMessages] = change.add ?? [];
        if (first) await super.write(id, { fence: null, sync: false, add: [first] });
        await tick();
        return super.write(id, { ...change, add: laterMessages });
      }
    },
    "a reader never sees half of a change",
  ],
  [
    "reads, thinks, and writes back: usage is lost",
    class extends Driver {
      override async write(id: string, { usage, ...change }: SessionChange): Promise<ChangeResult> {
        const before = (await this.get(id))?.usage;
        await tick();
        const result = await super.write(id, change);
        if (!usage || !before) return result;
        for (const key of ["promptTokens", "completionTokens", "totalTokens", "cost"] as const)
          this.stored(id).usage = { ...this.stored(id).usage, [key]: before[key] + usage[key] };
        return result;
      }
    },
    "two drivers that write one session at once: usage adds up, every seq has one winner",
  ],
  [
    "overlaps its pages of messages",
    class extends Driver {
      override messages(id: string, page: MessagePage = {}): Promise<Message[]> {
        return super.messages(id, page.after === undefined ? page : { ...page, after: page.after - 1 });
      }
    },
    "messages: pages both ways, always in ascending order",
  ],
  [
    "orders messages by the clock",
    class extends Driver {
      override async messages(id: string, page: MessagePage = {}): Promise<Message[]> {
        const foundMessages = await super.messages(id, page);
        return foundMessages.sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
      }
    },
    "messages: in seq order, regardless of creation times and insertion order",
  ],
  [
    "shows what was cut",
    class extends Driver {
      override async messages(id: string, page: MessagePage = {}): Promise<Message[]> {
        const stored = this.memory.sessions.get(id)?.chain.messages ?? [];
        return page.limit === undefined ? stored : super.messages(id, page);
      }
    },
    "messages: cut ones are left out of pages",
  ],
  [
    "lets updatedAt go back",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const result = await super.write(id, change);
        if (change.set?.updatedAt !== undefined) this.stored(id).updatedAt = change.set.updatedAt;
        return result;
      }
    },
    "write: updatedAt never decreases; the other fields of such a change apply",
  ],
  [
    "forgets snapshots",
    class extends Driver {
      override async head(...args: Parameters<MemoryDriver["head"]>): Promise<ChainHead | undefined> {
        const head = await super.head(...args);
        return head && { ...head, snapshots: [] };
      }
    },
    "revert: hides messages after a point under a snapshot, in this chain only",
  ],
  [
    "uses the seq of a cut message again",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const result = await super.write(id, change);
        if (change.revert) this.stored(id).lastSeq = change.revert.after;
        return result;
      }
    },
    "revert: across a chain hides later sessions too; its session becomes the newest, with the chain's lastSeq",
  ],
  [
    "keeps a snapshot that was restored",
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
    "leaves a session whose messages were refused",
    class extends Driver {
      override async create({ messages, ...start }: SessionStart) {
        await super.create(start);
        if (messages) await super.write(start.session.id, { fence: null, sync: true, add: messages });
      }
    },
    "create: messages with the same seq are refused, and no session is left",
  ],
  [
    "hands out its own objects",
    class extends Driver {
      override async get(id: string): Promise<Session | undefined> {
        return (await super.get(id)) && this.stored(id);
      }
    },
    "what a caller does to its objects afterwards does not reach the store",
  ],
  [
    "deletes one session of a chain",
    class extends Driver {
      override async delete(ids: readonly string[]): Promise<void> {
        for (const id of ids) this.memory.sessions.delete(id);
      }
    },
    "delete: any id of a chain deletes the whole chain with hidden sessions and snapshots, and no other",
  ],
  [
    "joins the parts of a growing message",
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
        if (change.usage) this.stored(id).usage = { ...change.usage };
        return result;
      }
    },
    "write: usage is added up",
  ],
  [
    "forgets the view",
    class extends Driver {
      override create({ view: _, ...start }: SessionStart): Promise<void> {
        return super.create(start);
      }
    },
    "head: a follow-up's view and what was said in it, and nothing of what was said before",
  ],
  [
    "takes the session that is asked for for the newest",
    class extends Driver {
      override async head(id: string): Promise<ChainHead | undefined> {
        const [head, newest] = [await super.head(id), await this.get(id)];
        return head && newest && { ...head, newest };
      }
    },
    "head: its newest has the greatest index of the chain, by any id of it; undefined for an unknown one",
  ],
  [
    "cannot be closed twice",
    class extends Driver {
      #closed = false;
      override async close(): Promise<void> {
        if (this.#closed) throw new Error("closed already");
        this.#closed = true;
        await super.close();
      }
      override async open(): Promise<void> {
        this.#closed = false;
        await super.open();
      }
    },
    "close: safe to call twice; afterwards every method rejects with StoreError",
  ],
  [
    "leaves hidden messages out of a dump",
    class extends Driver {
      override async dump(id: string): Promise<ChainData | undefined> {
        const data = await super.dump(id);
        for (const session of data?.sessions ?? [])
          session.messages = session.messages.filter(({ hiddenBy: cut }) => cut === "");
        return data;
      }
    },
    "dump: all of a chain, hidden parts included, by any id of it; undefined for an unknown one",
  ],
  [
    "loads half of a chain whose ids are taken",
    class extends Driver {
      override async load({ sessions, ...otherData }: ChainData): Promise<void> {
        const [first, ...laterSessions] = sessions;
        if (first) await super.load({ sessions: [first], ...otherData });
        for (const { session, view } of laterSessions) await this.create({ session, view });
      }
    },
    "load: rejected without any effect if an id, an alias or a run's id or key is taken",
  ],
  [
    "gives one key to two runs",
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
    "runs: a key is unique in the store; what is refused for it leaves nothing",
  ],
  [
    "looks for a key, thinks, and writes",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const keys = this.memory.runs.values().map(({ run }) => run.idempotencyKey);
        if (change.runs?.some(({ idempotencyKey: key }) => keys.includes(key))) return super.write(id, change);
        await tick();
        const result = await super.write(id, {
          ...change,
          runs: change.runs?.map((run) => ({ ...run, idempotencyKey: "" })) ?? [],
        });
        for (const run of change.runs ?? []) this.memory.runs.get(run.id)!.run.idempotencyKey = run.idempotencyKey;
        return result;
      }
    },
    "runs: of many that come with one key at once through two drivers, one is stored",
  ],
  [
    "keeps a run that is there",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<ChangeResult> {
        const runs = change.runs?.filter((run) => !this.memory.runs.has(run.id)) ?? [];
        return super.write(id, { ...change, runs });
      }
    },
    "runs: put again replaces the one of its id, whatever changed",
  ],
  [
    "lets a chain take another's run",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<ChangeResult> {
        for (const run of change.runs ?? []) this.memory.runs.delete(run.id);
        return super.write(id, change);
      }
    },
    "runs: the id of another chain's run is refused, and that run stays",
  ],
  [
    "keeps runs of the session alone",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const result = await super.write(id, change);
        for (const run of change.runs ?? []) this.memory.runs.get(run.id)!.run.sessionId = id;
        return result;
      }
    },
    "runs: of a follow-up they are the chain's, under its original's id, whatever the record says",
  ],
  [
    "lists the oldest runs first",
    class extends Driver {
      override async runs(query: RunQuery): Promise<StoredRun[]> {
        return (await super.runs(query)).reverse();
      }
    },
    "runs: newest startedAt first, ties by id, greatest first, of one chain or of all, of some states or of any",
  ],
  [
    "takes no states for all states",
    class extends Driver {
      override runs({ states, ...query }: RunQuery): Promise<StoredRun[]> {
        return super.runs(states && states.length > 0 ? { ...query, states } : query);
      }
    },
    "runs: newest startedAt first, ties by id, greatest first, of one chain or of all, of some states or of any",
  ],
  [
    "takes a page of runs first, and then those of the states asked for",
    class extends Driver {
      override async runs({ states, ...query }: RunQuery): Promise<StoredRun[]> {
        return (await super.runs(query)).filter(({ run }) => !states || states.includes(run.state));
      }
    },
    "runs: newest startedAt first, ties by id, greatest first, of one chain or of all, of some states or of any",
  ],
  [
    "begins a page of runs with its last one",
    class extends Driver {
      override runs({ before, ...query }: RunQuery): Promise<StoredRun[]> {
        return super.runs(before ? { ...query, before: { ...before, id: `${before.id}~` } } : query);
      }
    },
    "runs: pages from a known entry hold every run once",
  ],
  [
    "takes whoever holds the lease now for the holder of every run",
    class extends Driver {
      override async runs(query: RunQuery): Promise<StoredRun[]> {
        const holderOf = (root: string) => this.memory.leases.get(root)?.holder ?? null;
        return (await super.runs(query)).map(({ run }) => ({ run, holder: holderOf(run.sessionId) }));
      }
    },
    "runs: a lease that changed hands holds none of the runs that were written before",
  ],
  [
    "takes a holder whose time ran out for one that holds",
    class extends Driver {
      override async runs(query: RunQuery): Promise<StoredRun[]> {
        for (const lease of this.memory.leases.values()) lease.expiresAt = new Date(Date.now() + 9999).toISOString();
        return super.runs(query);
      }
    },
    "runs: a run has no holder after its lease expired",
  ],
  [
    "forgets the holder of a run that began with its session",
    class extends Driver {
      override async create(start: SessionStart): Promise<void> {
        await super.create(start);
        if (start.run) this.memory.runs.get(start.run.id)!.fence = null;
      }
    },
    "runs: every driver returns the holder of a run while the lease of its last write is active",
  ],
  [
    "leaves the runs of a chain that was deleted",
    class extends Driver {
      override async delete(ids: readonly string[]): Promise<void> {
        const runs = this.memory.runs.values();
        await super.delete(ids);
        for (const stored of runs) this.memory.runs.set(stored.run.id, stored);
      }
    },
    "runs: go with their chain, by any id of it, and their ids and keys are free",
  ],
  [
    "leaves a session whose run was refused",
    class extends Driver {
      override async create({ run, ...start }: SessionStart): Promise<void> {
        await super.create(start);
        if (run) await this.write(start.session.id, { fence: start.fence ?? null, sync: true, runs: [run] });
      }
    },
    "runs: a key is unique in the store; what is refused for it leaves nothing",
  ],
  [
    "leaves runs out of a dump",
    class extends Driver {
      override async dump(id: string): Promise<ChainData | undefined> {
        const data = await super.dump(id);
        return data && { ...data, runs: [] };
      }
    },
    "dump: all of a chain, hidden parts included, by any id of it; undefined for an unknown one",
  ],
  [
    "forgets the runs of a chain that it takes in",
    class extends Driver {
      override load(chain: ChainData): Promise<void> {
        return super.load({ ...chain, runs: [] });
      }
    },
    "load: what was dumped, deleted and loaded again is the same chain, and goes on",
  ],
  [
    "goes on from the whole conversation",
    class extends Driver {
      override async head(id: string): Promise<ChainHead | undefined> {
        const head = await super.head(id);
        return head && { ...head, messages: await this.messages(head.original.id, { scope: "chain" }) };
      }
    },
    "head: a follow-up's view and what was said in it, and nothing of what was said before",
  ],
  [
    "gathers the head in several looks",
    class extends Driver {
      override async head(id: string): Promise<ChainHead | undefined> {
        const head = await super.head(id);
        await tick();
        return head && { ...head, messages: (await super.head(id))?.messages ?? [] };
      }
    },
    "head: is of one moment, whatever is written meanwhile",
  ],
  [
    "tells runs that have ended of the head",
    class extends Driver {
      override async head(id: string): Promise<ChainHead | undefined> {
        const head = await super.head(id);
        const all = head && (await this.runs({ sessionId: head.original.id, limit: 99 }));
        return head && { ...head, unfinished: (all ?? []).map(({ run }) => run) };
      }
    },
    "head: the original, the newest, what a model needs of it, and the runs that are not known to have ended",
  ],
  [
    "takes the original for the head's newest",
    class extends Driver {
      override async head(id: string): Promise<ChainHead | undefined> {
        const head = await super.head(id);
        return head && { ...head, newest: head.original };
      }
    },
    "head: of a chain that was cut, what is left; of one that was restored, all of it",
  ],
  [
    "replaces whoever holds a lease when somebody is to be replaced",
    class extends Driver {
      override lease(...[root, holder, ttl, options]: Parameters<MemoryDriver["lease"]>) {
        const fence = this.memory.leases.get(root)?.fence;
        const isWanted = options?.fenceToReplace !== undefined && fence !== undefined;
        return super.lease(root, holder, ttl, isWanted ? { ...options, fenceToReplace: fence } : options);
      }
    },
    "lease: `fenceToReplace` replaces the lease of that fence at once, and no other",
  ],
  [
    "replaces nobody whose time runs",
    class extends Driver {
      override lease(...[root, holder, ttl]: Parameters<MemoryDriver["lease"]>) {
        return super.lease(root, holder, ttl);
      }
    },
    "lease: `fenceToReplace` replaces the lease of that fence at once, and no other",
  ],
  [
    "looks who is to be replaced, thinks, and replaces",
    class extends Driver {
      override async lease(...[root, holder, ttl, options]: Parameters<MemoryDriver["lease"]>) {
        const held = this.memory.leases.get(root)?.fence;
        await tick();
        const fence = this.memory.leases.get(root)?.fence;
        const isDead = held === options?.fenceToReplace && fence !== undefined;
        return super.lease(root, holder, ttl, isDead ? { ...options, fenceToReplace: fence } : {});
      }
    },
    "lease: of many that replace the same dead holder at once through two drivers, exactly one gets it",
  ],
  [
    "begins a session under any fence",
    class extends Driver {
      override create(start: SessionStart): Promise<void> {
        return super.create({ ...start, fence: null });
      }
    },
    "lease: of a session that does not exist yet; create uses its fence",
  ],
  [
    "dumps a chain in two looks",
    class extends Driver {
      override async dump(id: string): Promise<ChainData | undefined> {
        const data = await super.dump(id);
        await tick();
        return data && { ...data, runs: (await super.dump(id))?.runs ?? [] };
      }
    },
    "dump: is of one moment, whatever is written meanwhile",
  ],
  [
    "keeps the lease of a session that was never created",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        if (!this.memory.sessions.has(id)) throw new SessionNotFoundError(id);
        return super.write(id, change);
      }
    },
    "release: on its own releases the lease of a session that was never created",
  ],
  [
    "gives back nothing of a lease that is not held, and says nothing",
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
    "answers asks of every chain",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<ChangeResult> {
        const root = this.memory.asks.get(change.answer?.askId ?? "")?.sessionId;
        return super.write(root ?? id, change);
      }
    },
    "answers an ask by any id of its chain, and none of another chain",
  ],
  [
    "answers an ask before it judges the change",
    class extends Driver {
      override async write(id: string, { answer, ...change }: SessionChange): Promise<ChangeResult> {
        const first = answer && (await super.write(id, { fence: null, sync: false, answer }));
        return { ...(await super.write(id, change)), ...(first?.answer && { answer: first.answer }) };
      }
    },
    "write: a rejected change never releases the lease",
  ],
  [
    "tells every instruction that a change names as removed by it",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        return { ...(await super.write(id, change)), consumedInstructions: [...(change.consumedInstructions ?? [])] };
      }
    },
    "returns which instructions a change removed, and removes none of another chain",
  ],
  [
    "finds a run by its id, whatever else is asked for",
    class extends Driver {
      override runs(query: RunQuery): Promise<StoredRun[]> {
        return super.runs(query.id === undefined ? query : { id: query.id, limit: query.limit });
      }
    },
    "runs: newest startedAt first, ties by id, greatest first, of one chain or of all, of some states or of any",
  ],
  [
    "lists all asks for an id",
    class extends Driver {
      override asks({ id: _, ...query }: AskQuery): Promise<Ask[]> {
        return super.asks(query);
      }
    },
    "stores all fields of an ask under the lease, and finds it by its id and by any id of the chain",
  ],
  [
    "tells no snapshots with a lease",
    class extends Driver {
      override async lease(...args: Parameters<MemoryDriver["lease"]>) {
        const lease = await super.lease(...args);
        return "head" in lease && lease.head ? { ...lease, head: { ...lease.head, snapshots: [] } } : lease;
      }
    },
    "lease: returns the chain's head on request, in its state under the lease",
  ],
  [
    "counts how often it was opened",
    class extends Driver {
      #opens = 0;
      override async open(): Promise<void> {
        this.#opens++;
        await super.open();
      }
      override async close(): Promise<void> {
        if (--this.#opens <= 0) await super.close();
      }
    },
    "open: may be called again, also at once, and leaves the store as it was",
  ],
];

/** File descriptors that a wrong driver leaves open. */
const leftOpen: number[] = [];
after(() => leftOpen.forEach((file) => closeSync(file)));

class LeavesOpen extends Driver {
  override async open(): Promise<void> {
    leftOpen.push(openSync(fileURLToPath(import.meta.url), "r"));
    await super.open();
  }
}

class NeverSynced extends Driver {
  synced(): Promise<void> {
    return new Promise(() => undefined);
  }
}

describe("the driver kit catches a driver that", () => {
  for (const [what, Wrong, check] of WRONG) it(what, () => assertCaught(checksOf(Wrong), check));

  it("leaves a file open whenever it is opened", { skip: process.platform !== "linux" }, () =>
    assertCaught(checksOf(LeavesOpen, { timeoutMs: 20_000 }), "close: leaves no file and no connection open"),
  );

  it("never says that all is on the disk", () =>
    assertCaught(
      checksOf(NeverSynced, { timeoutMs: 500 }),
      "synced: if present, resolves when all writes are on disk, also without any",
    ));

  it("forgets all when it is closed", () =>
    assertCaught(checksOf(Driver, { forgets: true }), "reopen: everything is still there"));

  it("keeps a store for each process", () =>
    assertCaught(
      checksOf(Driver, { apart: true }),
      "two drivers on one store see each other's work as soon as it is done",
    ));
});
