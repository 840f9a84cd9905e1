import { describe, it } from "node:test";
import type {
  ChainData,
  Lease,
  Message,
  MessagePage,
  Session,
  SessionChange,
  SessionPage,
  SessionQuery,
  Snapshot,
} from "gantry";
import { MemoryDriver, MemoryStore, sessionDriverChecks, type Check } from "gantry/testing";
import { assertCaught } from "../helpers/caught.js";

/** A driver that is right but for what a subclass does wrong. */
class Driver extends MemoryDriver {
  readonly memory: MemoryStore;
  constructor(memory: MemoryStore) {
    super(memory);
    this.memory = memory;
  }
  stored(id: string): Session {
    return this.memory.sessions.get(id)!.session;
  }
}

type Made = new (memory: MemoryStore) => Driver;

function checksOf(Wrong: Made, faults: { forgets?: boolean; apart?: boolean } = {}): Check[] {
  let memory = new MemoryStore();
  const opened = async (on: MemoryStore): Promise<Driver> => {
    const driver = new Wrong(on);
    await driver.open();
    return driver;
  };
  return sessionDriverChecks({
    create: () => opened((memory = new MemoryStore())),
    second: () => opened(faults.apart ? new MemoryStore() : memory),
    reopen: () => opened(faults.forgets ? new MemoryStore() : memory),
    clean: () => Promise.resolve(),
  });
}

const tick = () => new Promise((resolve) => setImmediate(resolve));

/** What is wrong, the driver, and the check that must say so. */
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
      override async create(session: Session, messages?: readonly Message[], view?: readonly Message[]) {
        this.memory.aliases.delete(session.alias);
        await super.create(session, messages, view);
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
        const all = [...this.memory.sessions.values()].map(({ session }) => session);
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
        const known = /^[\x20-\x7e]*$/.test(query.search ?? "");
        return known ? super.list(query) : Promise.resolve({ sessions: [], total: 0 });
      }
    },
    "list: search finds a part of the title, without regard to case, and means every character literally",
  ],
  [
    "ignores the fence",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<void> {
        return super.write(id, { ...change, fence: null });
      }
    },
    "lease: a holder whose time ran out is replaced, and its writes are refused from then on",
  ],
  [
    "gives a lease to everyone",
    class extends Driver {
      override lease(...[root, holder, ttl]: Parameters<MemoryDriver["lease"]>) {
        return super.lease(root, holder, ttl, () => true);
      }
    },
    "lease: one holder at a time; others are told who has it",
  ],
  [
    "uses a fence again",
    class extends Driver {
      override async release(lease: Lease): Promise<void> {
        await super.release(lease);
        this.memory.fence = lease.fence - 1;
      }
    },
    "release: the lease is free, the fence is spent, and the next is greater",
  ],
  [
    "writes a change in two steps",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<void> {
        const { add, ...rest } = change;
        if (add) await super.write(id, { fence: null, sync: false, add });
        await super.write(id, rest);
      }
    },
    "write: a refused change leaves nothing of itself behind",
  ],
  [
    "shows half of a change",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<void> {
        const [first, ...rest] = change.add ?? [];
        if (first) await super.write(id, { fence: null, sync: false, add: [first] });
        await tick();
        await super.write(id, { ...change, add: rest });
      }
    },
    "a reader never sees half of a change",
  ],
  [
    "reads, thinks, and writes back: usage is lost",
    class extends Driver {
      override async write(id: string, { usage, ...change }: SessionChange): Promise<void> {
        const before = (await this.get(id))?.usage;
        await tick();
        await super.write(id, change);
        if (!usage || !before) return;
        for (const key of ["promptTokens", "completionTokens", "totalTokens", "cost"] as const)
          this.stored(id).usage = { ...this.stored(id).usage, [key]: before[key] + usage[key] };
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
        const found = await super.messages(id, page);
        return found.sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
      }
    },
    "messages: in seq order, whatever the clock said and in whichever order they came",
  ],
  [
    "shows what was cut",
    class extends Driver {
      override messages(id: string, page: MessagePage = {}): Promise<Message[]> {
        return super.messages(id, { ...page, includeCut: true });
      }
    },
    "messages: cut ones are left out of pages, and come when asked for",
  ],
  [
    "lets updatedAt go back",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<void> {
        await super.write(id, change);
        if (change.set?.updatedAt !== undefined) this.stored(id).updatedAt = change.set.updatedAt;
      }
    },
    "write: updatedAt never goes back, the rest of such a change counts",
  ],
  [
    "forgets snapshots",
    class extends Driver {
      override snapshots(): Promise<Snapshot[]> {
        return Promise.resolve([]);
      }
    },
    "cut: hides what is behind a point under a snapshot, in this chain alone",
  ],
  [
    "uses the seq of a cut message again",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<void> {
        await super.write(id, change);
        if (change.cut) this.stored(id).lastSeq = change.cut.after;
      }
    },
    "cut: across a chain hides later sessions too; the one it was made in is the newest, and its lastSeq is the chain's",
  ],
  [
    "keeps a snapshot that was restored",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<void> {
        const kept = this.memory.sessions.get(id)?.chain.snapshots.find((one) => one.id === change.restore);
        await super.write(id, change);
        if (kept) this.memory.sessions.get(id)?.chain.snapshots.push(kept);
      }
    },
    "restore: brings back what its cut hid, messages and sessions, and the snapshot is gone",
  ],
  [
    "leaves a session whose messages were refused",
    class extends Driver {
      override async create(session: Session, messages?: readonly Message[], view?: readonly Message[]) {
        await super.create(session, [], view);
        if (messages) await super.write(session.id, { fence: null, sync: true, add: messages });
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
    "delete: by any id of a chain the whole chain goes, cut sessions and snapshots included, and no other",
  ],
  [
    "joins the parts of a growing message",
    class extends Driver {
      override write(id: string, change: SessionChange): Promise<void> {
        const append = change.append?.map((delta) => ({ ...delta, part: 0 }));
        return super.write(id, { ...change, ...(append ? { append } : {}) });
      }
    },
    "write: a growing message gains text part by part",
  ],
  [
    "sets usage instead of adding it",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<void> {
        await super.write(id, change);
        if (change.usage) this.stored(id).usage = { ...change.usage };
      }
    },
    "write: usage is added up",
  ],
  [
    "forgets the view",
    class extends Driver {
      override view(): Promise<Message[]> {
        return Promise.resolve([]);
      }
    },
    "view: what a follow-up began with, apart from what was said in it; empty for others",
  ],
  [
    "takes the original for the newest",
    class extends Driver {
      override newest(rootId: string): Promise<Session | undefined> {
        const root = this.memory.sessions.get(rootId)?.session.chain.root;
        return root === undefined ? Promise.resolve(undefined) : this.get(root);
      }
    },
    "newest: the greatest index of the chain, by any id of it; undefined for an unknown one",
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
        for (const session of data?.sessions ?? []) session.messages = session.messages.filter(({ cut }) => cut === "");
        return data;
      }
    },
    "dump: all of a chain, hidden parts included, by any id of it; undefined for an unknown one",
  ],
  [
    "loads half of a chain whose ids are taken",
    class extends Driver {
      override async load({ sessions, snapshots }: ChainData): Promise<void> {
        const [first, ...rest] = sessions;
        if (first) await super.load({ sessions: [first], snapshots });
        for (const { session, view } of rest) await this.create(session, [], view);
      }
    },
    "load: refused whole when an id or an alias is taken, and nothing of it is left",
  ],
];

describe("the driver kit catches a driver that", () => {
  for (const [what, Wrong, check] of WRONG) it(what, () => assertCaught(checksOf(Wrong), check));

  it("forgets all when it is closed", () =>
    assertCaught(checksOf(Driver, { forgets: true }), "reopen: everything is still there"));

  it("keeps a store for each process", () =>
    assertCaught(
      checksOf(Driver, { apart: true }),
      "two drivers on one store see each other's work as soon as it is done",
    ));
});
