import assert from "node:assert/strict";
import { pause } from "../check.js";
import type { ChainData } from "../../ports/session-driver.js";
import type { Message } from "../../ports/message.js";
import { race, type RaceCall, type LeaseState } from "./race.js";
import {
  aHolder,
  aMessage,
  anAsk,
  anInstruction,
  answerAsk,
  aResolution,
  aRun,
  aSession,
  at,
  change,
  sendInstruction,
  releaseLease,
  withdrawInstruction,
} from "./rule.js";
import type { StoreUnderTest, StoreRules } from "./rule.js";

const USAGE = { promptTokens: 1, completionTokens: 2, totalTokens: 3, cost: 0.25 };
const ENDED_RUN = { state: "finished", endedBy: "model", endedAt: at(9), startedAt: at(1) } as const;
const WITH_HEAD = { head: { messages: true } };
const createDelta = (text: string) => [{ messageId: "a1-4", part: 0, type: "text" as const, text }];

/** Returns the data of a chain that the store does not contain. */
function aNewChain(): ChainData {
  const messages: { message: Message; hiddenBy: string }[] = [{ message: aMessage("z", 1), hiddenBy: "" }];
  const session = aSession("z", { alias: "zx", lastSeq: 1, projectDir: "/one" });
  const runs = [aRun("zr", "z", { idempotencyKey: "k1", state: "finished", endedBy: "model", endedAt: at(1) })];
  return { sessions: [{ session, hiddenBy: "", view: [], messages }], snapshots: [], runs, asks: [] };
}

const aRaceCall = (name: string, call: RaceCall["run"]): RaceCall => ({ name, run: call });

const WRITE = aRaceCall("write under the lease", (driver, fence) =>
  driver.write(
    "a1",
    change({
      fence,
      add: [aMessage("a1", 5)],
      append: createDelta("text "),
      set: { title: "written", updatedAt: at(10) },
      usage: USAGE,
      runs: [aRun("r1", "a", ENDED_RUN)],
    }),
  ),
);
const WRITE_MORE = aRaceCall("another write under the lease", (driver, fence) =>
  driver.write(
    "a1",
    change({
      fence,
      add: [aMessage("a1", 6)],
      append: createDelta("more "),
      set: { model: "m2", updatedAt: at(11) },
      usage: USAGE,
      runs: [aRun("r2", "a", { startedAt: at(2) })],
    }),
  ),
);
const WRITE_SAME_SEQ = aRaceCall("write of the same seq under the lease", (driver, fence) =>
  driver.write("a1", change({ fence, add: [aMessage("a1", 5, { id: "same" })], set: { title: "same" }, usage: USAGE })),
);
const SET_TITLE = aRaceCall("write of a title", (driver) =>
  driver.write("a", change({ set: { title: "titled", hasFinalTitle: true }, usage: USAGE })),
);
const SET_MODE = aRaceCall("write of a mode", (driver) =>
  driver.write("a1", change({ set: { mode: "plan" }, usage: USAGE })),
);
const WRITE_MANY_FIELDS = aRaceCall("write of many fields", (driver, fence) =>
  driver.write(
    "a",
    change({
      fence,
      revert: { id: "s", after: 3, createdAt: at(5) },
      add: [aMessage("a", 6)],
      set: { title: "all", projectDir: "/two", updatedAt: at(12) },
      usage: USAGE,
      runs: [aRun("r1", "a", ENDED_RUN), aRun("r2", "a", { startedAt: at(2) })],
      asks: [anAsk("q", "a", { state: "withdrawn", closedAt: at(2) }), anAsk("p", "a")],
    }),
  ),
);
const WRITE_UNLEASED = aRaceCall("write of a message without a lease", (driver) =>
  driver.write("a1", change({ add: [aMessage("a1", 5)] })),
);
const FINISH_MESSAGE = aRaceCall("finish of a growing message", (driver, fence) =>
  driver.write("a1", change({ fence, finish: [aMessage("a1", 4, { role: "assistant" })] })),
);
const REVERT = aRaceCall("revert", (driver, fence) =>
  driver.write("a1", change({ fence, revert: { id: "s", after: 3, createdAt: at(5) } })),
);
const WRITE_AND_RELEASE = aRaceCall("write that releases the lease", (driver, fence) =>
  driver.write("a1", change({ fence, add: [aMessage("a1", 5)], runs: [aRun("r1", "a", ENDED_RUN)], release: true })),
);
const RELEASE = aRaceCall("release of the lease", (driver, fence) => releaseLease(driver, { rootId: "a", fence }));
const RENEW = aRaceCall("renewal of the lease", (driver) => driver.lease("a", aHolder("h1"), 90_000, WITH_HEAD));
const ACQUIRE = aRaceCall("lease request", (driver) => driver.lease("a1", aHolder("h2"), 60_000, WITH_HEAD));
const ACQUIRE_CACHED = aRaceCall("lease request with a cached fence", async (driver, fence) => {
  const leaseOptions = { head: { messages: true, cachedFence: fence } };
  const lease = await driver.lease("a", aHolder("h2"), 60_000, leaseOptions);
  // A driver may return messages that the caller already has.
  if ("heldBy" in lease || !lease.head || lease.previous !== fence) return lease;
  return { ...lease, head: { ...lease.head, messages: [] } };
});
const ACQUIRE_BY_THIRD = aRaceCall("lease request of a third holder", (driver) =>
  driver.lease("a", aHolder("h3"), 60_000, WITH_HEAD),
);
const REPLACE = aRaceCall("lease request that replaces the holder", (driver, fence) =>
  driver.lease("a", aHolder("h2"), 60_000, { fenceToReplace: fence, ...WITH_HEAD }),
);
const REPLACE_BY_THIRD = aRaceCall("second lease request that replaces the holder", (driver, fence) =>
  driver.lease("a1", aHolder("h3"), 60_000, { fenceToReplace: fence, ...WITH_HEAD }),
);
const ACQUIRE_NEW = aRaceCall("lease request before the session exists", (driver) =>
  driver.lease("z", aHolder("h2"), 60_000),
);
const ACQUIRE_NEW_BY_THIRD = aRaceCall("second lease request before the session exists", (driver) =>
  driver.lease("z", aHolder("h3"), 60_000),
);

const CREATE_FOLLOW_UP = aRaceCall("create of a follow-up", (driver, fence) =>
  driver.create({
    session: aSession("a2", { chain: { root: "a", index: 2 }, lastSeq: 4, projectDir: "/one" }),
    view: [aMessage("a", 1)],
    messages: [aMessage("a2", 5)],
    run: aRun("r3", "a", { startedAt: at(3) }),
    fence,
  }),
);
const CREATE_SAME_INDEX = aRaceCall("create of a follow-up with the same index", (driver) =>
  driver.create({ session: aSession("y", { chain: { root: "a", index: 2 } }) }),
);
const DELETE = aRaceCall("delete", (driver) => driver.delete(["a1"]));
const DELETE_BY_OTHER_ID = aRaceCall("delete by another id of the chain", (driver) => driver.delete(["a"]));
const INSTRUCT = aRaceCall("instruction", (driver) => sendInstruction(driver, anInstruction("i2", "a1")));
const INSTRUCT_SAME_ID = aRaceCall("instruction with the same id", (driver) =>
  sendInstruction(driver, anInstruction("i2", "a", { text: "again" })),
);
const INSTRUCT_MORE = aRaceCall("another instruction", (driver) => sendInstruction(driver, anInstruction("i0", "a")));
const WITHDRAW_INSTRUCTION = aRaceCall("withdrawal of an instruction", (driver) =>
  withdrawInstruction(driver, "a", "i1"),
);
const CONSUME_INSTRUCTION = aRaceCall("write that consumes the instruction", (driver, fence) =>
  driver.write("a1", change({ fence, consumedInstructions: ["i1"] })),
);
const ANSWER = aRaceCall("answer", (driver) => answerAsk(driver, "a1", "q", aResolution("allow", "one")));
const ANSWER_AGAIN = aRaceCall("another answer", (driver) => answerAsk(driver, "a", "q", aResolution("reject", "two")));
const WITHDRAW_ASK = aRaceCall("write that withdraws the ask", (driver, fence) =>
  driver.write("a1", change({ fence, asks: [anAsk("q", "a", { state: "withdrawn", closedAt: at(2) })] })),
);

const WRITE_KEY = aRaceCall("write of a run with a key", (driver, fence) =>
  driver.write("a1", change({ fence, runs: [aRun("r4", "a", { idempotencyKey: "k1" })], set: { title: "key" } })),
);
const CREATE_KEY = aRaceCall("create with a run with the same key", (driver) =>
  driver.create({ session: aSession("y", { projectDir: "/one" }), run: aRun("r5", "y", { idempotencyKey: "k1" }) }),
);
const CREATE_OLD_KEY = aRaceCall("create with a run with an old key", (driver) =>
  driver.create({ session: aSession("y"), run: aRun("r5", "y", { idempotencyKey: "k0" }) }),
);
const FORGET_KEYS = aRaceCall("removal of old keys", async (driver) => driver.forgetKeys?.(at(8)));
const CREATE = aRaceCall("create", (driver) =>
  driver.create({ session: aSession("z", { projectDir: "/two" }), messages: [aMessage("z", 1, { id: "first" })] }),
);
const CREATE_SAME_ID = aRaceCall("create with the same id", (driver) =>
  driver.create({ session: aSession("z", { title: "same", projectDir: "/one" }), messages: [aMessage("z", 1)] }),
);
const CREATE_ALIAS = aRaceCall("create with that id as an alias", (driver) =>
  driver.create({ session: aSession("y", { alias: "z", projectDir: "/one" }) }),
);
const LOAD = aRaceCall("load", (driver) => driver.load(aNewChain()));
const LOAD_SAME = aRaceCall("load of the same chain", (driver) => driver.load(aNewChain()));

const MOVE = aRaceCall("move to another folder", (driver) =>
  driver.write("a1", change({ set: { projectDir: "/two" } })),
);
const MOVE_ELSEWHERE = aRaceCall("move to a third folder", (driver) =>
  driver.write("a", change({ set: { projectDir: "/three" } })),
);
const MOVE_OTHER = aRaceCall("move of another session", (driver) =>
  driver.write("other", change({ set: { projectDir: "/one" } })),
);
const WRITE_FIRST_MESSAGE = aRaceCall("write of a session's first message", (driver) =>
  driver.write("other", change({ add: [aMessage("other", 1)], set: { updatedAt: at(3) } })),
);
const SET_UPDATED_AT = aRaceCall("write of a later updatedAt", (driver) =>
  driver.write("other", change({ set: { updatedAt: at(2), model: "m3" } })),
);
const DELETE_OTHER = aRaceCall("delete of another session", (driver) => driver.delete(["other"]));
const LIST = aRaceCall("list", (driver) => driver.list({ limit: 9 }));
const LIST_FOLDER = aRaceCall("list of a folder", (driver) => driver.list({ limit: 9, projectDir: "/one" }));
const LIST_EMPTY = aRaceCall("list of empty sessions", (driver) => driver.list({ limit: 9, emptyBefore: at(99) }));
const DUMP = aRaceCall("dump", (driver) => driver.dump("a1"));
const READ_HEAD = aRaceCall("head", (driver) => driver.head("x"));

type RacePair = readonly [first: RaceCall, second: RaceCall, leaseState?: LeaseState];

/** Runs each pair in both orders, so that each call is held once. */
async function runRaces(store: StoreUnderTest, pairs: readonly RacePair[]): Promise<void> {
  for (const [first, second, leaseState = "held"] of pairs) {
    await race(store, leaseState, first, second);
    if (first !== second) await race(store, leaseState, second, first);
  }
}

/** Runs each change concurrently with a reader, once for each part of the store at which the change can be held. */
async function runReaderRaces(store: StoreUnderTest, pairs: readonly RacePair[]): Promise<void> {
  for (const [change, reader, leaseState = "held"] of pairs)
    for (let part = 0; await race(store, leaseState, change, reader, part); part++) if (!store.canHold) break;
}

export const raceRules: StoreRules = {
  "hold: if the fixture can hold a change, no reader sees the held change before its release": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a") });
    const heldStore = await store.hold(0);
    if (!heldStore) return;
    let isDone = false;
    const heldWrite = driver.write("a", change({ set: { title: "new" } })).finally(() => (isDone = true));
    while (!isDone && (await heldStore.waiting()) === 0) await pause(1);
    assert.ok(!isDone, "the change was not held");
    const secondDriver = await store.getSecond();
    assert.equal((await secondDriver.get("a"))?.title, "Title of a");
    await heldStore.resume();
    await heldWrite;
    assert.equal((await secondDriver.get("a"))?.title, "new");
  },
  "race: a write completes before its lease is replaced and is part of the head, or it is rejected": (store) =>
    runRaces(store, [
      [WRITE, REPLACE],
      [WRITE_AND_RELEASE, REPLACE],
      [CREATE_FOLLOW_UP, REPLACE],
      [WRITE, RELEASE],
      [WRITE, RENEW],
      [WRITE_AND_RELEASE, ACQUIRE],
      [WRITE_AND_RELEASE, WRITE_MORE],
      [WRITE_AND_RELEASE, ACQUIRE_CACHED],
      [WRITE_UNLEASED, ACQUIRE, "free"],
      [WRITE_UNLEASED, ACQUIRE_CACHED, "free"],
      [CREATE_SAME_INDEX, ACQUIRE_CACHED, "free"],
    ]),
  "race: of concurrent lease requests one succeeds, and the others receive its holder": (store) =>
    runRaces(store, [
      [ACQUIRE, ACQUIRE_BY_THIRD, "free"],
      [REPLACE, REPLACE_BY_THIRD],
      [REPLACE, RENEW],
      [REPLACE, RELEASE],
      [RELEASE, ACQUIRE],
      [RENEW, ACQUIRE],
      [RENEW, RELEASE],
      [ACQUIRE_NEW, ACQUIRE_NEW_BY_THIRD],
    ]),
  "race: concurrent changes of a chain are all kept": (store) =>
    runRaces(store, [
      [WRITE, WRITE_MORE],
      [WRITE, WRITE_SAME_SEQ],
      [WRITE, SET_TITLE],
      [SET_TITLE, SET_MODE],
      [WRITE, FINISH_MESSAGE],
      [WRITE, REVERT],
      [WRITE, CREATE_FOLLOW_UP],
      [REVERT, CREATE_FOLLOW_UP],
      [WRITE, MOVE],
    ]),
  "race: a deleted chain leaves nothing, whatever runs concurrently": (store) =>
    runRaces(store, [
      [DELETE, WRITE],
      [DELETE, SET_TITLE],
      [DELETE, CREATE_FOLLOW_UP],
      [DELETE, CREATE_SAME_INDEX],
      [DELETE, INSTRUCT],
      [DELETE, WITHDRAW_INSTRUCTION],
      [DELETE, ANSWER],
      [DELETE, REPLACE],
      [DELETE, WRITE_AND_RELEASE],
      [DELETE, DELETE_BY_OTHER_ID],
      [DELETE, MOVE],
    ]),
  "race: an id, an alias, an index and a run's key have one owner": (store) =>
    runRaces(store, [
      [CREATE, CREATE_SAME_ID],
      [CREATE, CREATE_ALIAS],
      [CREATE_FOLLOW_UP, CREATE_SAME_INDEX],
      [WRITE_KEY, CREATE_KEY],
      ...(store.driver.forgetKeys
        ? ([
            [FORGET_KEYS, CREATE_OLD_KEY],
            [FORGET_KEYS, WRITE],
          ] as const)
        : []),
    ]),
  "race: of two loads with common ids one succeeds, and the other has no effect": (store) =>
    runRaces(store, [
      [LOAD, LOAD_SAME],
      [LOAD, CREATE],
      [LOAD, CREATE_ALIAS],
      [LOAD, CREATE_KEY],
      [LOAD, WRITE_KEY],
    ]),
  "race: one answer to an ask is accepted, an instruction is removed once, and instructions keep their order": (
    store,
  ) =>
    runRaces(store, [
      [ANSWER, ANSWER_AGAIN],
      [ANSWER, WITHDRAW_ASK],
      [WITHDRAW_INSTRUCTION, WITHDRAW_INSTRUCTION],
      [WITHDRAW_INSTRUCTION, CONSUME_INSTRUCTION],
      [INSTRUCT, INSTRUCT_SAME_ID],
      [INSTRUCT, INSTRUCT_MORE],
    ]),
  "race: an instruction is returned by the write that releases the lease, or is written after it": (store) =>
    runRaces(store, [
      [WRITE_AND_RELEASE, INSTRUCT],
      [WRITE_AND_RELEASE, WITHDRAW_INSTRUCTION],
    ]),
  "race: totals are correct after concurrent creates, deletes and moves": (store) =>
    runRaces(store, [
      [CREATE, DELETE_OTHER],
      [CREATE, CREATE_KEY],
      [MOVE, MOVE_ELSEWHERE],
      [MOVE, DELETE_OTHER],
      [MOVE_OTHER, DELETE_OTHER],
      [MOVE_OTHER, DELETE],
      [MOVE_OTHER, WRITE_FIRST_MESSAGE],
      [WRITE_FIRST_MESSAGE, DELETE_OTHER],
      [WRITE_FIRST_MESSAGE, SET_UPDATED_AT],
      [LOAD, MOVE],
      [DELETE_OTHER, DELETE_OTHER],
    ]),
  "race: a dump contains a concurrent change completely or not at all": (store) =>
    runReaderRaces(store, [
      [WRITE_MANY_FIELDS, DUMP],
      [CREATE_FOLLOW_UP, DUMP],
      [DELETE, DUMP],
    ]),
  "race: the head contains a concurrent change completely or not at all": (store) =>
    runReaderRaces(store, [
      [WRITE_MANY_FIELDS, READ_HEAD],
      [CREATE_FOLLOW_UP, READ_HEAD],
    ]),
  "race: a list and its total reflect the same state": (store) =>
    runReaderRaces(store, [
      [CREATE_ALIAS, LIST],
      [MOVE_OTHER, LIST_FOLDER],
      [WRITE_FIRST_MESSAGE, LIST_EMPTY],
    ]),
};
