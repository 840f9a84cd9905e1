import assert from "node:assert/strict";
import { pause } from "../check.js";
import * as call from "./race-calls.js";
import { race, type LeaseState, type RaceCall } from "./race.js";
import { aSession, change } from "./records.js";
import type { StoreRules, StoreUnderTest } from "./store-under-test.js";

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
      [call.WRITE, call.REPLACE],
      [call.WRITE_AND_RELEASE, call.REPLACE],
      [call.CREATE_FOLLOW_UP, call.REPLACE],
      [call.WRITE, call.RELEASE],
      [call.WRITE, call.RENEW],
      [call.WRITE_AND_RELEASE, call.ACQUIRE],
      [call.WRITE_AND_RELEASE, call.WRITE_MORE],
      [call.WRITE_AND_RELEASE, call.ACQUIRE_CACHED],
      [call.WRITE_UNLEASED, call.ACQUIRE, "free"],
      [call.WRITE_UNLEASED, call.ACQUIRE_CACHED, "free"],
      [call.CREATE_SAME_INDEX, call.ACQUIRE_CACHED, "free"],
    ]),
  "race: of concurrent lease requests one succeeds, and the others receive its holder": (store) =>
    runRaces(store, [
      [call.ACQUIRE, call.ACQUIRE_BY_THIRD, "free"],
      [call.REPLACE, call.REPLACE_BY_THIRD],
      [call.REPLACE, call.RENEW],
      [call.REPLACE, call.RELEASE],
      [call.RELEASE, call.ACQUIRE],
      [call.RENEW, call.ACQUIRE],
      [call.RENEW, call.RELEASE],
      [call.ACQUIRE_NEW, call.ACQUIRE_NEW_BY_THIRD],
    ]),
  "race: concurrent changes of a chain are all kept": (store) =>
    runRaces(store, [
      [call.WRITE, call.WRITE_MORE],
      [call.WRITE, call.WRITE_SAME_SEQ],
      [call.WRITE, call.SET_TITLE],
      [call.SET_TITLE, call.SET_MODE],
      [call.WRITE, call.FINISH_MESSAGE],
      [call.WRITE, call.REVERT],
      [call.WRITE, call.CREATE_FOLLOW_UP],
      [call.REVERT, call.CREATE_FOLLOW_UP],
      [call.WRITE, call.MOVE],
    ]),
  "race: a deleted chain leaves nothing, whatever runs concurrently": (store) =>
    runRaces(store, [
      [call.DELETE, call.WRITE],
      [call.DELETE, call.SET_TITLE],
      [call.DELETE, call.CREATE_FOLLOW_UP],
      [call.DELETE, call.CREATE_SAME_INDEX],
      [call.DELETE, call.INSTRUCT],
      [call.DELETE, call.WITHDRAW_INSTRUCTION],
      [call.DELETE, call.ANSWER],
      [call.DELETE, call.REPLACE],
      [call.DELETE, call.WRITE_AND_RELEASE],
      [call.DELETE, call.DELETE_BY_OTHER_ID],
      [call.DELETE, call.MOVE],
    ]),
  "race: an id, an alias, an index and a run's key have one owner": (store) =>
    runRaces(store, [
      [call.CREATE, call.CREATE_SAME_ID],
      [call.CREATE, call.CREATE_ALIAS],
      [call.CREATE_FOLLOW_UP, call.CREATE_SAME_INDEX],
      [call.WRITE_KEY, call.CREATE_KEY],
      ...(store.driver.forgetKeys
        ? ([
            [call.FORGET_KEYS, call.CREATE_OLD_KEY],
            [call.FORGET_KEYS, call.WRITE],
          ] as const)
        : []),
    ]),
  "race: of two loads with common ids one succeeds, and the other has no effect": (store) =>
    runRaces(store, [
      [call.LOAD, call.LOAD_SAME],
      [call.LOAD, call.CREATE],
      [call.LOAD, call.CREATE_ALIAS],
      [call.LOAD, call.CREATE_KEY],
      [call.LOAD, call.WRITE_KEY],
    ]),
  "race: one answer to an ask is accepted, an instruction is removed once, and instructions keep their order": (
    store,
  ) =>
    runRaces(store, [
      [call.ANSWER, call.ANSWER_AGAIN],
      [call.ANSWER, call.WITHDRAW_ASK],
      [call.WITHDRAW_INSTRUCTION, call.WITHDRAW_INSTRUCTION],
      [call.WITHDRAW_INSTRUCTION, call.CONSUME_INSTRUCTION],
      [call.INSTRUCT, call.INSTRUCT_SAME_ID],
      [call.INSTRUCT, call.INSTRUCT_MORE],
    ]),
  "race: an instruction is returned by the write that releases the lease, or is written after it": (store) =>
    runRaces(store, [
      [call.WRITE_AND_RELEASE, call.INSTRUCT],
      [call.WRITE_AND_RELEASE, call.WITHDRAW_INSTRUCTION],
    ]),
  "race: totals are correct after concurrent creates, deletes and moves": (store) =>
    runRaces(store, [
      [call.CREATE, call.DELETE_OTHER],
      [call.CREATE, call.CREATE_KEY],
      [call.MOVE, call.MOVE_ELSEWHERE],
      [call.MOVE, call.DELETE_OTHER],
      [call.MOVE_OTHER, call.DELETE_OTHER],
      [call.MOVE_OTHER, call.DELETE],
      [call.MOVE_OTHER, call.WRITE_FIRST_MESSAGE],
      [call.WRITE_FIRST_MESSAGE, call.DELETE_OTHER],
      [call.WRITE_FIRST_MESSAGE, call.SET_UPDATED_AT],
      [call.LOAD, call.MOVE],
      [call.DELETE_OTHER, call.DELETE_OTHER],
    ]),
  "race: a dump contains a concurrent change completely or not at all": (store) =>
    runReaderRaces(store, [
      [call.WRITE_MANY_FIELDS, call.DUMP],
      [call.CREATE_FOLLOW_UP, call.DUMP],
      [call.DELETE, call.DUMP],
    ]),
  "race: the head contains a concurrent change completely or not at all": (store) =>
    runReaderRaces(store, [
      [call.WRITE_MANY_FIELDS, call.READ_HEAD],
      [call.CREATE_FOLLOW_UP, call.READ_HEAD],
    ]),
  "race: a list and its total reflect the same state": (store) =>
    runReaderRaces(store, [
      [call.CREATE_ALIAS, call.LIST],
      [call.MOVE_OTHER, call.LIST_FOLDER],
      [call.WRITE_FIRST_MESSAGE, call.LIST_EMPTY],
    ]),
};
