// Random sequences of operations on every driver, compared with the memory driver. The environment variables SEED, RUNS
// and STEPS repeat and extend the sequences.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Message, RunRecord, RunState, Session } from "gantry";
import type { SessionChange, SessionDriver } from "gantry/plugin";
import { MemoryDriver } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import {
  answerAsk,
  findAsk,
  findNewest,
  findRun,
  findSnapshots,
  releaseLease,
  sendInstruction,
  withdrawInstruction,
} from "../../../src/testing/session-driver/driver-calls.js";
import {
  aHolder,
  aMessage,
  anAsk,
  anInstruction,
  aResolution,
  aRun,
  aSession,
  at,
} from "../../../src/testing/session-driver/records.js";
import { ALL_STORES } from "../../helpers/stores.js";
import { fc } from "../../helpers/fast-check.js";
import { readSeed } from "../../helpers/random.js";

const SEED = readSeed();
const RUN_COUNT = Number(process.env["RUNS"] ?? 10);
const STEP_COUNT = Number(process.env["STEPS"] ?? 40);
/**
 * Whether the sequences are long (`npm run soak`). Long sequences have exactly STEPS steps, are compared 100 times, and
 * are not shrunk.
 */
const HAS_LONG_SEQUENCES = STEP_COUNT >= 1000;
const STEPS_PER_COMPARISON = HAS_LONG_SEQUENCES ? Math.floor(STEP_COUNT / 100) : 5;

const ROOT_IDS = ["a", "b", "c", "D/d"];
const HOLDERS = ["h1", "h2"];
const PROJECT_DIRS = ["/one", "/two"];

const rootIds = fc.constantFrom(...ROOT_IDS);
/** A session of a chain: the original or one of its follow-ups. */
const sessionIds = fc.tuple(rootIds, fc.nat(2)).map(([root, index]) => (index === 0 ? root : `${root}.${index}`));
const smallNumbers = fc.nat(12);
const texts = fc.oneof(fc.string({ maxLength: 5 }), fc.string({ unit: "binary", maxLength: 5 }));
const usages = fc.record({
  promptTokens: smallNumbers,
  completionTokens: smallNumbers,
  totalTokens: smallNumbers,
  cost: smallNumbers,
});
const fences = fc.constantFrom("none", "current", "old" as const);
const aliases = fc.constantFrom("", "x", "y", "a");

const STATES: RunState[] = ["running", "waiting", "finished"];
/** Few ids, keys and times, so that they collide. */
const runRecords = fc.record({
  id: fc.constantFrom("r1", "r2", "r3", "r4"),
  idempotencyKey: fc.constantFrom("", "", "k1", "k2"),
  state: fc.constantFrom(...STATES),
  startedAt: fc.nat(2).map(at),
});

const instructionIds = fc.constantFrom("i1", "i2", "i3");
const askIds = fc.constantFrom("q1", "q2");

const updates = fc.record(
  {
    title: texts,
    hasFinalTitle: fc.boolean(),
    model: texts,
    projectDir: fc.constantFrom(...PROJECT_DIRS),
    updatedAt: smallNumbers.map(at),
  },
  { requiredKeys: [] },
);

/** A `seqOffset` is relative to the last sequence number of the chain: 0 is taken, 1 is the next. */
const operations = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant("create"),
      id: rootIds,
      alias: aliases,
      messageCount: fc.nat(3),
      projectDir: fc.constantFrom(...PROJECT_DIRS),
      updatedAtIndex: smallNumbers,
      run: fc.option(runRecords, { nil: undefined }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant("follow"),
      id: rootIds,
      index: fc.integer({ min: 1, max: 2 }),
      messageCount: fc.nat(2),
      fence: fences,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant("run"),
      sessionId: sessionIds,
      runs: fc.array(runRecords, { minLength: 1, maxLength: 2 }),
      fence: fences,
      consumedInstructions: fc.array(instructionIds, { maxLength: 1 }),
      release: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ type: fc.constant("instruct"), sessionId: sessionIds, instruction: instructionIds }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ type: fc.constant("withdraw"), sessionId: sessionIds, instruction: instructionIds }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant("ask"),
      sessionId: sessionIds,
      ask: askIds,
      fence: fences,
      state: fc.constantFrom("open", "withdrawn"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("answer"), sessionId: sessionIds, ask: askIds }) },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant("set"),
      sessionId: sessionIds,
      set: updates,
      usage: fc.option(usages, { nil: undefined }),
      fence: fences,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant("add"),
      sessionId: sessionIds,
      seqOffset: fc.nat(2),
      messageCount: fc.nat(2),
      finished: fc.boolean(),
      fence: fences,
      release: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant("append"),
      sessionId: sessionIds,
      part: fc.nat(2),
      text: texts,
      index: fc.nat(3),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ type: fc.constant("finish"), sessionId: sessionIds, text: texts, index: fc.nat(3) }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant("revert"), sessionId: sessionIds, after: smallNumbers }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant("restore"),
      sessionId: sessionIds,
      index: fc.nat(2),
      addsRevert: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ type: fc.constant("delete"), sessionIds: fc.array(sessionIds, { maxLength: 2 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant("lease"),
      sessionId: sessionIds,
      holder: fc.constantFrom(...HOLDERS),
      replacesLease: fc.boolean(),
      head: fc.constantFrom("none", "whole", "bare"),
    }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant("release"), id: rootIds }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("reopen") }) },
);
type Operation = typeof operations extends fc.Arbitrary<infer T> ? T : never;

/** One driver and the values that its next steps need. */
interface DriverState {
  driver: SessionDriver;
  reopen: () => Promise<SessionDriver>;
  fencesByRootId: Map<string, number>;
  stepCount: number;
}

function createChange(fields: Partial<SessionChange>): SessionChange {
  return { fence: null, sync: false, ...fields };
}

/** Runs one operation. Returns the part of the outcome that does not depend on how a driver counts fences. */
async function runOperation(state: DriverState, operation: Operation): Promise<unknown> {
  const { driver } = state;
  const toRootId = (sessionId: string): string => sessionId.replace(/\.\d$/, "");
  const findFence = (sessionId: string, fence: string): number | null =>
    fence === "none" ? null : (state.fencesByRootId.get(toRootId(sessionId)) ?? -1) - (fence === "old" ? 1 : 0);
  const readAllMessages = async (sessionId: string): Promise<Message[]> => {
    const { sessions = [] } = (await driver.dump(sessionId)) ?? {};
    return sessions.flatMap(({ messages }) => messages.map(({ message }) => message)).sort((a, b) => a.seq - b.seq);
  };
  const readLastSeq = async (sessionId: string): Promise<number> => (await readAllMessages(sessionId)).at(-1)?.seq ?? 0;
  const createRun = (sessionId: string, fields: Partial<RunRecord>): RunRecord => aRun("", sessionId, fields);
  const createMessages = (
    firstSeq: number,
    count: number,
    sessionId: string,
    fields: Partial<Message> = {},
  ): Message[] =>
    Array.from({ length: count }, (_, n) => aMessage(sessionId, firstSeq + n, { id: `m${firstSeq + n}`, ...fields }));
  const pickUnfinished = async (sessionId: string, index: number): Promise<Pick<Message, "id" | "parts">> => {
    const unfinishedMessages = (await readAllMessages(sessionId)).filter((message) => !message.finished);
    return unfinishedMessages[index % Math.max(1, unfinishedMessages.length)] ?? { id: "none", parts: [] };
  };
  state.stepCount++;
  switch (operation.type) {
    case "create":
      return driver.create({
        session: aSession(operation.id, {
          alias: operation.alias,
          projectDir: operation.projectDir,
          updatedAt: at(operation.updatedAtIndex),
        }),
        messages: createMessages(1, operation.messageCount, operation.id),
        ...(operation.run ? { run: createRun(operation.id, operation.run) } : {}),
        fence: operation.run ? findFence(operation.id, "current") : null,
      });
    case "follow": {
      const session = aSession(`${operation.id}.${operation.index}`, {
        chain: { root: operation.id, index: operation.index },
      });
      const lastSeq = await readLastSeq(operation.id);
      const messages = createMessages(lastSeq + 1, operation.messageCount, session.id);
      return driver.create({
        session,
        messages,
        view: createMessages(1, operation.messageCount, "v"),
        fence: findFence(operation.id, operation.fence),
      });
    }
    case "run": {
      const runs = operation.runs.map((fields) => createRun(operation.sessionId, fields));
      const { consumedInstructions, release } = operation;
      return driver.write(
        operation.sessionId,
        createChange({ runs, fence: findFence(operation.sessionId, operation.fence), consumedInstructions, release }),
      );
    }
    case "set": {
      const change = createChange({ set: operation.set, fence: findFence(operation.sessionId, operation.fence) });
      return driver.write(operation.sessionId, operation.usage ? { ...change, usage: operation.usage } : change);
    }
    case "add": {
      const add = createMessages(
        Math.max(1, (await readLastSeq(operation.sessionId)) + operation.seqOffset),
        operation.messageCount,
        operation.sessionId,
        {
          finished: operation.finished,
          parts: [],
        },
      );
      const { finished: sync, release } = operation;
      return driver.write(
        operation.sessionId,
        createChange({ add, fence: findFence(operation.sessionId, operation.fence), sync, release }),
      );
    }
    case "instruct":
      return sendInstruction(
        driver,
        anInstruction(operation.instruction, operation.sessionId, { text: `${state.stepCount}` }),
      );
    case "withdraw":
      return withdrawInstruction(driver, operation.sessionId, operation.instruction);
    case "ask": {
      const newAsk = anAsk(operation.ask, operation.sessionId, {
        state: operation.state as "open",
        createdAt: at(state.stepCount % 3),
      });
      return driver.write(
        operation.sessionId,
        createChange({ asks: [newAsk], fence: findFence(operation.sessionId, operation.fence) }),
      );
    }
    case "answer":
      return answerAsk(driver, operation.sessionId, operation.ask, aResolution("allow", `${state.stepCount}`));
    case "append": {
      const { id: messageId, parts } = await pickUnfinished(operation.sessionId, operation.index);
      const part = Math.min(operation.part, parts.length);
      const deltas = [0, 1].map((n) => ({ messageId, part, type: "text" as const, text: `${operation.text}${n}` }));
      return driver.write(operation.sessionId, createChange({ append: deltas }));
    }
    case "finish": {
      const parts = [{ type: "text" as const, text: operation.text }];
      const finalMessage = aMessage(operation.sessionId, 1, {
        id: (await pickUnfinished(operation.sessionId, operation.index)).id,
        parts,
        role: "assistant",
      });
      return driver.write(operation.sessionId, createChange({ finish: [finalMessage], sync: true }));
    }
    case "revert":
      return driver.write(
        operation.sessionId,
        createChange({ revert: { id: `s${state.stepCount}`, after: operation.after, createdAt: at(0) } }),
      );
    case "restore": {
      const snapshots = await findSnapshots(driver, operation.sessionId);
      const snapshot = snapshots[operation.index % Math.max(1, snapshots.length)];
      const rewind = { id: `s${state.stepCount}`, after: snapshot?.after ?? 0, createdAt: at(0) };
      return driver.write(
        operation.sessionId,
        createChange({ restore: snapshot?.id ?? "none", ...(operation.addsRevert ? { revert: rewind } : {}) }),
      );
    }
    case "delete":
      return driver.delete(operation.sessionIds);
    case "lease": {
      const otherHolder = HOLDERS.find((holder) => holder !== operation.holder);
      const options = operation.head === "none" ? {} : { head: { messages: operation.head === "whole" } };
      const firstResult = await driver.lease(operation.sessionId, aHolder(operation.holder), 600_000, options);
      const replacesLease =
        operation.replacesLease && "heldBy" in firstResult && firstResult.heldBy.holder.id === otherHolder;
      const lease = replacesLease
        ? await driver.lease(operation.sessionId, aHolder(operation.holder), 600_000, {
            fenceToReplace: firstResult.heldBy.fence,
            ...options,
          })
        : firstResult;
      if ("heldBy" in lease) return lease.heldBy.holder.id;
      const previousFence = state.fencesByRootId.get(lease.rootId) ?? 0;
      state.fencesByRootId.set(lease.rootId, lease.fence);
      assert.ok(lease.fence >= previousFence, "fence numbers never decrease");
      // A driver may return messages that were not requested.
      const head = lease.head && { ...lease.head, ...(operation.head === "bare" && { messages: [] }) };
      return toComparable([lease.rootId, lease.holder.id, lease.fence > previousFence, head]);
    }
    case "release": {
      return releaseLease(driver, { rootId: operation.id, fence: state.fencesByRootId.get(operation.id) ?? -1 });
    }
    case "reopen":
      await driver.close();
      state.driver = await state.reopen();
      return undefined;
  }
}

/** Reads all data that a client can see. */
async function readVisibleState(driver: SessionDriver): Promise<unknown> {
  const sessionIds = ROOT_IDS.flatMap((root) => [root, `${root}.1`, `${root}.2`]);
  const sessions: (Session | undefined)[] = [];
  const details: unknown[] = [];
  for (const sessionId of sessionIds) {
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

async function runAndCatchError(state: DriverState, operation: Operation): Promise<unknown> {
  try {
    return { value: await runOperation(state, operation) };
  } catch (error) {
    return { code: (error as { code?: unknown }).code };
  }
}

/** A driver may replace unpaired surrogates, so all of them are replaced on both sides. */
function toComparable(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value ?? null).replace(/\\ud[89a-f][0-9a-f]{2}/gi, "\ufffd"));
}

describe("random sequences of operations", () => {
  for (const [name, makeStore] of ALL_STORES.filter(([kind]) => kind !== "memory")) {
    it(`have the same results in ${name} and in memory (SEED=${SEED} RUNS=${RUN_COUNT} STEPS=${STEP_COUNT})`, async () => {
      const property = fc.asyncProperty(
        fc.array(operations, { minLength: HAS_LONG_SEQUENCES ? STEP_COUNT : 1, maxLength: STEP_COUNT, size: "max" }),
        async (steps) => {
          const cleanups: (() => Promise<void> | void)[] = [];
          const openDriver = await makeStore({ after: (cleanup) => void cleanups.push(cleanup) });
          const store = new MemoryDocuments();
          const open = async (driver: SessionDriver): Promise<SessionDriver> => {
            await driver.open();
            return driver;
          };
          const states: DriverState[] = [];
          for (const reopen of [() => open(new MemoryDriver(store)), () => open(openDriver())]) {
            states.push({ driver: await reopen(), reopen, fencesByRootId: new Map(), stepCount: 0 });
          }
          const [modelState, testedState] = states as [DriverState, DriverState];
          try {
            for (const [n, operation] of steps.entries()) {
              const expected = await runAndCatchError(modelState, operation);
              assert.deepEqual(
                await runAndCatchError(testedState, operation),
                expected,
                `step ${n}: ${JSON.stringify(operation)}`,
              );
              if (n % STEPS_PER_COMPARISON === STEPS_PER_COMPARISON - 1 || n === steps.length - 1) {
                assert.deepEqual(
                  toComparable(await readVisibleState(testedState.driver)),
                  toComparable(await readVisibleState(modelState.driver)),
                  `step ${n}`,
                );
              }
            }
          } finally {
            for (const state of states) await state.driver.close();
            for (const cleanup of cleanups) await cleanup();
          }
        },
      );
      await fc.assert(property, { numRuns: RUN_COUNT, endOnFailure: HAS_LONG_SEQUENCES });
    });
  }
});
