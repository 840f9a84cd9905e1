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

/** Default time limit for expected events, in ms. */
export const DEFAULT_TIMEOUT_MS = 10_000;

// Each `assert.ok` in the kits needs a message. Without one, Node parses the kit's source to create it, which takes up
// to a minute.

/** Interval between two reads of a condition that is awaited. */
const POLL_INTERVAL_MS = 5;

/** Asserts that `promise` rejects with a gantry error of this code. */
export async function expectError(promise: Promise<unknown>, code: GantryError["code"], label: string): Promise<void> {
  let outcome: { error: unknown } | undefined;
  try {
    await promise;
  } catch (error) {
    outcome = { error };
  }
  assert.ok(outcome, `${label}: expected an error with code ${code}, but it resolved`);
  const { error } = outcome;
  const actualCode = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  assert.equal(actualCode, code, `${label}: expected an error with code ${code}, got ${String(error)}`);
}

/** Settles like `promise`. Rejects with an assertion error that begins with `label` after `timeoutMs`. */
export async function withTimeout<T>(promise: Promise<T>, label: string, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new assert.AssertionError({ message: `${label}: timed out after ${timeoutMs} ms` })),
      timeoutMs,
    );
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves when `condition` returns true. Rejects with an assertion error after `timeoutMs`. */
export async function waitUntil(condition: () => boolean, label: string, timeoutMs: number): Promise<void> {
  const deadlineMs = Date.now() + timeoutMs;
  while (!condition()) {
    if (Date.now() > deadlineMs) assert.fail(`${label}: timed out after ${timeoutMs} ms`);
    await pause(POLL_INTERVAL_MS);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Returns a function, and a promise that resolves when the function is called. */
export function createGate(): { whenOpen: Promise<void>; open: () => void } {
  let open = (): void => undefined;
  const whenOpen = new Promise<void>((resolve) => (open = resolve));
  return { whenOpen, open };
}

/** Counts the process's open resources by kind. Resources that do not keep the process alive are excluded. */
export function countOpenResources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  // These kinds are short-lived: file reads, name look-ups, ticks.
  for (const kind of ["Immediate", "TickObject", "FSReqCallback", "FSReqPromise", "CloseReq"]) counts.delete(kind);
  return counts;
}

/**
 * Waits until all resources opened since `countsBefore` are closed. After `timeoutMs`, rejects with the open resources.
 */
export async function expectNothingOpened(countsBefore: ReadonlyMap<string, number>, timeoutMs: number): Promise<void> {
  const findExtraResources = (): string[] =>
    [...countOpenResources()].flatMap(([kind, n]) =>
      n > (countsBefore.get(kind) ?? 0) ? [`${n - (countsBefore.get(kind) ?? 0)} ${kind}`] : [],
    );
  const deadlineMs = Date.now() + timeoutMs;
  while (findExtraResources().length > 0 && Date.now() < deadlineMs) await pause(POLL_INTERVAL_MS);
  assert.deepEqual(findExtraResources(), [], "still open");
}

/** Counts the open files and sockets of this process. Undefined if the system does not report them. */
export function countOpenFiles(): number | undefined {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return undefined;
  }
}

/**
 * Waits until fewer than `fileLimit` files are open in addition to `filesBefore`. Rejects after `timeoutMs`. Resolves
 * at once if the system does not report open files.
 */
export async function expectFewFilesOpened(
  filesBefore: number | undefined,
  fileLimit: number,
  timeoutMs: number,
): Promise<void> {
  const deadlineMs = Date.now() + timeoutMs;
  const countExtraFiles = (): number => (countOpenFiles() ?? 0) - (filesBefore ?? Infinity);
  while (countExtraFiles() >= fileLimit && Date.now() < deadlineMs) await pause(POLL_INTERVAL_MS);
  assert.ok(countExtraFiles() < fileLimit, `${countExtraFiles()} files are still open`);
}
