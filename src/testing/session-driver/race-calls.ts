import type { ChainData } from "../../ports/session-driver.js";
import type { Message } from "../../ports/message.js";
import { answerAsk, releaseLease, sendInstruction, withdrawInstruction } from "./driver-calls.js";
import { aHolder, aMessage, anAsk, anInstruction, aResolution, aRun, aSession, at, change } from "./records.js";
import type { RaceCall } from "./race.js";

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

export const WRITE = aRaceCall("write under the lease", (driver, fence) =>
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
export const WRITE_MORE = aRaceCall("another write under the lease", (driver, fence) =>
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
export const WRITE_SAME_SEQ = aRaceCall("write of the same seq under the lease", (driver, fence) =>
  driver.write("a1", change({ fence, add: [aMessage("a1", 5, { id: "same" })], set: { title: "same" }, usage: USAGE })),
);
export const SET_TITLE = aRaceCall("write of a title", (driver) =>
  driver.write("a", change({ set: { title: "titled", hasFinalTitle: true }, usage: USAGE })),
);
export const SET_MODE = aRaceCall("write of a mode", (driver) =>
  driver.write("a1", change({ set: { mode: "plan" }, usage: USAGE })),
);
export const WRITE_MANY_FIELDS = aRaceCall("write of many fields", (driver, fence) =>
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
export const WRITE_UNLEASED = aRaceCall("write of a message without a lease", (driver) =>
  driver.write("a1", change({ add: [aMessage("a1", 5)] })),
);
export const FINISH_MESSAGE = aRaceCall("finish of a growing message", (driver, fence) =>
  driver.write("a1", change({ fence, finish: [aMessage("a1", 4, { role: "assistant" })] })),
);
export const REVERT = aRaceCall("revert", (driver, fence) =>
  driver.write("a1", change({ fence, revert: { id: "s", after: 3, createdAt: at(5) } })),
);
export const WRITE_AND_RELEASE = aRaceCall("write that releases the lease", (driver, fence) =>
  driver.write("a1", change({ fence, add: [aMessage("a1", 5)], runs: [aRun("r1", "a", ENDED_RUN)], release: true })),
);
export const RELEASE = aRaceCall("release of the lease", (driver, fence) =>
  releaseLease(driver, { rootId: "a", fence }),
);
export const RENEW = aRaceCall("renewal of the lease", (driver) => driver.lease("a", aHolder("h1"), 90_000, WITH_HEAD));
export const ACQUIRE = aRaceCall("lease request", (driver) => driver.lease("a1", aHolder("h2"), 60_000, WITH_HEAD));
export const ACQUIRE_CACHED = aRaceCall("lease request with a cached fence", async (driver, fence) => {
  const leaseOptions = { head: { messages: true, cachedFence: fence } };
  const lease = await driver.lease("a", aHolder("h2"), 60_000, leaseOptions);
  // A driver may return messages that the caller already has.
  if ("heldBy" in lease || !lease.head || lease.previous !== fence) return lease;
  return { ...lease, head: { ...lease.head, messages: [] } };
});
export const ACQUIRE_BY_THIRD = aRaceCall("lease request of a third holder", (driver) =>
  driver.lease("a", aHolder("h3"), 60_000, WITH_HEAD),
);
export const REPLACE = aRaceCall("lease request that replaces the holder", (driver, fence) =>
  driver.lease("a", aHolder("h2"), 60_000, { fenceToReplace: fence, ...WITH_HEAD }),
);
export const REPLACE_BY_THIRD = aRaceCall("second lease request that replaces the holder", (driver, fence) =>
  driver.lease("a1", aHolder("h3"), 60_000, { fenceToReplace: fence, ...WITH_HEAD }),
);
export const ACQUIRE_NEW = aRaceCall("lease request before the session exists", (driver) =>
  driver.lease("z", aHolder("h2"), 60_000),
);
export const ACQUIRE_NEW_BY_THIRD = aRaceCall("second lease request before the session exists", (driver) =>
  driver.lease("z", aHolder("h3"), 60_000),
);

export const CREATE_FOLLOW_UP = aRaceCall("create of a follow-up", (driver, fence) =>
  driver.create({
    session: aSession("a2", { chain: { root: "a", index: 2 }, lastSeq: 4, projectDir: "/one" }),
    view: [aMessage("a", 1)],
    messages: [aMessage("a2", 5)],
    run: aRun("r3", "a", { startedAt: at(3) }),
    fence,
  }),
);
export const CREATE_SAME_INDEX = aRaceCall("create of a follow-up with the same index", (driver) =>
  driver.create({ session: aSession("y", { chain: { root: "a", index: 2 } }) }),
);
export const DELETE = aRaceCall("delete", (driver) => driver.delete(["a1"]));
export const DELETE_BY_OTHER_ID = aRaceCall("delete by another id of the chain", (driver) => driver.delete(["a"]));
export const INSTRUCT = aRaceCall("instruction", (driver) => sendInstruction(driver, anInstruction("i2", "a1")));
export const INSTRUCT_SAME_ID = aRaceCall("instruction with the same id", (driver) =>
  sendInstruction(driver, anInstruction("i2", "a", { text: "again" })),
);
export const INSTRUCT_MORE = aRaceCall("another instruction", (driver) =>
  sendInstruction(driver, anInstruction("i0", "a")),
);
export const WITHDRAW_INSTRUCTION = aRaceCall("withdrawal of an instruction", (driver) =>
  withdrawInstruction(driver, "a", "i1"),
);
export const CONSUME_INSTRUCTION = aRaceCall("write that consumes the instruction", (driver, fence) =>
  driver.write("a1", change({ fence, consumedInstructions: ["i1"] })),
);
export const ANSWER = aRaceCall("answer", (driver) => answerAsk(driver, "a1", "q", aResolution("allow", "one")));
export const ANSWER_AGAIN = aRaceCall("another answer", (driver) =>
  answerAsk(driver, "a", "q", aResolution("reject", "two")),
);
export const WITHDRAW_ASK = aRaceCall("write that withdraws the ask", (driver, fence) =>
  driver.write("a1", change({ fence, asks: [anAsk("q", "a", { state: "withdrawn", closedAt: at(2) })] })),
);

export const WRITE_KEY = aRaceCall("write of a run with a key", (driver, fence) =>
  driver.write("a1", change({ fence, runs: [aRun("r4", "a", { idempotencyKey: "k1" })], set: { title: "key" } })),
);
export const CREATE_KEY = aRaceCall("create with a run with the same key", (driver) =>
  driver.create({ session: aSession("y", { projectDir: "/one" }), run: aRun("r5", "y", { idempotencyKey: "k1" }) }),
);
export const CREATE_OLD_KEY = aRaceCall("create with a run with an old key", (driver) =>
  driver.create({ session: aSession("y"), run: aRun("r5", "y", { idempotencyKey: "k0" }) }),
);
export const FORGET_KEYS = aRaceCall("removal of old keys", async (driver) => driver.forgetKeys?.(at(8)));
export const CREATE = aRaceCall("create", (driver) =>
  driver.create({ session: aSession("z", { projectDir: "/two" }), messages: [aMessage("z", 1, { id: "first" })] }),
);
export const CREATE_SAME_ID = aRaceCall("create with the same id", (driver) =>
  driver.create({ session: aSession("z", { title: "same", projectDir: "/one" }), messages: [aMessage("z", 1)] }),
);
export const CREATE_ALIAS = aRaceCall("create with that id as an alias", (driver) =>
  driver.create({ session: aSession("y", { alias: "z", projectDir: "/one" }) }),
);
export const LOAD = aRaceCall("load", (driver) => driver.load(aNewChain()));
export const LOAD_SAME = aRaceCall("load of the same chain", (driver) => driver.load(aNewChain()));

export const MOVE = aRaceCall("move to another folder", (driver) =>
  driver.write("a1", change({ set: { projectDir: "/two" } })),
);
export const MOVE_ELSEWHERE = aRaceCall("move to a third folder", (driver) =>
  driver.write("a", change({ set: { projectDir: "/three" } })),
);
export const MOVE_OTHER = aRaceCall("move of another session", (driver) =>
  driver.write("other", change({ set: { projectDir: "/one" } })),
);
export const WRITE_FIRST_MESSAGE = aRaceCall("write of a session's first message", (driver) =>
  driver.write("other", change({ add: [aMessage("other", 1)], set: { updatedAt: at(3) } })),
);
export const SET_UPDATED_AT = aRaceCall("write of a later updatedAt", (driver) =>
  driver.write("other", change({ set: { updatedAt: at(2), model: "m3" } })),
);
export const DELETE_OTHER = aRaceCall("delete of another session", (driver) => driver.delete(["other"]));
export const LIST = aRaceCall("list", (driver) => driver.list({ limit: 9 }));
export const LIST_FOLDER = aRaceCall("list of a folder", (driver) => driver.list({ limit: 9, projectDir: "/one" }));
export const LIST_EMPTY = aRaceCall("list of empty sessions", (driver) =>
  driver.list({ limit: 9, emptyBefore: at(99) }),
);
export const DUMP = aRaceCall("dump", (driver) => driver.dump("a1"));
export const READ_HEAD = aRaceCall("head", (driver) => driver.head("x"));
