import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import type { GantryError } from "../ports/errors.js";

/** A check of one rule of a contract, for any test runner: `for (const check of checks) it(check.name, check.run)`. */
export interface Check {
  /** The capability that the check tests. Default: the part of `name` before the first colon. */
  readonly group?: string;
  readonly name: string;
  /** Rejects with an assertion error if the rule is broken. */
  run(): Promise<void>;
}

/** Checks of a contract's rules, by the name of the rule. */
export type CheckRules<Args extends unknown[]> = Readonly<Record<string, (...args: Args) => Promise<void>>>;

// Each `assert.ok` in the kits needs a message. Without one, Node parses the kit's source to create it, which takes up
// to a minute.

/** Asserts that `promise` rejects with a gantry error of this code. */
export async function rejectsWith(promise: Promise<unknown>, code: GantryError["code"], why: string): Promise<void> {
  let outcome: { error: unknown } | undefined;
  try {
    await promise;
  } catch (error) {
    outcome = { error };
  }
  assert.ok(outcome, `${why}: expected an error with code ${code}, but it resolved`);
  const { error } = outcome;
  const actual = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  assert.equal(actual, code, `${why}: expected an error with code ${code}, got ${String(error)}`);
}

/** Settles like `promise`, or rejects with an assertion error after `ms`. */
export async function withTimeout<T>(promise: Promise<T>, what: string, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new assert.AssertionError({ message: `${what}: timed out after ${ms} ms` })), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves when `test` returns true. Rejects with an assertion error after `ms`. */
export async function until(test: () => boolean, what: string, ms: number): Promise<void> {
  const by = Date.now() + ms;
  while (!test()) {
    if (Date.now() > by) assert.fail(`${what}: timed out after ${ms} ms`);
    await pause(5);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Returns a promise, and the function that resolves it. */
export function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

/** Counts the process's open resources by kind. Resources that do not keep the process alive are excluded. */
export function openResources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  // Short-lived work: file reads, name look-ups, ticks.
  for (const kind of ["Immediate", "TickObject", "FSReqCallback", "FSReqPromise", "CloseReq"]) counts.delete(kind);
  return counts;
}

/** Waits until all resources opened since `before` are closed. Rejects with those still open after `ms`. */
export async function expectNothingOpened(before: ReadonlyMap<string, number>, ms: number): Promise<void> {
  const openKinds = (): string[] =>
    [...openResources()].flatMap(([kind, n]) =>
      n > (before.get(kind) ?? 0) ? [`${n - (before.get(kind) ?? 0)} ${kind}`] : [],
    );
  const by = Date.now() + ms;
  while (openKinds().length > 0 && Date.now() < by) await pause(5);
  assert.deepEqual(openKinds(), [], "still open");
}

/** Number of open files and sockets of this process. Undefined if the system does not report it. */
export function openFiles(): number | undefined {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return undefined;
  }
}

/** Waits until fewer than `count` files more than before are open. Rejects with the number after `ms`. */
export async function expectFewFilesOpened(before: number | undefined, count: number, ms: number): Promise<void> {
  const by = Date.now() + ms;
  const extraFiles = (): number => (openFiles() ?? 0) - (before ?? Infinity);
  while (extraFiles() >= count && Date.now() < by) await pause(5);
  assert.ok(extraFiles() < count, `${extraFiles()} files are still open`);
}
