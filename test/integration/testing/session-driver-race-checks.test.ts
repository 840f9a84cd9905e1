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
import { assertCheckRejects } from "../../helpers/assert-check-rejects.js";
import { Tables } from "../../helpers/tables.js";
import { keys } from "../../../src/sessions/documents/keys.js";

const waitForTick = () => new Promise((resolve) => setImmediate(resolve));

/** A store in memory that can hold back the next change. */
class HoldableTables extends Tables {
  /** Resolves when the held change may continue. Undefined if no change is held. */
  #releasePromise: Promise<void> | undefined;
  /** The argument of the last `hold`. With part 1, readers wait too. */
  #heldPart = 0;
  /** Whether a change was held since the last `hold`. */
  #hasStoppedChange = false;
  /** Number of calls that wait for the release. */
  #waitingCount = 0;
  /** The number of sessions that a driver stores separately. */
  sessionCount = 0;
  /** The last change of a correct driver. The next change waits for that change. */
  lastChange: Promise<unknown> = Promise.resolve();

  hold(part: number): HeldStore | undefined {
    if (part > 1) return undefined;
    let resolve = (): void => undefined;
    this.#releasePromise = new Promise<void>((resolveRelease) => (resolve = resolveRelease));
    [this.#heldPart, this.#hasStoppedChange] = [part, false];
    return {
      waiting: async () => this.#waitingCount,
      resume: async () => {
        this.#releasePromise = undefined;
        resolve();
      },
    };
  }

  /** Holds the first calling change until its release. Later changes continue at once. */
  async stopFirstChange(): Promise<void> {
    if (this.#hasStoppedChange) return;
    this.#hasStoppedChange = true;
    await this.waitForRelease();
  }

  /** Called by a reader before it reads another part of the store. Waits for the held change. */
  async waitBeforeNextRead(): Promise<void> {
    if (this.#heldPart > 0) await this.waitForHeldChange();
  }

  /** Waits until the held change is done. */
  async waitForHeldChange(): Promise<void> {
    if (!this.#releasePromise) return;
    await this.waitForRelease();
    await waitForTick();
  }

  async waitForRelease(): Promise<void> {
    this.#waitingCount++;
    await this.#releasePromise;
    this.#waitingCount--;
  }
}

/** A correct driver with access to its tables. The subclasses have one fault each. */
class Driver extends MemoryDriver {
  readonly memory: HoldableTables;
  constructor(memory: HoldableTables) {
    super(memory);
    this.memory = memory;
  }
  rootOf(id: string): string {
    return this.memory.rootOf(id);
  }
}

/** A correct driver: changes run one after the other. A held change waits before its work. */
class CorrectDriver extends Driver {
  async #runInTurn<T>(work: () => Promise<T>): Promise<T> {
    const previousChange = this.memory.lastChange;
    const ownChange = (async () => {
      let isWaiting = true;
      void previousChange.catch(() => undefined).finally(() => (isWaiting = false));
      await waitForTick();
      if (isWaiting) await this.memory.waitForRelease();
      await previousChange.catch(() => undefined);
      await this.memory.stopFirstChange();
      return work();
    })();
    this.memory.lastChange = ownChange.catch(() => undefined);
    return ownChange;
  }
  override create = (start: SessionStart) => this.#runInTurn(() => super.create(start));
  override write = (id: string, change: SessionChange) => this.#runInTurn(() => super.write(id, change));
  override forgetKeys = (before: string) => this.#runInTurn(() => super.forgetKeys(before));
  override delete = (ids: readonly string[]) => this.#runInTurn(() => super.delete(ids));
  override load = (chain: ChainData) => this.#runInTurn(() => super.load(chain));
  override lease = (...args: Parameters<MemoryDriver["lease"]>) => this.#runInTurn(() => super.lease(...args));
}

const EMPTY_RESULT: ChangeResult = { instructions: [], consumedInstructions: [] };

type DriverClass = new (memory: HoldableTables) => MemoryDriver;

function createChecks(WrongDriver: DriverClass): Check[] {
  let memory = new HoldableTables();
  const openDriver = async (): Promise<MemoryDriver> => {
    const driver = new WrongDriver(memory);
    await driver.open();
    return driver;
  };
  return sessionDriverChecks({
    create: () => {
      memory = new HoldableTables();
      return openDriver();
    },
    second: openDriver,
    reopen: openDriver,
    clean: () => Promise.resolve(),
    hold: async (part) => memory.hold(part),
  });
}

const HOLD_CHECK = "hold: if the fixture can hold a change, no reader sees the held change before its release";
const LEASE_CHECK = "race: a write completes before its lease is replaced and is part of the head, or it is rejected";
const HOLDER_CHECK = "race: of concurrent lease requests one succeeds, and the others receive its holder";
const CHANGES_CHECK = "race: concurrent changes of a chain are all kept";
const DELETE_CHECK = "race: a deleted chain leaves nothing, whatever runs concurrently";
const OWNER_CHECK = "race: an id, an alias, an index and a run's key have one owner";
const LOAD_CHECK = "race: of two loads with common ids one succeeds, and the other has no effect";
const ONCE_CHECK =
  "race: one answer to an ask is accepted, an instruction is removed once, and instructions keep their order";
const INSTRUCTION_CHECK =
  "race: an instruction is returned by the write that releases the lease, or is written after it";
const TOTALS_CHECK = "race: totals are correct after concurrent creates, deletes and moves";

/** Faults of concurrent calls: description, driver, and the check that must fail. */
const FAULTY_DRIVERS: [fault: string, WrongDriver: DriverClass, checkName: string][] = [
  [
    "checks the fence, and writes after another holder has the lease",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const root = this.rootOf(id);
        if (change.fence !== null && this.memory.leases.get(root)?.fence !== change.fence)
          throw new LeaseLostError(root);
        await this.memory.stopFirstChange();
        return super.write(id, { ...change, fence: null });
      }
    },
    LEASE_CHECK,
  ],
  [
    "checks the fence of a follow-up, and creates it after another holder has the lease",
    class extends Driver {
      override async create(start: SessionStart): Promise<void> {
        const { root } = start.session.chain;
        if (start.fence && this.memory.leases.get(root)?.fence !== start.fence) throw new LeaseLostError(root);
        await this.memory.stopFirstChange();
        return super.create({ ...start, fence: null });
      }
    },
    LEASE_CHECK,
  ],
  [
    "returns a head that was read before the lease was acquired",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        await this.memory.stopFirstChange();
        return super.write(id, change);
      }
      override async lease(...[id, holder, ttl, options]: Parameters<MemoryDriver["lease"]>) {
        const head = options?.head && (await super.head(id));
        await this.memory.waitForHeldChange();
        const lease = await super.lease(id, holder, ttl, options);
        return "heldBy" in lease || !head ? lease : { ...lease, head };
      }
    },
    LEASE_CHECK,
  ],
  [
    "acquires a lease that is no longer free after the check",
    class extends Driver {
      override async lease(...[id, holder, ttl, options = {}]: Parameters<MemoryDriver["lease"]>) {
        const isFree = this.memory.leases.get(this.rootOf(id)) === undefined;
        await this.memory.stopFirstChange();
        const currentLease = this.memory.leases.get(this.rootOf(id));
        const replacement = isFree && currentLease ? { fenceToReplace: currentLease.fence } : {};
        return super.lease(id, holder, ttl, { ...options, ...replacement });
      }
    },
    HOLDER_CHECK,
  ],
  [
    "replaces a holder that is no longer the dead one after the check",
    class extends Driver {
      override async lease(...[id, holder, ttl, options = {}]: Parameters<MemoryDriver["lease"]>) {
        const hasExpectedFence = this.memory.leases.get(this.rootOf(id))?.fence === options.fenceToReplace;
        await this.memory.stopFirstChange();
        const currentLease = this.memory.leases.get(this.rootOf(id));
        return super.lease(
          id,
          holder,
          ttl,
          hasExpectedFence && currentLease ? { ...options, fenceToReplace: currentLease.fence } : options,
        );
      }
    },
    HOLDER_CHECK,
  ],
  [
    "releases a lease that is no longer its own after the check",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const root = this.rootOf(id);
        const isOwnLease = this.memory.leases.get(root)?.fence === change.fence;
        await this.memory.stopFirstChange();
        if (!change.release || !isOwnLease) return super.write(id, change);
        this.memory.leases.delete(root);
        return EMPTY_RESULT;
      }
    },
    HOLDER_CHECK,
  ],
  [
    "overwrites the original's fields with values from an earlier read",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const root = this.memory.sessions.get(this.rootOf(id))?.session;
        const { title, hasFinalTitle, mode } = { ...root };
        await this.memory.stopFirstChange();
        const result = await super.write(id, change);
        const storedSession = this.memory.sessions.get(this.rootOf(id))?.session;
        if (storedSession && change.set) Object.assign(storedSession, { title, hasFinalTitle, mode, ...change.set });
        return result;
      }
    },
    CHANGES_CHECK,
  ],
  [
    "adds usage to a value from an earlier read",
    class extends Driver {
      override async write(id: string, { usage, ...change }: SessionChange): Promise<ChangeResult> {
        const root = this.memory.sessions.get(this.rootOf(id))?.session;
        const earlierTokens = root?.usage.promptTokens ?? 0;
        await this.memory.stopFirstChange();
        const result = await super.write(id, usage ? { ...change, usage } : change);
        const storedSession = this.memory.sessions.get(this.rootOf(id))?.session;
        if (storedSession && usage) storedSession.usage.promptTokens = earlierTokens + usage.promptTokens;
        return result;
      }
    },
    CHANGES_CHECK,
  ],
  [
    "appends to the text of a message from an earlier read",
    class extends Driver {
      override async write(id: string, { append, ...change }: SessionChange): Promise<ChangeResult> {
        // The message to which the check appends.
        const growthKey = keys.growth("a", "a1-4", 0);
        const earlierGrowth = this.memory.getValue(growthKey) ?? [];
        await this.memory.stopFirstChange();
        if (append && this.memory.getValue(growthKey)) this.memory.put(growthKey, "a", earlierGrowth);
        return super.write(id, append ? { ...change, append } : change);
      }
    },
    CHANGES_CHECK,
  ],
  [
    "creates a follow-up of a chain that was deleted concurrently",
    class extends Driver {
      override async create(start: SessionStart): Promise<void> {
        const original = this.memory.sessions.get(start.session.chain.root);
        await this.memory.stopFirstChange();
        if (!original || this.memory.sessions.has(original.session.id)) return super.create(start);
        const { messages: _, view: __, ...startWithoutMessages } = start;
        await super.create({
          ...startWithoutMessages,
          session: { ...start.session, chain: { root: start.session.id, index: 0 } },
        });
      }
    },
    DELETE_CHECK,
  ],
  [
    "stores an instruction for a chain that was deleted concurrently",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const { instruct } = change;
        if (!instruct) return super.write(id, change);
        const sessionId = this.rootOf(id);
        if (!this.memory.sessions.has(sessionId)) throw new SessionNotFoundError(sessionId);
        await this.memory.stopFirstChange();
        this.memory.instructions.replace([...this.memory.instructions.values(), { ...instruct, sessionId }]);
        return EMPTY_RESULT;
      }
    },
    DELETE_CHECK,
  ],
  [
    "answers an ask that was deleted concurrently",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const askId = change.answer?.askId ?? "";
        const ask = this.memory.asks.get(askId);
        await this.memory.stopFirstChange();
        if (ask && !this.memory.asks.get(askId)) this.memory.asks.set(askId, ask);
        return super.write(id, change);
      }
    },
    DELETE_CHECK,
  ],
  [
    "stores a run of a chain that was deleted concurrently",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const hasSession = this.memory.sessions.has(id);
        await this.memory.stopFirstChange();
        if (!hasSession || this.memory.sessions.has(id)) return super.write(id, change);
        for (const run of change.runs ?? []) this.memory.runs.set(run.id, { run, fence: null });
        return EMPTY_RESULT;
      }
    },
    DELETE_CHECK,
  ],
  [
    "keeps the lease of a chain that was deleted concurrently",
    class extends Driver {
      override async lease(...[id, ...args]: Parameters<MemoryDriver["lease"]>) {
        const lease = await super.lease(id, ...args);
        const hasChain = this.memory.sessions.has(id);
        await this.memory.stopFirstChange();
        if (hasChain && !this.memory.sessions.has(id) && "fence" in lease) this.memory.leases.set(lease.rootId, lease);
        return lease;
      }
    },
    DELETE_CHECK,
  ],
  [
    "stores two concurrent runs with one idempotency key",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const { runs = [] } = change;
        const isKeyTaken = runs.some(
          ({ idempotencyKey: key }) => key !== "" && this.memory.runs.withKey(key) !== undefined,
        );
        await this.memory.stopFirstChange();
        if (isKeyTaken) return super.write(id, change);
        const result = await super.write(id, { ...change, runs: runs.map((run) => ({ ...run, idempotencyKey: "" })) });
        for (const { id: runId, idempotencyKey: key } of runs) this.memory.runs.get(runId)!.run.idempotencyKey = key;
        return result;
      }
    },
    OWNER_CHECK,
  ],
  [
    "creates a session whose id is no longer free after the check",
    class extends Driver {
      override async create(start: SessionStart): Promise<void> {
        const { id } = start.session;
        const isFree = !this.memory.findSession(id);
        await this.memory.stopFirstChange();
        if (isFree) this.memory.removeChain(id);
        return super.create(start);
      }
    },
    OWNER_CHECK,
  ],
  [
    "overwrites runs with earlier copies when it forgets their keys",
    class extends Driver {
      override async forgetKeys(before: string): Promise<void> {
        const earlierRuns = this.memory.runs.values().map(({ run }): RunRecord => ({ ...run }));
        await this.memory.stopFirstChange();
        await super.forgetKeys(before);
        for (const run of earlierRuns)
          if (this.memory.runs.get(run.id)?.run.idempotencyKey === "")
            this.memory.runs.set(run.id, { run: { ...run, idempotencyKey: "" }, fence: null });
      }
    },
    OWNER_CHECK,
  ],
  [
    "loads a chain whose ids are no longer free after the check",
    class extends Driver {
      override async load(chain: ChainData): Promise<void> {
        this.memory.checkFree(chain);
        await this.memory.stopFirstChange();
        for (const { session } of chain.sessions)
          this.memory.removeChain(this.memory.findSession(session.id)?.id ?? "");
        await super.load(chain);
      }
    },
    LOAD_CHECK,
  ],
  [
    "accepts an answer to an ask that is no longer open after the check",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const earlierAsk = this.memory.asks.get(change.answer?.askId ?? "");
        await this.memory.stopFirstChange();
        if (earlierAsk?.state === "open") this.memory.asks.set(earlierAsk.id, earlierAsk);
        return super.write(id, change);
      }
    },
    ONCE_CHECK,
  ],
  [
    "reports an instruction as consumed that is gone after the check",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const consumedInstructions =
          change.consumedInstructions?.filter((instructionId) => this.memory.instructions.has(instructionId)) ?? [];
        await this.memory.stopFirstChange();
        return { ...(await super.write(id, change)), consumedInstructions };
      }
    },
    ONCE_CHECK,
  ],
  [
    "numbers instructions on arrival and stores them later",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const earlierIds = this.memory.instructions.values().map((instruction) => instruction.id);
        await this.memory.stopFirstChange();
        const result = await super.write(id, change);
        const getRank = (instruction: Instruction): number =>
          earlierIds.includes(instruction.id) ? 0 : instruction.id === change.instruct?.id ? 1 : 2;
        this.memory.instructions.replace(
          [...this.memory.instructions.values()].sort((a, b) => getRank(a) - getRank(b)),
        );
        return result;
      }
    },
    ONCE_CHECK,
  ],
  [
    "returns the remaining instructions as of before the release",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const earlierInstructions = await this.instructions(id).catch(() => []);
        await this.memory.stopFirstChange();
        return { ...(await super.write(id, change)), instructions: change.release ? earlierInstructions : [] };
      }
    },
    INSTRUCTION_CHECK,
  ],
  [
    "overwrites the number of sessions with a value from an earlier read",
    class extends Driver {
      override async create(start: SessionStart): Promise<void> {
        await this.#changeSessionCount(start.session.chain.index === 0 ? 1 : 0, () => super.create(start));
      }
      override async delete(ids: readonly string[]): Promise<void> {
        const roots = new Set(ids.filter((id) => this.memory.sessions.has(id)).map((id) => this.rootOf(id)));
        await this.#changeSessionCount(-roots.size, () => super.delete(ids));
      }
      override async list(query: SessionQuery): Promise<SessionPage> {
        const page = await super.list(query);
        const isAll = query.projectDir === undefined && query.emptyBefore === undefined;
        return isAll ? { ...page, total: this.memory.sessionCount } : page;
      }
      async #changeSessionCount(difference: number, work: () => Promise<void>): Promise<void> {
        const { sessionCount } = this.memory;
        if (difference !== 0) await this.memory.stopFirstChange();
        await work();
        if (difference !== 0) this.memory.sessionCount = sessionCount + difference;
      }
    },
    TOTALS_CHECK,
  ],
  [
    "returns a dump from two separate reads",
    class extends CorrectDriver {
      override async dump(id: string): Promise<ChainData | undefined> {
        const firstDump = await super.dump(id);
        await this.memory.waitBeforeNextRead();
        const secondDump = await super.dump(id);
        return firstDump && { ...firstDump, runs: secondDump?.runs ?? [] };
      }
    },
    "race: a dump contains a concurrent change completely or not at all",
  ],
  [
    "returns a head from two separate reads",
    class extends CorrectDriver {
      override async head(id: string, options?: { messages: boolean }): Promise<ChainHead | undefined> {
        const firstHead = await super.head(id, options);
        await this.memory.waitBeforeNextRead();
        const secondHead = await super.head(id, options);
        return firstHead && { ...firstHead, unfinished: secondHead?.unfinished ?? [] };
      }
    },
    "race: the head contains a concurrent change completely or not at all",
  ],
  [
    "returns a list and its total from two separate reads",
    class extends CorrectDriver {
      override async list(query: SessionQuery): Promise<SessionPage> {
        const { sessions } = await super.list(query);
        await this.memory.waitBeforeNextRead();
        return { sessions, total: (await super.list(query)).total };
      }
    },
    "race: a list and its total reflect the same state",
  ],
  ["holds no change although its fixture says so", MemoryDriver as unknown as DriverClass, HOLD_CHECK],
];

/** Faults that occur without concurrent calls. */
const SEQUENTIAL_FAULTS: [fault: string, WrongDriver: DriverClass, checkName: string][] = [
  [
    "releases the lease before it validates the change",
    class extends Driver {
      override async write(id: string, change: SessionChange): Promise<ChangeResult> {
        const { fence } = change;
        const isOwnLease = fence !== null && this.memory.leases.get(this.rootOf(id))?.fence === fence;
        if (change.release && isOwnLease) this.memory.leases.delete(this.rootOf(id));
        const result = await super.write(id, change.release && isOwnLease ? { ...change, fence: null } : change);
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
        const releasedFence = this.memory.released.get(root);
        await super.create(start);
        if (releasedFence !== undefined) this.memory.released.set(root, releasedFence);
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
      #freeSlots = 10;
      override async messages(...args: Parameters<MemoryDriver["messages"]>) {
        if (this.#freeSlots-- <= 0) await waitForTick();
        return super.messages(...args);
      }
    },
    "close: waits for all active calls, also for more than the driver runs concurrently",
  ],
  ...[5000, 1000].map((earlyMs): [string, DriverClass, string] => [
    `replaces a holder ${earlyMs} ms before its lease expires`,
    class extends Driver {
      override async lease(...[id, holder, ttl, options = {}]: Parameters<MemoryDriver["lease"]>) {
        const currentLease = this.memory.leases.get(this.rootOf(id));
        const isExpired = currentLease && Date.parse(currentLease.expiresAt) - earlyMs <= Date.now();
        const leaseOptions: LeaseOptions = isExpired ? { ...options, fenceToReplace: currentLease.fence } : options;
        return super.lease(id, holder, ttl, leaseOptions);
      }
    },
    "lease: cannot be taken before it expires, however short it is",
  ]),
];

describe("the session driver checks with forced races", () => {
  for (const [fault, WrongDriver, name] of FAULTY_DRIVERS)
    it(`catches a driver that ${fault}`, async () => {
      const check = createChecks(WrongDriver).find((candidate) => candidate.name === name);
      const expectedMessage = name === HOLD_CHECK ? /was not held/ : /fits neither order/;
      await assert.rejects(check!.run(), expectedMessage);
    });
});

describe("the session driver checks without concurrent calls", () => {
  for (const [fault, WrongDriver, check] of SEQUENTIAL_FAULTS)
    it(`catches a driver that ${fault}`, () => assertCheckRejects(createChecks(WrongDriver), check));
});

describe("the race checks on a correct driver whose changes can be held", () => {
  for (const { name, run } of createChecks(CorrectDriver)) if (/^(race|hold):/.test(name)) it(name, run);
});

describe("a check in which a call hangs", () => {
  const neverPromise = new Promise<never>(() => undefined);
  const createHangingChecks = (hangingCall: "close" | "get" | "create" | "second" | "reopen" | "clean"): Check[] => {
    const openDriver = async (): Promise<MemoryDriver> => {
      const driver = new MemoryDriver();
      await driver.open();
      if (hangingCall === "close" || hangingCall === "get") driver[hangingCall] = () => neverPromise;
      return driver;
    };
    const fixture = {
      create: openDriver,
      second: openDriver,
      reopen: openDriver,
      clean: () => Promise.resolve(),
      timeoutMs: 20,
    };
    return sessionDriverChecks(
      hangingCall === "close" || hangingCall === "get" ? fixture : { ...fixture, [hangingCall]: () => neverPromise },
    );
  };
  const CHECKS_BY_CALL = {
    close: "list: follow-ups are neither listed nor counted",
    get: "create: stores every field of a session",
    create: "list: follow-ups are neither listed nor counted",
    second: "two drivers on one store see each other's changes as soon as the calls have settled",
    reopen: "reopen: the store keeps all data",
    clean: "list: follow-ups are neither listed nor counted",
  } as const;
  for (const [hangingCall, name] of Object.entries(CHECKS_BY_CALL) as [keyof typeof CHECKS_BY_CALL, string][])
    it(`fails with the name of the call: ${hangingCall}()`, async () => {
      const check = createHangingChecks(hangingCall).find((candidate) => candidate.name === name);
      await assert.rejects(check!.run(), (error: Error) => {
        assert.ok(error.message.startsWith(`${name}: `), error.message);
        assert.match(error.message, new RegExp(`${hangingCall}\\(\\) hangs: timed out after 20 ms`));
        return true;
      });
    });

  it("reports an earlier failure instead of the hanging close()", async () => {
    const checks = sessionDriverChecks({
      create: async () => {
        const driver = new MemoryDriver();
        await driver.open();
        return Object.assign(driver, { close: () => neverPromise, get: () => Promise.resolve(undefined) });
      },
      second: () => neverPromise,
      reopen: () => neverPromise,
      clean: () => Promise.resolve(),
      timeoutMs: 20,
    });
    const check = checks.find(({ name }) => name === "create: stores every field of a session");
    await assert.rejects(check!.run(), (error: Error) => !error.message.includes("hangs"));
  });
});
