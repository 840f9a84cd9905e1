import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { MemoryDriver } from "../../memory-driver/memory-driver.js";
import { pause } from "../check.js";
import type { ChainHead, SessionDriver } from "../../ports/session-driver.js";
import type { HeldStore } from "./fixture.js";
import {
  aHolder,
  aMessage,
  anAsk,
  anInstruction,
  aRun,
  aSession,
  at,
  change,
  growing,
  instruct,
  leaseOf,
  release,
} from "./rule.js";
import type { Store } from "./rule.js";

/** A call of a race. `fence` is that of the chain's lease, which may have been given back. */
export interface Act {
  /** In messages. */
  name: string;
  do: (driver: SessionDriver, fence: number) => Promise<unknown>;
}

/** What is there when a race begins: the chain of `a`, whose lease `h1` holds, or held. */
export type Ground = "held" | "free";

/** What was told and seen of a race. */
interface Outcome {
  first: unknown;
  second: unknown;
  /** What was seen when the second was done and the first was not; undefined when that never was. */
  meanwhile: unknown;
  end: unknown;
}

/** Longest wait for a call that neither ends nor is known to wait, in ms. */
const IDLE_MS = 1000;

/**
 * Two calls at once, through two drivers, the first held up at its end where the store can do that. All that is told and
 * seen must be as if one had come after the other: which, may be chosen, but whoever was done before the other began, or
 * was seen to be done first, came first. False when the store has no such part: nothing was done.
 */
export async function race(store: Store, ground: Ground, first: Act, second: Act, part = 0): Promise<boolean> {
  const { driver } = store;
  const other = await store.beside();
  const fence = await begin(driver, ground);
  const hold = await store.hold(part);
  if (part > 0 && !hold) {
    await last(driver);
    return false;
  }

  const one = settled(first.do(driver, fence));
  if (hold) await stops(hold, one, 1);
  const mayChoose = !one.isDone();
  const two = settled(second.do(other, fence));
  let meanwhile: unknown;
  if (hold) {
    await stops(hold, two, one.isDone() ? 1 : 2);
    if (two.isDone() && !one.isDone() && part === 0) meanwhile = await seen(other);
    await hold.resume();
  }
  const told = [tell(await one.outcome, fence), tell(await two.outcome, fence)];
  const actual: Outcome = { first: told[0], second: told[1], meanwhile, end: await last(driver) };

  const inTurn = await oneAfterTheOther(ground, first, second, false);
  const turned = await oneAfterTheOther(ground, first, second, true);
  const allowed = mayChoose ? [turned, inTurn] : [inTurn];
  if (!allowed.some((expected) => agrees(actual, expected))) {
    const why = `"${first.name}" and "${second.name}" at once: as if neither had come first`;
    // The nearest of the two, for whoever reads the difference.
    const nearest = meanwhile === undefined ? inTurn : turned;
    assert.deepEqual(actual, wanted(actual, nearest), why);
    assert.fail(why);
  }
  return true;
}

/** The chain: an original, a follow-up in which a message grows, runs, an ask, an instruction. Gives the lease's fence. */
async function begin(driver: SessionDriver, ground: Ground): Promise<number> {
  const session = aSession("a", { alias: "x", projectDir: "/one" });
  const run = aRun("r0", "a", { idempotencyKey: "k0", state: "finished", endedBy: "model", endedAt: at(1) });
  await driver.create({ session, messages: [aMessage("a", 1), aMessage("a", 2)], run });
  await driver.create({
    session: aSession("a1", { chain: { root: "a", index: 1 }, projectDir: "/one", lastSeq: 2 }),
    view: [aMessage("a", 2)],
    messages: [aMessage("a1", 3), growing("a1", 4)],
  });
  await driver.create({ session: aSession("other", { projectDir: "/two" }) });
  const lease = await leaseOf(driver, "a", "h1");
  const { fence } = lease;
  await driver.write("a1", change({ fence, runs: [aRun("r1", "a", { startedAt: at(1) })], asks: [anAsk("q", "a")] }));
  await instruct(driver, anInstruction("i1", "a"));
  if (ground === "free") await release(driver, lease);
  return fence;
}

/** All that can be seen of the chain, of what races make beside it, and of the lists. */
async function seen(driver: SessionDriver): Promise<unknown> {
  const told: unknown[] = [];
  // One after the other: many at once would want as many connections.
  for (const id of ["x", "zx", "a1", "a2"]) told.push((await driver.get(id))?.id);
  for (const id of ["a", "z", "y"]) told.push(await driver.dump(id));
  told.push(await driver.head("a"), await driver.asks({ limit: 99 }));
  // Of a session that is gone a driver tells that, or nothing.
  told.push(await driver.instructions("a").catch(() => []));
  for (const query of [{}, { idempotencyKey: "k1" }])
    for (const { run, holder } of await driver.runs({ limit: 99, ...query })) told.push([run, holder?.id ?? null]);
  for (const query of [{}, { projectDir: "/one" }, { projectDir: "/two" }, { emptyBefore: at(99) }])
    told.push(await driver.list({ limit: 99, ...query }));
  return told;
}

/** What is seen at the end, who has the lease, and what is left of it all when the chain is deleted and made anew. */
async function last(driver: SessionDriver): Promise<unknown> {
  const end = await seen(driver);
  const lease = await driver.lease("a", aHolder("probe"), 60_000);
  const holder = "heldBy" in lease ? lease.heldBy.holder.id : null;
  // What was leased before it was there goes too.
  await driver.create({ session: aSession("z") }).catch(() => undefined);
  await driver.delete(["a", "z", "y", "other"]);
  await driver.create({ session: aSession("a") });
  await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) });
  for (const id of ["i0", "i1", "i2"]) await instruct(driver, anInstruction(id, "a"));
  const anew = await seen(driver);
  await driver.delete(["a"]);
  return { end, holder, anew };
}

/** The outcome on a driver that does one thing after the other. */
async function oneAfterTheOther(ground: Ground, first: Act, second: Act, turned: boolean): Promise<Outcome> {
  const driver = new MemoryDriver();
  await driver.open();
  const fence = await begin(driver, ground);
  const acts = turned ? [second, first] : [first, second];
  const told: unknown[] = [];
  const states: unknown[] = [];
  for (const act of acts) {
    told.push(tell(await settled(act.do(driver, fence)).outcome, fence));
    states.push(await seen(driver));
  }
  if (turned) told.reverse();
  return { first: told[0], second: told[1], meanwhile: states[turned ? 0 : 1], end: await last(driver) };
}

/** A lease may tell nothing of the one before it, and then leaves no message out; what was never seen need not agree. */
function wanted(actual: Outcome, expected: Outcome): Outcome {
  const lease = (mine: unknown, theirs: unknown): unknown => {
    if (!isLease(mine) || !isLease(theirs) || mine.previous !== "none" || theirs.previous === "none") return theirs;
    const head = mine.head && theirs.head && { ...theirs.head, messages: mine.head.messages };
    return { ...theirs, previous: "none", head };
  };
  return {
    first: lease(actual.first, expected.first),
    second: lease(actual.second, expected.second),
    meanwhile: actual.meanwhile && expected.meanwhile,
    end: expected.end,
  };
}

const agrees = (actual: Outcome, expected: Outcome): boolean => isDeepStrictEqual(actual, wanted(actual, expected));

const isLease = (told: unknown): told is { previous: string; head?: ChainHead } =>
  typeof told === "object" && told !== null && "previous" in told;

/** How a call ended: with a value, or with the code of its error. */
interface Ended {
  value?: unknown;
  code?: unknown;
}

/** A call that is under way. */
interface UnderWay {
  outcome: Promise<Ended>;
  isDone: () => boolean;
}

function settled(call: Promise<unknown>): UnderWay {
  let isDone = false;
  const outcome = call.then(
    (value): Ended => ({ value }),
    (error: unknown): Ended => {
      // What hangs is no outcome.
      if (error instanceof assert.AssertionError) throw error;
      return { code: (error as { code?: unknown }).code ?? String(error) };
    },
  );
  outcome.catch(() => undefined).finally(() => (isDone = true));
  return { outcome, isDone: () => isDone };
}

/** Waits until the call is done, or so many calls cannot go on. */
async function stops(hold: HeldStore, call: UnderWay, count: number): Promise<void> {
  const by = Date.now() + IDLE_MS;
  while (!call.isDone() && (await hold.waiting()) < count && Date.now() < by) await pause(1);
}

/** An outcome without what no two stores have in common: times, and how fences are counted. */
function tell({ value, code }: Ended, fence: number): unknown {
  if (code !== undefined) return { code };
  if (typeof value !== "object" || value === null) return value;
  const fenceOf = (other: number): string =>
    other === fence ? "the same" : other > fence ? "a later one" : "an older";
  if ("heldBy" in value) {
    const { holder, fence: its } = value.heldBy as { holder: { id: string }; fence: number };
    return { heldBy: holder.id, fence: fenceOf(its) };
  }
  if (!("fence" in value && "expiresAt" in value)) return value;
  const {
    holder,
    fence: its,
    previous,
    head,
    rootId,
  } = value as Awaited<ReturnType<typeof leaseOf>> & { head?: unknown };
  const before = previous === undefined ? "none" : fenceOf(previous);
  return { rootId, had: holder.id, fence: fenceOf(its), previous: before, head };
}
