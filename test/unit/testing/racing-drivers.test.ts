// Drivers with faults that occur only in concurrent calls. Each driver stops at the point of the race, so that its
// check always fails.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RunRecord } from "gantry";
import type {
  ChainData,
  ChainHead,
  ChangeResult,
  Instruction,
  LeaseOptions,
  SessionChange,
  SessionPage,
  SessionQuery,
  SessionStart,
} from "gantry/plugin";
import { LeaseLostError, SessionNotFoundError } from "gantry";
import { MemoryDriver } from "gantry";
import { sessionDriverChecks } from "gantry/testing";
import type { Check, HeldStore } from "gantry/testing";
import { assertCaught } from "../../helpers/assert-rejected.js";
import { Tables } from "../../helpers/tables.js";
import { keys } from "../../../src/sessions/documents/keys.js";

const tick = () => new Promise((resolve) => setImmediate(resolve));

/** A store in memory that can hold back the next change. */
class Held extends Tables {
  /** The held change continues when this resolves. */
  #going: Promise<void> | undefined;
  #part = 0;
  #isTaken = false;
  #waiting = 0;
  /** Number of sessions, as a driver counts them. */
  counted = 0;
  /** Serializes the changes of a correct driver. */
  turn: Promise<unknown> = Promise.resolve();

  hold(part: number): HeldStore | undefined {
    if (part > 1) return undefined;
    let resolve = (): void => undefined;
    this.#going = new Promise<void>((open) => (resolve = open));
    [this.#part, this.#isTaken] = [part, false];
    return {
      waiting: async () => this.#waiting,
      resume: async () => {
        this.#going = undefined;
        resolve();
      },
    };
  }

  /** Stops the first change that calls it. Later changes pass. */
  async stop(): Promise<void> {
    if (this.#isTaken) return;
    this.#isTaken = true;
    await this.wait();
  }

  /** Called by a reader before it reads another part of the store. Waits for the held change. */
  async next(): Promise<void> {
    if (this.#part > 0) await this.afterHeldChange();
  }

  /** Waits until the held change is done. */
  async afterHeldChange(): Promise<void> {
    if (!this.#going) return;
    await this.wait();
    await tick();
  }

  async wait(): Promise<void> {
    this.#waiting++;
    await this.#going;
    this.#waiting--;
  }
}

/** Like its base class, but a write stops at its end. */
class Driver extends MemoryDriver {
  readonly memory: Held;
  constructor(memory: Held) {
    super(memory);
    this.memory = memory;
  }
  rootOf(id: string): string {
    return this.memory.rootOf(id);
  }
}

/** A correct driver: changes run one after the other and stop at their end. */
class Right extends Driver {
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const before = this.memory.turn;
    const ownTurn = (async () => {
      let isWaiting = true;
      void before.catch(() => undefined).finally(() => (isWaiting = false));
      await tick();
      if (isWaiting) await this.memory.wait();
      await before.catch(() => undefined);
      await this.memory.stop();
      return work();
    })();
    this.memory.turn = ownTurn.catch(() => undefined);
    return ownTurn;
  }
  override create = (start: SessionStart) => this.#inTurn(() => super.create(start));
  override write = (id: string, change: SessionChange) => this.#inTurn(() => super.write(id, change));
  override forgetKeys = (before: string) => this.#inTurn(() => super.forgetKeys(before));
  override delete = (ids: readonly string[]) => this.#inTurn(() => super.delete(ids));
  override load = (chain: ChainData) => this.#inTurn(() => super.load(chain));
  override lease = (...args: Parameters<MemoryDriver["lease"]>) => this.#inTurn(() => super.lease(...args));
}

const NOTHING: ChangeResult = { instructions: [], consumedInstructions: [] };

type Made = new (memory: Held) => MemoryDriver;

function checksOf(Wrong: Made): Check[] {
  let memory = new Held();
  const opened = async (): Promise<MemoryDriver> => {
    const driver = new Wrong(memory);
    await driver.open();
    return driver;
  };
  return sessionDriverChecks({
    create: () => {
      memory = new Held();
      return opened();
    },
    second: opened,
    reopen: opened,
    clean: () => Promise.resolve(),
    hold: async (part) => memory.hold(part),
  });
}

const HOLDS = "hold: if the fixture can hold a change, no reader sees it before it is released";
const LEASED = "race: a write completes before its lease is replaced and is part of the head, or it is rejected";
const ONE_HOLDER = "race: of concurrent lease requests one succeeds, and the others receive its holder";
const CHANGES = "race: concurrent changes of a chain are all kept";
const DELETED = "race: a deleted chain leaves nothing, whatever runs concurrently";
const OWNER = "race: an id, an alias, an index and a run's key have one owner";
const LOADS = "race: of two loads with common ids one succeeds, and the other has no effect";
const ONCE =
  "race: one answer to an ask is accepted, an instruction is removed once, and instructions keep their order";
const INSTRUCTION_CHECK =
  "race: an instruction is returned by the write that releases the lease, or is written after it";
const TOTALS = "race: totals are correct after concurrent creates, deletes and moves";

/** Description of the fault, the driver, and the check that must fail. */
const WRONG: [fault: string, Wrong: Made, check: string][] = [
  [
    "checks the fence, and writes after another holder has the lease",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const root = this.rootOf(id);
        if (change.fence !== null && this.memory.leases.get(root)?.fence !== change.fence)
          throw new LeaseLostError(root);
        await this.memory.stop();
        return super.write(id, { ...change, fence: null });
      }
    },
    LEASED,
  ],
  [
    "checks the fence of a follow-up, and creates it after another holder has the lease",
    class extends Driver {
      override async create(start: SessionStart): Promise<void> {
        const { root } = start.session.chain;
        if (start.fence && this.memory.leases.get(root)?.fence !== start.fence) throw new LeaseLostError(root);
        await this.memory.stop();
        return super.create({ ...start, fence: null });
      }
    },
    LEASED,
  ],
  [
    "returns a head that was read before the lease was acquired",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        await this.memory.stop();
        return super.write(id, change);
      }
      override async lease(...[id, holder, ttl, options]: Parameters<MemoryDriver["lease"]>) {
        const head = options?.head && (await super.head(id));
        await this.memory.afterHeldChange();
        const lease = await super.lease(id, holder, ttl, options);
        return "heldBy" in lease || !head ? lease : { ...lease, head };
      }
    },
    LEASED,
  ],
  [
    "acquires a lease that is no longer free after the check",
    class extends Driver {
      override async lease(...[id, holder, ttl, options = {}]: Parameters<MemoryDriver["lease"]>) {
        const isFree = this.memory.leases.get(this.rootOf(id)) === undefined;
        await this.memory.stop();
        const now = this.memory.leases.get(this.rootOf(id));
        const replacing = isFree && now ? { fenceToReplace: now.fence } : {};
        return super.lease(id, holder, ttl, { ...options, ...replacing });
      }
    },
    ONE_HOLDER,
  ],
  [
    "replaces a holder that is no longer the dead one after the check",
    class extends Driver {
      override async lease(...[id, holder, ttl, options = {}]: Parameters<MemoryDriver["lease"]>) {
        const isDead = this.memory.leases.get(this.rootOf(id))?.fence === options.fenceToReplace;
        await this.memory.stop();
        const now = this.memory.leases.get(this.rootOf(id));
        return super.lease(id, holder, ttl, isDead && now ? { ...options, fenceToReplace: now.fence } : options);
      }
    },
    ONE_HOLDER,
  ],
  [
    "releases a lease that is no longer its own after the check",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const root = this.rootOf(id);
        const isMine = this.memory.leases.get(root)?.fence === change.fence;
        await this.memory.stop();
        if (!change.release || !isMine) return super.write(id, change);
        this.memory.leases.delete(root);
        return NOTHING;
      }
    },
    ONE_HOLDER,
  ],
  [
    "overwrites the original's fields with values from an earlier read",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const root = this.memory.sessions.get(this.rootOf(id))?.session;
        const { title, hasFinalTitle: titled, mode } = { ...root };
        await this.memory.stop();
        const result = await super.write(id, change);
        const then = this.memory.sessions.get(this.rootOf(id))?.session;
        if (then && change.set) Object.assign(then, { title, hasFinalTitle: titled, mode, ...change.set });
        return result;
      }
    },
    CHANGES,
  ],
  [
    "adds usage to a value from an earlier read",
    class extends Driver {
      override async write(id: string, { usage, ...change }: SessionChange): Promise<ChangeResult> {
        const root = this.memory.sessions.get(this.rootOf(id))?.session;
        const before = root?.usage.promptTokens ?? 0;
        await this.memory.stop();
        const result = await super.write(id, usage ? { ...change, usage } : change);
        const then = this.memory.sessions.get(this.rootOf(id))?.session;
        if (then && usage) then.usage.promptTokens = before + usage.promptTokens;
        return result;
      }
    },
    CHANGES,
  ],
  [
    "appends to the text of a message from an earlier read",
    class extends Driver {
      override async write(id: string, { append, ...change }: SessionChange): Promise<ChangeResult> {
        const grown = keys.growth("a", "a1-4", 0);
        const before = this.memory.value(grown) ?? [];
        await this.memory.stop();
        if (append && this.memory.value(grown)) this.memory.put(grown, "a", before);
        return super.write(id, append ? { ...change, append } : change);
      }
    },
    CHANGES,
  ],
  [
    "creates a follow-up of a chain that was deleted concurrently",
    class extends Driver {
      override async create(start: SessionStart): Promise<void> {
        const original = this.memory.sessions.get(start.session.chain.root);
        await this.memory.stop();
        if (!original || this.memory.sessions.has(original.session.id)) return super.create(start);
        const { messages: _, view: __, ...bare } = start;
        await super.create({ ...bare, session: { ...start.session, chain: { root: start.session.id, index: 0 } } });
      }
    },
    DELETED,
  ],
  [
    "stores an instruction for a chain that was deleted concurrently",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const { instruct } = change;
        if (!instruct) return super.write(id, change);
        const sessionId = this.rootOf(id);
        if (!this.memory.sessions.has(sessionId)) throw new SessionNotFoundError(sessionId);
        await this.memory.stop();
        this.memory.instructions.replace([...this.memory.instructions.values(), { ...instruct, sessionId }]);
        return NOTHING;
      }
    },
    DELETED,
  ],
  [
    "answers an ask that was deleted concurrently",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const askId = change.answer?.askId ?? "";
        const ask = this.memory.asks.get(askId);
        await this.memory.stop();
        if (ask && !this.memory.asks.get(askId)) this.memory.asks.set(askId, ask);
        return super.write(id, change);
      }
    },
    DELETED,
  ],
  [
    "stores a run of a chain that was deleted concurrently",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const isThere = this.memory.sessions.has(id);
        await this.memory.stop();
        if (!isThere || this.memory.sessions.has(id)) return super.write(id, change);
        for (const run of change.runs ?? []) this.memory.runs.set(run.id, { run, fence: null });
        return NOTHING;
      }
    },
    DELETED,
  ],
  [
    "keeps the lease of a chain that was deleted concurrently",
    class extends Driver {
      override async lease(...[id, ...args]: Parameters<MemoryDriver["lease"]>) {
        const lease = await super.lease(id, ...args);
        const chain = this.memory.sessions.has(id);
        await this.memory.stop();
        if (chain && !this.memory.sessions.has(id) && "fence" in lease) this.memory.leases.set(lease.rootId, lease);
        return lease;
      }
    },
    DELETED,
  ],
  [
    "stores two concurrent runs with one idempotency key",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const { runs = [] } = change;
        const isTaken = runs.some(
          ({ idempotencyKey: key }) => key !== "" && this.memory.runs.withKey(key) !== undefined,
        );
        await this.memory.stop();
        if (isTaken) return super.write(id, change);
        const result = await super.write(id, { ...change, runs: runs.map((run) => ({ ...run, idempotencyKey: "" })) });
        for (const { id: run, idempotencyKey: key } of runs) this.memory.runs.get(run)!.run.idempotencyKey = key;
        return result;
      }
    },
    OWNER,
  ],
  [
    "creates a session whose id is no longer free after the check",
    class extends Driver {
      override async create(start: SessionStart): Promise<void> {
        const { id } = start.session;
        const isFree = !this.memory.find(id);
        await this.memory.stop();
        if (isFree) this.memory.remove(id);
        return super.create(start);
      }
    },
    OWNER,
  ],
  [
    "overwrites runs with earlier copies when it forgets their keys",
    class extends Driver {
      override async forgetKeys(before: string): Promise<void> {
        const old = this.memory.runs.values().map(({ run }): RunRecord => ({ ...run }));
        await this.memory.stop();
        await super.forgetKeys(before);
        for (const run of old)
          if (this.memory.runs.get(run.id)?.run.idempotencyKey === "")
            this.memory.runs.set(run.id, { run: { ...run, idempotencyKey: "" }, fence: null });
      }
    },
    OWNER,
  ],
  [
    "loads a chain whose ids are no longer free after the check",
    class extends Driver {
      override async load(chain: ChainData): Promise<void> {
        this.memory.checkFree(chain);
        await this.memory.stop();
        for (const { session } of chain.sessions) this.memory.remove(this.memory.find(session.id)?.id ?? "");
        await super.load(chain);
      }
    },
    LOADS,
  ],
  [
    "accepts an answer to an ask that is no longer open after the check",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const before = this.memory.asks.get(change.answer?.askId ?? "");
        await this.memory.stop();
        if (before?.state === "open") this.memory.asks.set(before.id, before);
        return super.write(id, change);
      }
    },
    ONCE,
  ],
  [
    "reports an instruction as consumed that is gone after the check",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const consumedInstructions =
          change.consumedInstructions?.filter((instructionId) => this.memory.instructions.has(instructionId)) ?? [];
        await this.memory.stop();
        return { ...(await super.write(id, change)), consumedInstructions };
      }
    },
    ONCE,
  ],
  [
    "numbers instructions on arrival and stores them later",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const earlierIds = this.memory.instructions.values().map((instruction) => instruction.id);
        await this.memory.stop();
        const result = await super.write(id, change);
        const place = (instruction: Instruction): number =>
          earlierIds.includes(instruction.id) ? 0 : instruction.id === change.instruct?.id ? 1 : 2;
        this.memory.instructions.replace([...this.memory.instructions.values()].sort((a, b) => place(a) - place(b)));
        return result;
      }
    },
    ONCE,
  ],
  [
    "returns the remaining instructions as of before the release",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const before = await this.instructions(id).catch(() => []);
        await this.memory.stop();
        return { ...(await super.write(id, change)), instructions: change.release ? before : [] };
      }
    },
    INSTRUCTION_CHECK,
  ],
  [
    "overwrites the number of sessions with a value from an earlier read",
    class extends Driver {
      override async create(start: SessionStart): Promise<void> {
        await this.#counted(start.session.chain.index === 0 ? 1 : 0, () => super.create(start));
      }
      override async delete(ids: readonly string[]): Promise<void> {
        const roots = new Set(ids.filter((id) => this.memory.sessions.has(id)).map((id) => this.rootOf(id)));
        await this.#counted(-roots.size, () => super.delete(ids));
      }
      override async list(query: SessionQuery): Promise<SessionPage> {
        const page = await super.list(query);
        const isAll = query.projectDir === undefined && query.emptyBefore === undefined;
        return isAll ? { ...page, total: this.memory.counted } : page;
      }
      async #counted(added: number, work: () => Promise<void>): Promise<void> {
        const { counted } = this.memory;
        if (added !== 0) await this.memory.stop();
        await work();
        if (added !== 0) this.memory.counted = counted + added;
      }
    },
    TOTALS,
  ],
  [
    "returns a dump from two separate reads",
    class extends Right {
      override async dump(id: string): Promise<ChainData | undefined> {
        const first = await super.dump(id);
        await this.memory.next();
        const then = await super.dump(id);
        return first && { ...first, runs: then?.runs ?? [] };
      }
    },
    "race: a dump contains a concurrent change completely or not at all",
  ],
  [
    "returns a head from two separate reads",
    class extends Right {
      override async head(id: string, options?: { messages: boolean }): Promise<ChainHead | undefined> {
        const first = await super.head(id, options);
        await this.memory.next();
        const then = await super.head(id, options);
        return first && { ...first, unfinished: then?.unfinished ?? [] };
      }
    },
    "race: the head contains a concurrent change completely or not at all",
  ],
  [
    "returns a list and its total from two separate reads",
    class extends Right {
      override async list(query: SessionQuery): Promise<SessionPage> {
        const { sessions } = await super.list(query);
        await this.memory.next();
        return { sessions, total: (await super.list(query)).total };
      }
    },
    "race: a list and its total reflect the same state",
  ],
  ["holds no change although its fixture says so", MemoryDriver as unknown as Made, HOLDS],
];

/** Faults that occur without concurrent calls. */
const ALONE: [fault: string, Wrong: Made, check: string][] = [
  [
    "releases the lease before it validates the change",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const { fence } = change;
        const isMine = fence !== null && this.memory.leases.get(this.rootOf(id))?.fence === fence;
        if (change.release && isMine) this.memory.leases.delete(this.rootOf(id));
        const result = await super.write(id, change.release && isMine ? { ...change, fence: null } : change);
        return change.release ? { ...result, instructions: await this.instructions(id) } : result;
      }
    },
    "write: a rejected change never releases the lease",
  ],
  [
    "returns `previous` although a follow-up was created without a lease",
    class extends Driver {
      override async create(start: SessionStart): Promise<void> {
        const { root } = start.session.chain;
        const before = this.memory.released.get(root);
        await super.create(start);
        if (before !== undefined) this.memory.released.set(root, before);
      }
    },
    "lease: `previous`, if returned, is the fence of the chain's last lease; it is undefined after a delete",
  ],
  [
    "raises lastSeq with a revert, but not with a restore",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const lastSeqs = [...this.memory.sessions.values()].map(({ session }) => ({ ...session }));
        const result = await super.write(id, change);
        if (change.restore !== undefined && !change.revert)
          for (const { id: sessionId, lastSeq } of lastSeqs)
            this.memory.sessions.get(sessionId)!.session.lastSeq = lastSeq;
        return result;
      }
    },
    "restore: the session that becomes the newest has the chain's lastSeq",
  ],
  [
    "keeps only the first part of a growing message in a load",
    class extends Driver {
      override async load(chain: ChainData): Promise<void> {
        const copy = structuredClone(chain);
        for (const { messages } of copy.sessions)
          for (const { message } of messages) if (!message.finished) message.parts = message.parts.slice(0, 1);
        return super.load(copy);
      }
    },
    "load: a growing message keeps its text and can grow further, part by part, until it is finished",
  ],
  [
    "rejects appends to loaded messages",
    class extends Driver {
      override async load(chain: ChainData): Promise<void> {
        await super.load(chain);
        for (const { session } of chain.sessions) this.memory.sessions.get(session.id)?.chain.growing.splice(0);
      }
    },
    "load: a growing message keeps its text and can grow further, part by part, until it is finished",
  ],
  [
    "closes while calls wait for one of ten slots",
    class extends Driver {
      #places = 10;
      override async messages(...args: Parameters<MemoryDriver["messages"]>) {
        if (this.#places-- <= 0) await tick();
        return super.messages(...args);
      }
    },
    "close: waits for all active calls, also for more than the driver runs concurrently",
  ],
  ...[5000, 1000].map((early): [string, Made, string] => [
    `replaces a holder ${early} ms before its lease expires`,
    class extends Driver {
      override async lease(...[id, holder, ttl, options = {}]: Parameters<MemoryDriver["lease"]>) {
        const held = this.memory.leases.get(this.rootOf(id));
        const isOver = held && Date.parse(held.expiresAt) - early <= Date.now();
        const leaseOptions: LeaseOptions = isOver ? { ...options, fenceToReplace: held.fence } : options;
        return super.lease(id, holder, ttl, leaseOptions);
      }
    },
    "lease: cannot be taken before it expires, however short it is",
  ]),
];

describe("the session driver kit with forced races", () => {
  for (const [fault, Wrong, name] of WRONG)
    it(`catches a driver that ${fault}`, async () => {
      const check = checksOf(Wrong).find((candidate) => candidate.name === name);
      const why = name === HOLDS ? /was not held/ : /fits neither order/;
      await assert.rejects(check!.run(), why);
    });
});

describe("the session driver kit without concurrent calls", () => {
  for (const [fault, Wrong, check] of ALONE)
    it(`catches a driver that ${fault}`, () => assertCaught(checksOf(Wrong), check));
});

describe("the race checks on a correct driver whose changes can be held", () => {
  for (const { name, run } of checksOf(Right)) if (/^(race|hold):/.test(name)) it(name, run);
});

describe("a check in which a call hangs", () => {
  const never = new Promise<never>(() => undefined);
  const checksWith = (hangs: "close" | "get" | "create" | "second" | "reopen" | "clean"): Check[] => {
    const opened = async (): Promise<MemoryDriver> => {
      const driver = new MemoryDriver();
      await driver.open();
      if (hangs === "close" || hangs === "get") driver[hangs] = () => never;
      return driver;
    };
    const hanging = { create: opened, second: opened, reopen: opened, clean: () => Promise.resolve(), timeoutMs: 20 };
    return sessionDriverChecks(hangs === "close" || hangs === "get" ? hanging : { ...hanging, [hangs]: () => never });
  };
  const CHECKS = {
    close: "list: follow-ups are neither listed nor counted",
    get: "create: stores every field of a session",
    create: "list: follow-ups are neither listed nor counted",
    second: "two drivers on one store see each other's changes as soon as the calls have settled",
    reopen: "reopen: the store keeps all data",
    clean: "list: follow-ups are neither listed nor counted",
  } as const;
  for (const [hangs, name] of Object.entries(CHECKS) as [keyof typeof CHECKS, string][])
    it(`fails with the name of the call: ${hangs}()`, async () => {
      const check = checksWith(hangs).find((candidate) => candidate.name === name);
      await assert.rejects(check!.run(), (error: Error) => {
        assert.ok(error.message.startsWith(`${name}: `), error.message);
        assert.match(error.message, new RegExp(`${hangs}\\(\\) hangs: timed out after 20 ms`));
        return true;
      });
    });

  it("reports an earlier failure instead of the hanging close()", async () => {
    const checks = sessionDriverChecks({
      create: async () => {
        const driver = new MemoryDriver();
        await driver.open();
        return Object.assign(driver, { close: () => never, get: () => Promise.resolve(undefined) });
      },
      second: () => never,
      reopen: () => never,
      clean: () => Promise.resolve(),
      timeoutMs: 20,
    });
    const check = checks.find(({ name }) => name === "create: stores every field of a session");
    await assert.rejects(check!.run(), (error: Error) => !error.message.includes("hangs"));
  });
});
