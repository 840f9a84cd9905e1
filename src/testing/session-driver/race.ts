import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { MemoryDriver } from "../../memory-driver/memory-driver.js";
import { pause } from "../check.js";
import type { ChainHead, SessionDriver } from "../../ports/session-driver.js";
import type { HeldStore } from "./fixture.js";
import { acquireLease, releaseLease, sendInstruction } from "./driver-calls.js";
import { aGrowingMessage, aHolder, aMessage, anAsk, anInstruction, aRun, aSession, at, change } from "./records.js";
import type { StoreUnderTest } from "./store-under-test.js";

/** A call of a race. `fence`: the fence of the chain's lease, even if the lease was released. */
export interface RaceCall {
  /** Description of the call in failure messages. */
  name: string;
  run: (driver: SessionDriver, fence: number) => Promise<unknown>;
}

/** Lease of the chain `a` at the start of a race: `held` by `h1`, or `free`. */
export type LeaseState = "held" | "free";

/** Everything that callers receive and readers see in a race. */
interface Outcome {
  first: unknown;
  second: unknown;
  /**
   * State that a reader sees after the end of the second call, before the first call ends. Undefined if not observed.
   */
  stateBetween: unknown;
  finalState: unknown;
}

/** Maximum time to wait until a call ends or is known to be blocked. */
const MAX_CALL_WAIT_MS = 1000;

/**
 * Runs two calls concurrently through two drivers. If the fixture can hold changes, the first call is held before its
 * end.
 *
 * The outcome must be the outcome of sequential calls. Either order is allowed, unless the first call ended before the
 * second call began, or the second call was observed to end first.
 *
 * `part`: as in the fixture's `hold`. Resolves with false, without running the calls, if the store has no such part.
 */
export async function race(
  store: StoreUnderTest,
  leaseState: LeaseState,
  first: RaceCall,
  second: RaceCall,
  part = 0,
): Promise<boolean> {
  const { driver } = store;
  const secondDriver = await store.getSecond();
  const fence = await createInitialState(driver, leaseState);
  const heldStore = await store.hold(part);
  if (part > 0 && !heldStore) {
    await readFinalState(driver);
    return false;
  }

  const firstCall = startCall(first.run(driver, fence));
  if (heldStore) await waitUntilBlocked(heldStore, firstCall, 1);
  const isOrderFree = !firstCall.isDone();
  const secondCall = startCall(second.run(secondDriver, fence));
  let stateBetween: unknown;
  if (heldStore) {
    await waitUntilBlocked(heldStore, secondCall, firstCall.isDone() ? 1 : 2);
    if (secondCall.isDone() && !firstCall.isDone() && part === 0) stateBetween = await readState(secondDriver);
    await heldStore.resume();
  }
  const results = [normalizeResult(await firstCall.outcome, fence), normalizeResult(await secondCall.outcome, fence)];
  const actualOutcome: Outcome = {
    first: results[0],
    second: results[1],
    stateBetween,
    finalState: await readFinalState(driver),
  };

  // The more likely order first: it usually fits, and otherwise its outcome gives a readable difference.
  const isLikelyReversed = stateBetween !== undefined;
  let likelyOutcome: Outcome | undefined;
  for (const isReversed of isOrderFree ? [isLikelyReversed, !isLikelyReversed] : [false]) {
    const expectedOutcome = await runSequentially(leaseState, first, second, isReversed);
    if (matchesExpected(actualOutcome, expectedOutcome)) return true;
    likelyOutcome ??= expectedOutcome;
  }
  const message = `"${first.name}" and "${second.name}" at once: the outcome fits neither order`;
  if (likelyOutcome) assert.deepEqual(actualOutcome, adaptExpected(actualOutcome, likelyOutcome), message);
  return assert.fail(message);
}

/**
 * Creates the initial state: an original session, a follow-up with a growing message, runs, an ask and an instruction.
 * Returns the lease's fence.
 */
async function createInitialState(driver: SessionDriver, leaseState: LeaseState): Promise<number> {
  const session = aSession("a", { alias: "x", projectDir: "/one" });
  const run = aRun("r0", "a", { idempotencyKey: "k0", state: "finished", endedBy: "model", endedAt: at(1) });
  await driver.create({ session, messages: [aMessage("a", 1), aMessage("a", 2)], run });
  await driver.create({
    session: aSession("a1", { chain: { root: "a", index: 1 }, projectDir: "/one", lastSeq: 2 }),
    view: [aMessage("a", 2)],
    messages: [aMessage("a1", 3), aGrowingMessage("a1", 4)],
  });
  await driver.create({ session: aSession("other", { projectDir: "/two" }) });
  const lease = await acquireLease(driver, "a", "h1");
  const { fence } = lease;
  await driver.write("a1", change({ fence, runs: [aRun("r1", "a", { startedAt: at(1) })], asks: [anAsk("q", "a")] }));
  await sendInstruction(driver, anInstruction("i1", "a"));
  if (leaseState === "free") await releaseLease(driver, lease);
  return fence;
}

/** Reads everything visible of the chain, of the sessions that races create, and of the lists. */
async function readState(driver: SessionDriver): Promise<unknown> {
  const state: unknown[] = [];
  // Sequential, because concurrent reads would need as many connections.
  for (const id of ["x", "zx", "a1", "a2"]) state.push((await driver.get(id))?.id);
  for (const id of ["a", "z", "y"]) state.push(await driver.dump(id));
  state.push(await driver.head("a"), await driver.asks({ limit: 99 }));
  // For a deleted session, a driver rejects or returns nothing.
  state.push(await driver.instructions("a").catch(() => []));
  for (const query of [{}, { idempotencyKey: "k1" }])
    for (const { run, holder } of await driver.runs({ limit: 99, ...query })) state.push([run, holder?.id ?? null]);
  for (const query of [{}, { projectDir: "/one" }, { projectDir: "/two" }, { emptyBefore: at(99) }])
    state.push(await driver.list({ limit: 99, ...query }));
  return state;
}

/**
 * Returns the final state, the lease's holder, and the visible state after the chain was deleted and recreated.
 */
async function readFinalState(driver: SessionDriver): Promise<unknown> {
  const state = await readState(driver);
  const lease = await driver.lease("a", aHolder("probe"), 60_000);
  const holder = "heldBy" in lease ? lease.heldBy.holder.id : null;
  // Create `z` if it does not exist, so that its deletion also removes its lease.
  await driver.create({ session: aSession("z") }).catch(() => undefined);
  await driver.delete(["a", "z", "y", "other"]);
  await driver.create({ session: aSession("a") });
  await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) });
  for (const id of ["i0", "i1", "i2"]) await sendInstruction(driver, anInstruction(id, "a"));
  const recreatedState = await readState(driver);
  await driver.delete(["a"]);
  return { state, holder, recreatedState };
}

/** Returns the outcome of sequential calls on a reference driver. */
async function runSequentially(
  leaseState: LeaseState,
  first: RaceCall,
  second: RaceCall,
  isReversed: boolean,
): Promise<Outcome> {
  const driver = new MemoryDriver();
  await driver.open();
  const fence = await createInitialState(driver, leaseState);
  const calls = isReversed ? [second, first] : [first, second];
  const results: unknown[] = [];
  const states: unknown[] = [];
  for (const call of calls) {
    results.push(normalizeResult(await startCall(call.run(driver, fence)).outcome, fence));
    states.push(await readState(driver));
  }
  if (isReversed) results.reverse();
  return {
    first: results[0],
    second: results[1],
    stateBetween: states[isReversed ? 0 : 1],
    finalState: await readFinalState(driver),
  };
}

/**
 * Adapts the expected outcome to the freedom of a store. A lease may omit `previous`, and then returns all messages. An
 * unobserved `stateBetween` is not compared.
 */
function adaptExpected(actual: Outcome, expected: Outcome): Outcome {
  const adaptLease = (actualLease: unknown, expectedLease: unknown): unknown => {
    if (
      !isLeaseResult(actualLease) ||
      !isLeaseResult(expectedLease) ||
      actualLease.previous !== "none" ||
      expectedLease.previous === "none"
    )
      return expectedLease;
    const head = actualLease.head &&
      expectedLease.head && { ...expectedLease.head, messages: actualLease.head.messages };
    return { ...expectedLease, previous: "none", head };
  };
  return {
    first: adaptLease(actual.first, expected.first),
    second: adaptLease(actual.second, expected.second),
    stateBetween: actual.stateBetween && expected.stateBetween,
    finalState: expected.finalState,
  };
}

const matchesExpected = (actual: Outcome, expected: Outcome): boolean =>
  isDeepStrictEqual(actual, adaptExpected(actual, expected));

const isLeaseResult = (result: unknown): result is { previous: string; head?: ChainHead } =>
  typeof result === "object" && result !== null && "previous" in result;

/** Result of a call: a value, or the code of its error. */
interface CallResult {
  value?: unknown;
  code?: unknown;
}

/** An active call. */
interface ActiveCall {
  outcome: Promise<CallResult>;
  isDone: () => boolean;
}

function startCall(call: Promise<unknown>): ActiveCall {
  let isDone = false;
  const outcome = call.then(
    (value): CallResult => ({ value }),
    (error: unknown): CallResult => {
      // A timeout is a failure, not an outcome.
      if (error instanceof assert.AssertionError) throw error;
      return { code: (error as { code?: unknown }).code ?? String(error) };
    },
  );
  outcome.catch(() => undefined).finally(() => (isDone = true));
  return { outcome, isDone: () => isDone };
}

/** Waits until the call has ended or `count` calls are blocked. */
async function waitUntilBlocked(heldStore: HeldStore, call: ActiveCall, count: number): Promise<void> {
  const deadlineMs = Date.now() + MAX_CALL_WAIT_MS;
  while (!call.isDone() && (await heldStore.waiting()) < count && Date.now() < deadlineMs) await pause(1);
}

/**
 * Returns a result without times and with the order of fences instead of their values, because stores differ in both.
 */
function normalizeResult({ value, code }: CallResult, fence: number): unknown {
  if (code !== undefined) return { code };
  if (typeof value !== "object" || value === null) return value;
  const describeFence = (otherFence: number): string =>
    otherFence === fence ? "same" : otherFence > fence ? "later" : "older";
  if ("heldBy" in value) {
    const { holder, fence: leaseFence } = value.heldBy as { holder: { id: string }; fence: number };
    return { heldBy: holder.id, fence: describeFence(leaseFence) };
  }
  if (!("fence" in value && "expiresAt" in value)) return value;
  const {
    holder,
    fence: leaseFence,
    previous,
    head,
    rootId,
  } = value as Awaited<ReturnType<typeof acquireLease>> & { head?: unknown };
  const previousFence = previous === undefined ? "none" : describeFence(previous);
  return { rootId, holder: holder.id, fence: describeFence(leaseFence), previous: previousFence, head };
}
