import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import type { GantryError } from "../ports/errors.js";

/** One rule that an adapter keeps, for any test runner: `for (const check of checks) it(check.name, check.run)`. */
export interface Check {
  /** The capability that it belongs to. Default: the start of `name`, up to a colon. */
  readonly group?: string;
  readonly name: string;
  /** Rejects, with an assertion that says what is wrong, when the rule is broken. */
  run(): Promise<void>;
}

/** Rules of a contract by their names: what shows that each is kept. */
export type Rules<Args extends unknown[]> = Readonly<Record<string, (...args: Args) => Promise<void>>>;

// Each `assert.ok` of a kit has a message: without one, Node parses the source of the kit to make it, for up to a minute.

/** Assert that `promise` rejects with a gantry error of this code, and give the error back. */
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

/** The outcome of `promise`, or an assertion that fails: nothing may hang. Times out after `ms`. */
export async function soon<T>(promise: Promise<T>, what: string, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new assert.AssertionError({ message: `${what}: not within ${ms} ms` })), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves when `test` is true; an assertion that fails when it is not after `ms`. */
export async function until(test: () => boolean, what: string, ms: number): Promise<void> {
  const by = Date.now() + ms;
  while (!test()) {
    if (Date.now() > by) assert.fail(`${what}: not within ${ms} ms`);
    await pause(5);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** A door that opens once. */
export function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

/** What this process holds open, by kind; what does not keep it alive is left out. */
export function openThings(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  // Work of the moment: files being read, names being looked up, ticks.
  for (const kind of ["Immediate", "TickObject", "FSReqCallback", "FSReqPromise", "CloseReq"]) counts.delete(kind);
  return counts;
}

/** Waits until nothing is open that was not before; fails with what is left. */
export async function nothingNew(before: ReadonlyMap<string, number>, ms: number): Promise<void> {
  const left = (): string[] =>
    [...openThings()].flatMap(([kind, n]) =>
      n > (before.get(kind) ?? 0) ? [`${n - (before.get(kind) ?? 0)} ${kind}`] : [],
    );
  const by = Date.now() + ms;
  while (left().length > 0 && Date.now() < by) await pause(5);
  assert.deepEqual(left(), [], "still open");
}

/** How many files and sockets this process has open; undefined where the system does not say. */
export function openFiles(): number | undefined {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return undefined;
  }
}

/** Waits until fewer than `count` more files are open than before; fails with how many are. */
export async function fewerMoreFiles(before: number | undefined, count: number, ms: number): Promise<void> {
  const by = Date.now() + ms;
  const more = (): number => (openFiles() ?? 0) - (before ?? Infinity);
  while (more() >= count && Date.now() < by) await pause(5);
  assert.ok(more() < count, `${more()} files are still open`);
}
