import assert from "node:assert/strict";
import { pause } from "../check.js";
import type { ChainData } from "../../ports/session-driver.js";
import type { Message } from "../../ports/message.js";
import { race, type Act, type LeaseState } from "./race.js";
import {
  aHolder,
  aMessage,
  anAsk,
  anInstruction,
  answer,
  answered,
  aRun,
  aSession,
  at,
  change,
  instruct,
  release,
  withdraw,
} from "./rule.js";
import type { StoreUnderTest, StoreRules } from "./rule.js";

const USAGE = { promptTokens: 1, completionTokens: 2, totalTokens: 3, cost: 0.25 };
const ENDED = { state: "finished", endedBy: "model", endedAt: at(9), startedAt: at(1) } as const;
const WITH_HEAD = { head: { messages: true } };
const grown = (text: string) => [{ messageId: "a1-4", part: 0, type: "text" as const, text }];

/** Data of a chain that the store does not contain. */
function newChain(): ChainData {
  const messages: { message: Message; hiddenBy: string }[] = [{ message: aMessage("z", 1), hiddenBy: "" }];
  const session = aSession("z", { alias: "zx", lastSeq: 1, projectDir: "/one" });
  const runs = [aRun("zr", "z", { idempotencyKey: "k1", state: "finished", endedBy: "model", endedAt: at(1) })];
  return { sessions: [{ session, hiddenBy: "", view: [], messages }], snapshots: [], runs, asks: [] };
}

const act = (name: string, call: Act["do"]): Act => ({ name, do: call });

const SAY = act("write under the lease", (driver, fence) =>
  driver.write(
    "a1",
    change({
      fence,
      add: [aMessage("a1", 5)],
      append: grown("said "),
      set: { title: "said", updatedAt: at(10) },
      usage: USAGE,
      runs: [aRun("r1", "a", ENDED)],
    }),
  ),
);
const SAY_MORE = act("another write under the lease", (driver, fence) =>
  driver.write(
    "a1",
    change({
      fence,
      add: [aMessage("a1", 6)],
      append: grown("more "),
      set: { model: "m2", updatedAt: at(11) },
      usage: USAGE,
      runs: [aRun("r2", "a", { startedAt: at(2) })],
    }),
  ),
);
const SAY_SAME = act("write of a seq that is taken at this moment", (driver, fence) =>
  driver.write("a1", change({ fence, add: [aMessage("a1", 5, { id: "same" })], set: { title: "same" }, usage: USAGE })),
);
const TITLE = act("write of a title", (driver) =>
  driver.write("a", change({ set: { title: "titled", hasFinalTitle: true }, usage: USAGE })),
);
const MODE = act("write of a mode", (driver) => driver.write("a1", change({ set: { mode: "plan" }, usage: USAGE })));
const SAY_ALL = act("write of all that a change can say", (driver, fence) =>
  driver.write(
    "a",
    change({
      fence,
      revert: { id: "s", after: 3, createdAt: at(5) },
      add: [aMessage("a", 6)],
      set: { title: "all", projectDir: "/two", updatedAt: at(12) },
      usage: USAGE,
      runs: [aRun("r1", "a", ENDED), aRun("r2", "a", { startedAt: at(2) })],
      asks: [anAsk("q", "a", { state: "withdrawn", closedAt: at(2) }), anAsk("p", "a")],
    }),
  ),
);
const UNLEASED = act("write of a message without a lease", (driver) =>
  driver.write("a1", change({ add: [aMessage("a1", 5)] })),
);
const FINISH = act("finish of a message that grows", (driver, fence) =>
  driver.write("a1", change({ fence, finish: [aMessage("a1", 4, { role: "assistant" })] })),
);
const CUT = act("cut", (driver, fence) =>
  driver.write("a1", change({ fence, revert: { id: "s", after: 3, createdAt: at(5) } })),
);
const END = act("write that gives the lease back", (driver, fence) =>
  driver.write("a1", change({ fence, add: [aMessage("a1", 5)], runs: [aRun("r1", "a", ENDED)], release: true })),
);
const RELEASE = act("release", (driver, fence) => release(driver, { rootId: "a", fence }));
const RENEW = act("renewal", (driver) => driver.lease("a", aHolder("h1"), 90_000, WITH_HEAD));
const TAKE = act("lease", (driver) => driver.lease("a1", aHolder("h2"), 60_000, WITH_HEAD));
const TAKE_KNOWN = act("lease of one who knows what was said under the last", async (driver, fence) => {
  const leaseOptions = { head: { messages: true, cachedFence: fence } };
  const lease = await driver.lease("a", aHolder("h2"), 60_000, leaseOptions);
  // A driver may return messages that the caller already has.
  if ("heldBy" in lease || !lease.head || lease.previous !== fence) return lease;
  return { ...lease, head: { ...lease.head, messages: [] } };
});
const TAKE_TOO = act("lease of another holder", (driver) => driver.lease("a", aHolder("h3"), 60_000, WITH_HEAD));
const STEAL = act("lease that replaces the holder", (driver, fence) =>
  driver.lease("a", aHolder("h2"), 60_000, { fenceToReplace: fence, ...WITH_HEAD }),
);
const STEAL_TOO = act("lease that replaces the same holder", (driver, fence) =>
  driver.lease("a1", aHolder("h3"), 60_000, { fenceToReplace: fence, ...WITH_HEAD }),
);
const TAKE_NEW = act("lease of a session to come", (driver) => driver.lease("z", aHolder("h2"), 60_000));
const TAKE_NEW_TOO = act("lease of the same session to come", (driver) => driver.lease("z", aHolder("h3"), 60_000));

const FOLLOW = act("create of a follow-up", (driver, fence) =>
  driver.create({
    session: aSession("a2", { chain: { root: "a", index: 2 }, lastSeq: 4, projectDir: "/one" }),
    view: [aMessage("a", 1)],
    messages: [aMessage("a2", 5)],
    run: aRun("r3", "a", { startedAt: at(3) }),
    fence,
  }),
);
const FOLLOW_TOO = act("create of a follow-up with the same index", (driver) =>
  driver.create({ session: aSession("y", { chain: { root: "a", index: 2 } }) }),
);
const DELETE = act("delete", (driver) => driver.delete(["a1"]));
const DELETE_TOO = act("delete by another id of the chain", (driver) => driver.delete(["a"]));
const INSTRUCT = act("instruction", (driver) => instruct(driver, anInstruction("i2", "a1")));
const INSTRUCT_SAME = act("instruction with the same id", (driver) =>
  instruct(driver, anInstruction("i2", "a", { text: "again" })),
);
const INSTRUCT_TOO = act("another instruction", (driver) => instruct(driver, anInstruction("i0", "a")));
const WITHDRAW = act("withdrawal of an instruction", (driver) => withdraw(driver, "a", "i1"));
const FOLLOWED = act("write that followed the instruction", (driver, fence) =>
  driver.write("a1", change({ fence, consumedInstructions: ["i1"] })),
);
const ANSWER = act("answer", (driver) => answer(driver, "a1", "q", answered("allow", "one")));
const ANSWER_TOO = act("another answer", (driver) => answer(driver, "a", "q", answered("reject", "two")));
const UNASK = act("write that withdraws the ask", (driver, fence) =>
  driver.write("a1", change({ fence, asks: [anAsk("q", "a", { state: "withdrawn", closedAt: at(2) })] })),
);

const KEY = act("write of a run with a key", (driver, fence) =>
  driver.write("a1", change({ fence, runs: [aRun("r4", "a", { idempotencyKey: "k1" })], set: { title: "key" } })),
);
const CREATE_KEY = act("create with a run with that key", (driver) =>
  driver.create({ session: aSession("y", { projectDir: "/one" }), run: aRun("r5", "y", { idempotencyKey: "k1" }) }),
);
const FREED_KEY = act("create with a run with an old key", (driver) =>
  driver.create({ session: aSession("y"), run: aRun("r5", "y", { idempotencyKey: "k0" }) }),
);
const FORGET = act("forgetting of old keys", async (driver) => driver.forgetKeys?.(at(8)));
const CREATE = act("create", (driver) =>
  driver.create({ session: aSession("z", { projectDir: "/two" }), messages: [aMessage("z", 1, { id: "first" })] }),
);
const CREATE_SAME = act("create with the same id", (driver) =>
  driver.create({ session: aSession("z", { title: "same", projectDir: "/one" }), messages: [aMessage("z", 1)] }),
);
const CREATE_ALIAS = act("create with that id as its alias", (driver) =>
  driver.create({ session: aSession("y", { alias: "z", projectDir: "/one" }) }),
);
const LOAD = act("load", (driver) => driver.load(newChain()));
const LOAD_TOO = act("load of the same chain", (driver) => driver.load(newChain()));

const MOVE = act("move to another folder", (driver) => driver.write("a1", change({ set: { projectDir: "/two" } })));
const MOVE_TOO = act("move to a third folder", (driver) =>
  driver.write("a", change({ set: { projectDir: "/three" } })),
);
const MOVE_OTHER = act("move of another session", (driver) =>
  driver.write("other", change({ set: { projectDir: "/one" } })),
);
const FIRST_WORD = act("write of a session's first message", (driver) =>
  driver.write("other", change({ add: [aMessage("other", 1)], set: { updatedAt: at(3) } })),
);
const TOUCH = act("write of a later updatedAt", (driver) =>
  driver.write("other", change({ set: { updatedAt: at(2), model: "m3" } })),
);
const DELETE_OTHER = act("delete of another session", (driver) => driver.delete(["other"]));
const LIST = act("list", (driver) => driver.list({ limit: 9 }));
const LIST_FOLDER = act("list of a folder", (driver) => driver.list({ limit: 9, projectDir: "/one" }));
const LIST_EMPTY = act("list of empty sessions", (driver) => driver.list({ limit: 9, emptyBefore: at(99) }));
const DUMP = act("dump", (driver) => driver.dump("a1"));
const READ_HEAD = act("head", (driver) => driver.head("x"));

type Pair = readonly [first: Act, second: Act, ground?: LeaseState];

/** Runs each pair in both orders, so that either call is the held one. */
async function races(store: StoreUnderTest, pairs: readonly Pair[]): Promise<void> {
  for (const [firstAct, two, ground = "held"] of pairs) {
    await race(store, ground, firstAct, two);
    if (firstAct !== two) await race(store, ground, two, firstAct);
  }
}

/**
 * Runs each change, which is held, with a reader. Repeats that for each part of the store that readers can wait for.
 */
async function racesWithReader(store: StoreUnderTest, pairs: readonly Pair[]): Promise<void> {
  for (const [changeAct, reader, ground = "held"] of pairs)
    for (let part = 0; await race(store, ground, changeAct, reader, part); part++) if (!store.holds) break;
}

export const raceRules: StoreRules = {
  "hold: if the fixture can hold a change, no reader sees it before it is released": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a") });
    const hold = await store.hold(0);
    if (!hold) return;
    let isDone = false;
    const held = driver.write("a", change({ set: { title: "new" } })).finally(() => (isDone = true));
    while (!isDone && (await hold.waiting()) === 0) await pause(1);
    assert.ok(!isDone, "the change was not held up");
    const secondDriver = await store.beside();
    assert.equal((await secondDriver.get("a"))?.title, "Title of a");
    await hold.resume();
    await held;
    assert.equal((await secondDriver.get("a"))?.title, "new");
  },
  "race: a write completes before its lease is replaced and is part of the head, or it is rejected": (store) =>
    races(store, [
      [SAY, STEAL],
      [END, STEAL],
      [FOLLOW, STEAL],
      [SAY, RELEASE],
      [SAY, RENEW],
      [END, TAKE],
      [END, SAY_MORE],
      [END, TAKE_KNOWN],
      [UNLEASED, TAKE, "free"],
      [UNLEASED, TAKE_KNOWN, "free"],
      [FOLLOW_TOO, TAKE_KNOWN, "free"],
    ]),
  "race: of concurrent lease requests one succeeds, and the others receive its holder": (store) =>
    races(store, [
      [TAKE, TAKE_TOO, "free"],
      [STEAL, STEAL_TOO],
      [STEAL, RENEW],
      [STEAL, RELEASE],
      [RELEASE, TAKE],
      [RENEW, TAKE],
      [RENEW, RELEASE],
      [TAKE_NEW, TAKE_NEW_TOO],
    ]),
  "race: concurrent changes of a chain are all kept": (store) =>
    races(store, [
      [SAY, SAY_MORE],
      [SAY, SAY_SAME],
      [SAY, TITLE],
      [TITLE, MODE],
      [SAY, FINISH],
      [SAY, CUT],
      [SAY, FOLLOW],
      [CUT, FOLLOW],
      [SAY, MOVE],
    ]),
  "race: a deleted chain leaves nothing, whatever runs concurrently": (store) =>
    races(store, [
      [DELETE, SAY],
      [DELETE, TITLE],
      [DELETE, FOLLOW],
      [DELETE, FOLLOW_TOO],
      [DELETE, INSTRUCT],
      [DELETE, WITHDRAW],
      [DELETE, ANSWER],
      [DELETE, STEAL],
      [DELETE, END],
      [DELETE, DELETE_TOO],
      [DELETE, MOVE],
    ]),
  "race: an id, an alias, an index and a run's key have one owner": (store) =>
    races(store, [
      [CREATE, CREATE_SAME],
      [CREATE, CREATE_ALIAS],
      [FOLLOW, FOLLOW_TOO],
      [KEY, CREATE_KEY],
      ...(store.driver.forgetKeys
        ? ([
            [FORGET, FREED_KEY],
            [FORGET, SAY],
          ] as const)
        : []),
    ]),
  "race: of two loads with common ids one succeeds, and the other has no effect": (store) =>
    races(store, [
      [LOAD, LOAD_TOO],
      [LOAD, CREATE],
      [LOAD, CREATE_ALIAS],
      [LOAD, CREATE_KEY],
      [LOAD, KEY],
    ]),
  "race: one answer to an ask is accepted, an instruction is removed once, and instructions keep their order": (
    store,
  ) =>
    races(store, [
      [ANSWER, ANSWER_TOO],
      [ANSWER, UNASK],
      [WITHDRAW, WITHDRAW],
      [WITHDRAW, FOLLOWED],
      [INSTRUCT, INSTRUCT_SAME],
      [INSTRUCT, INSTRUCT_TOO],
    ]),
  "race: an instruction is returned by the write that releases the lease, or is written after it": (store) =>
    races(store, [
      [END, INSTRUCT],
      [END, WITHDRAW],
    ]),
  "race: totals are correct after concurrent creates, deletes and moves": (store) =>
    races(store, [
      [CREATE, DELETE_OTHER],
      [CREATE, CREATE_KEY],
      [MOVE, MOVE_TOO],
      [MOVE, DELETE_OTHER],
      [MOVE_OTHER, DELETE_OTHER],
      [MOVE_OTHER, DELETE],
      [MOVE_OTHER, FIRST_WORD],
      [FIRST_WORD, DELETE_OTHER],
      [FIRST_WORD, TOUCH],
      [LOAD, MOVE],
      [DELETE_OTHER, DELETE_OTHER],
    ]),
  "race: a dump contains a concurrent change completely or not at all": (store) =>
    racesWithReader(store, [
      [SAY_ALL, DUMP],
      [FOLLOW, DUMP],
      [DELETE, DUMP],
    ]),
  "race: the head contains a concurrent change completely or not at all": (store) =>
    racesWithReader(store, [
      [SAY_ALL, READ_HEAD],
      [FOLLOW, READ_HEAD],
    ]),
  "race: a list and its total reflect the same state": (store) =>
    racesWithReader(store, [
      [CREATE_ALIAS, LIST],
      [MOVE_OTHER, LIST_FOLDER],
      [FIRST_WORD, LIST_EMPTY],
    ]),
};
