// Random sequences of operations on every driver, compared with the memory driver. SEED, RUNS and STEPS repeat and
// extend them.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Message, RunRecord, RunState, Session } from "gantry";
import type { SessionChange, SessionDriver } from "gantry/plugin";
import { MemoryDriver } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import {
  aHolder,
  aMessage,
  anAsk,
  anInstruction,
  answerAsk,
  aResolution,
  aRun,
  aSession,
  findAsk,
  at,
  sendInstruction,
  findNewest,
  releaseLease,
  findRun,
  findSnapshots,
  withdrawInstruction,
} from "../../../src/testing/session-driver/rule.js";
import { ALL_STORES } from "../../helpers/stores.js";
import { fc } from "../../helpers/properties.js";
import { seedOf } from "../../helpers/random.js";

const SEED = seedOf();
const RUNS = Number(process.env["RUNS"] ?? 10);
const STEPS = Number(process.env["STEPS"] ?? 40);
/**
 * Whether the sequences are long (`npm run soak`). Long sequences have exactly STEPS steps, are compared 100 times, and
 * are not shrunk.
 */
const IS_LONG = STEPS >= 1000;
const COMPARE_EVERY = IS_LONG ? Math.floor(STEPS / 100) : 5;

const IDS = ["a", "b", "c", "D/d"];
const HOLDERS = ["h1", "h2"];
const DIRS = ["/one", "/two"];

const id = fc.constantFrom(...IDS);
/** A session of a chain: the original or one of its follow-ups. */
const place = fc.tuple(id, fc.nat(2)).map(([root, index]) => (index === 0 ? root : `${root}.${index}`));
const small = fc.nat(12);
const text = fc.oneof(fc.string({ maxLength: 5 }), fc.string({ unit: "binary", maxLength: 5 }));
const usage = fc.record({ promptTokens: small, completionTokens: small, totalTokens: small, cost: small });
const fence = fc.constantFrom("none", "current", "old" as const);
const alias = fc.constantFrom("", "x", "y", "a");

const STATES: RunState[] = ["running", "waiting", "finished"];
/** Few ids, keys and times, so that they collide. */
const run = fc.record({
  id: fc.constantFrom("r1", "r2", "r3", "r4"),
  idempotencyKey: fc.constantFrom("", "", "k1", "k2"),
  state: fc.constantFrom(...STATES),
  startedAt: fc.nat(2).map(at),
});

const instruction = fc.constantFrom("i1", "i2", "i3");
const ask = fc.constantFrom("q1", "q2");

const set = fc.record(
  {
    title: text,
    hasFinalTitle: fc.boolean(),
    model: text,
    projectDir: fc.constantFrom(...DIRS),
    updatedAt: small.map(at),
  },
  { requiredKeys: [] },
);

/** Sequence numbers are relative to the last one of the chain: 0 is taken, 1 is next. */
const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("create"),
      id,
      alias,
      n: fc.nat(3),
      dir: fc.constantFrom(...DIRS),
      when: small,
      run: fc.option(run, { nil: undefined }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("follow"), id, index: fc.integer({ min: 1, max: 2 }), n: fc.nat(2), fence }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("run"),
      place,
      runs: fc.array(run, { minLength: 1, maxLength: 2 }),
      fence,
      followed: fc.array(instruction, { maxLength: 1 }),
      release: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("instruct"), place, instruction }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("withdraw"), place, instruction }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("ask"), place, ask, fence, state: fc.constantFrom("open", "withdrawn") }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("answer"), place, ask }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("set"), place, set, usage: fc.option(usage, { nil: undefined }), fence }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("add"),
      place,
      from: fc.nat(2),
      n: fc.nat(2),
      finished: fc.boolean(),
      fence,
      release: fc.boolean(),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("append"), place, part: fc.nat(2), text, pick: fc.nat(3) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("finish"), place, text, pick: fc.nat(3) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("cut"), place, after: small }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("restore"), place, pick: fc.nat(2), swap: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("delete"), places: fc.array(place, { maxLength: 2 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("lease"),
      place,
      holder: fc.constantFrom(...HOLDERS),
      gone: fc.boolean(),
      head: fc.constantFrom("none", "whole", "bare"),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("release"), id }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("reopen") }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** State between the steps of one driver. */
interface Side {
  driver: SessionDriver;
  reopen: () => Promise<SessionDriver>;
  fences: Map<string, number>;
  count: number;
}

function changeOf(fields: Partial<SessionChange>): SessionChange {
  return { fence: null, sync: false, ...fields };
}

/** Runs one step. Returns the part of its outcome that does not depend on how a driver counts fences. */
async function take(side: Side, operation: Step): Promise<unknown> {
  const { driver } = side;
  const rootOf = (at: string): string => at.replace(/\.\d$/, "");
  const fenceOf = (at: string, which: string): number | null =>
    which === "none" ? null : (side.fences.get(rootOf(at)) ?? -1) - (which === "old" ? 1 : 0);
  const all = async (at: string): Promise<Message[]> => {
    const { sessions = [] } = (await driver.dump(at)) ?? {};
    return sessions.flatMap(({ messages }) => messages.map(({ message }) => message)).sort((a, b) => a.seq - b.seq);
  };
  const lastOf = async (at: string): Promise<number> => (await all(at)).at(-1)?.seq ?? 0;
  const started = (at: string, fields: Partial<RunRecord>): RunRecord => aRun("", at, fields);
  const messagesFrom = (from: number, count: number, at: string, fields: Partial<Message> = {}): Message[] =>
    Array.from({ length: count }, (_, n) => aMessage(at, from + n, { id: `m${from + n}`, ...fields }));
  const pick = async (at: string, which: number): Promise<Pick<Message, "id" | "parts">> => {
    const growing = (await all(at)).filter((message) => !message.finished);
    return growing[which % Math.max(1, growing.length)] ?? { id: "none", parts: [] };
  };
  side.count++;
  switch (operation.do) {
    case "create":
      return driver.create({
        session: aSession(operation.id, {
          alias: operation.alias,
          projectDir: operation.dir,
          updatedAt: at(operation.when),
        }),
        messages: messagesFrom(1, operation.n, operation.id),
        ...(operation.run ? { run: started(operation.id, operation.run) } : {}),
        fence: operation.run ? fenceOf(operation.id, "current") : null,
      });
    case "follow": {
      const session = aSession(`${operation.id}.${operation.index}`, {
        chain: { root: operation.id, index: operation.index },
      });
      const last = await lastOf(operation.id);
      const messages = messagesFrom(last + 1, operation.n, session.id);
      return driver.create({
        session,
        messages,
        view: messagesFrom(1, operation.n, "v"),
        fence: fenceOf(operation.id, operation.fence),
      });
    }
    case "run": {
      const runs = operation.runs.map((fields) => started(operation.place, fields));
      const { followed, release } = operation;
      return driver.write(
        operation.place,
        changeOf({ runs, fence: fenceOf(operation.place, operation.fence), consumedInstructions: followed, release }),
      );
    }
    case "set": {
      const change = changeOf({ set: operation.set, fence: fenceOf(operation.place, operation.fence) });
      return driver.write(operation.place, operation.usage ? { ...change, usage: operation.usage } : change);
    }
    case "add": {
      const add = messagesFrom(
        Math.max(1, (await lastOf(operation.place)) + operation.from),
        operation.n,
        operation.place,
        {
          finished: operation.finished,
          parts: [],
        },
      );
      const { finished: sync, release } = operation;
      return driver.write(
        operation.place,
        changeOf({ add, fence: fenceOf(operation.place, operation.fence), sync, release }),
      );
    }
    case "instruct":
      return sendInstruction(driver, anInstruction(operation.instruction, operation.place, { text: `${side.count}` }));
    case "withdraw":
      return withdrawInstruction(driver, operation.place, operation.instruction);
    case "ask": {
      const newAsk = anAsk(operation.ask, operation.place, {
        state: operation.state as "open",
        createdAt: at(side.count % 3),
      });
      return driver.write(
        operation.place,
        changeOf({ asks: [newAsk], fence: fenceOf(operation.place, operation.fence) }),
      );
    }
    case "answer":
      return answerAsk(driver, operation.place, operation.ask, aResolution("allow", `${side.count}`));
    case "append": {
      const { id: messageId, parts } = await pick(operation.place, operation.pick);
      const part = Math.min(operation.part, parts.length);
      const deltas = [0, 1].map((n) => ({ messageId, part, type: "text" as const, text: `${operation.text}${n}` }));
      return driver.write(operation.place, changeOf({ append: deltas }));
    }
    case "finish": {
      const parts = [{ type: "text" as const, text: operation.text }];
      const final = aMessage(operation.place, 1, {
        id: (await pick(operation.place, operation.pick)).id,
        parts,
        role: "assistant",
      });
      return driver.write(operation.place, changeOf({ finish: [final], sync: true }));
    }
    case "cut":
      return driver.write(
        operation.place,
        changeOf({ revert: { id: `s${side.count}`, after: operation.after, createdAt: at(0) } }),
      );
    case "restore": {
      const snapshots = await findSnapshots(driver, operation.place);
      const snapshot = snapshots[operation.pick % Math.max(1, snapshots.length)];
      const cut = { id: `s${side.count}`, after: snapshot?.after ?? 0, createdAt: at(0) };
      return driver.write(
        operation.place,
        changeOf({ restore: snapshot?.id ?? "none", ...(operation.swap ? { revert: cut } : {}) }),
      );
    }
    case "delete":
      return driver.delete(operation.places);
    case "lease": {
      const otherHolder = HOLDERS.find((holder) => holder !== operation.holder);
      const options = operation.head === "none" ? {} : { head: { messages: operation.head === "whole" } };
      const first = await driver.lease(operation.place, aHolder(operation.holder), 600_000, options);
      const isGone = operation.gone && "heldBy" in first && first.heldBy.holder.id === otherHolder;
      const lease = isGone
        ? await driver.lease(operation.place, aHolder(operation.holder), 600_000, {
            fenceToReplace: first.heldBy.fence,
            ...options,
          })
        : first;
      if ("heldBy" in lease) return lease.heldBy.holder.id;
      const before = side.fences.get(lease.rootId) ?? 0;
      side.fences.set(lease.rootId, lease.fence);
      assert.ok(lease.fence >= before, "fences only grow");
      // A driver may return messages that were not requested.
      const head = lease.head && { ...lease.head, ...(operation.head === "bare" && { messages: [] }) };
      return comparable([lease.rootId, lease.holder.id, lease.fence > before, head]);
    }
    case "release": {
      return releaseLease(driver, { rootId: operation.id, fence: side.fences.get(operation.id) ?? -1 });
    }
    case "reopen":
      await driver.close();
      side.driver = await side.reopen();
      return undefined;
  }
}

/** Everything that a client can see. */
async function visible(driver: SessionDriver): Promise<unknown> {
  const places = IDS.flatMap((root) => [root, `${root}.1`, `${root}.2`]);
  const sessions: (Session | undefined)[] = [];
  const details: unknown[] = [];
  for (const sessionId of places) {
    sessions.push(await driver.get(sessionId));
    details.push([
      (await findNewest(driver, sessionId))?.id,
      await driver.messages(sessionId),
      await driver.messages(sessionId, { scope: "chain" }),
      await driver.messages(sessionId, { scope: "chain", before: 6, limit: 2 }),
      await driver.head(sessionId),
      await findSnapshots(driver, sessionId),
      await driver.instructions(sessionId).catch((error: unknown) => (error as { code?: unknown }).code),
      await driver.asks({ sessionId: sessionId, limit: 99 }),
      await driver.runs({ sessionId: sessionId, limit: 99 }),
      await driver.dump(sessionId),
    ]);
  }
  return {
    sessions,
    details,
    aliases: [(await driver.get("x"))?.id, (await driver.get("y"))?.id],
    runs: [
      await driver.runs({ limit: 99 }),
      await driver.runs({ limit: 2, before: { startedAt: at(1), id: "r3" } }),
      await driver.runs({ limit: 99, states: ["running", "waiting"] }),
      await findRun(driver, "r1"),
    ],
    asks: [await driver.asks({ limit: 99 }), await driver.asks({ limit: 1, open: true }), await findAsk(driver, "q1")],
    lists: [
      await driver.list({ limit: 99 }),
      await driver.list({ limit: 2, offset: 1 }),
      await driver.list({ limit: 2, projectDir: "/one" }),
      await driver.list({ limit: 99, search: "t" }),
      await driver.list({ limit: 99, emptyBefore: at(6) }),
      await driver.list({ limit: 2, before: { updatedAt: at(5), id: "b" } }),
    ],
  };
}

async function outcome(side: Side, operation: Step): Promise<unknown> {
  try {
    return { value: await take(side, operation) };
  } catch (error) {
    return { code: (error as { code?: unknown }).code };
  }
}

/** A driver may replace unpaired surrogates, so all of them are replaced on both sides. */
function comparable(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value ?? null).replace(/\\ud[89a-f][0-9a-f]{2}/gi, "\ufffd"));
}

describe("random sequences of operations", () => {
  for (const [name, makeStore] of ALL_STORES.filter(([kind]) => kind !== "memory")) {
    it(`have the same results in ${name} and in memory (SEED=${SEED} RUNS=${RUNS} STEPS=${STEPS})`, async () => {
      const property = fc.asyncProperty(
        fc.array(step, { minLength: IS_LONG ? STEPS : 1, maxLength: STEPS, size: "max" }),
        async (steps) => {
          const ends: (() => Promise<void> | void)[] = [];
          const make = await makeStore({ after: (end) => void ends.push(end) });
          const store = new MemoryDocuments();
          const start = async (driver: SessionDriver): Promise<SessionDriver> => {
            await driver.open();
            return driver;
          };
          const sides: Side[] = [];
          for (const reopen of [() => start(new MemoryDriver(store)), () => start(make())]) {
            sides.push({ driver: await reopen(), reopen, fences: new Map(), count: 0 });
          }
          const [model, real] = sides as [Side, Side];
          try {
            for (const [n, operation] of steps.entries()) {
              const expected = await outcome(model, operation);
              assert.deepEqual(await outcome(real, operation), expected, `step ${n}: ${JSON.stringify(operation)}`);
              if (n % COMPARE_EVERY === COMPARE_EVERY - 1 || n === steps.length - 1) {
                assert.deepEqual(
                  comparable(await visible(real.driver)),
                  comparable(await visible(model.driver)),
                  `step ${n}`,
                );
              }
            }
          } finally {
            for (const side of sides) await side.driver.close();
            for (const end of ends) await end();
          }
        },
      );
      await fc.assert(property, { numRuns: RUNS, endOnFailure: IS_LONG });
    });
  }
});
