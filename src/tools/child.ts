import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { abortable, deadline, settlesWithin } from "../base/abort.js";
import { ticks } from "../base/clock.js";
import { hasCode } from "../ports/errors.js";
import { MARK, ProcessGroup } from "./process-group.js";

export interface ChildOptions {
  file: string;
  args: readonly string[];
  cwd: string;
  /** All that the child gets, beside a mark by which it is found again. */
  env: Readonly<Record<string, string>>;
  timeoutMs: number;
  signal: AbortSignal;
  onOutput(chunk: Buffer): void;
  /**
   * Whether it is bubblewrap, whose processes live in a namespace of their own and end with the first of it. TERM then
   * goes to all but bubblewrap itself, which would take the rest down at once.
   */
  sandbox?: boolean;
}

/** How a child ended. */
export interface ChildEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
  why: "exit" | "timeout" | "abort";
  /** Whether it left processes behind, which were then ended. */
  leftBehind: boolean;
}

/** Where a sandbox tells which process is the first of its namespace, and how bubblewrap is asked to. */
const NAMESPACE_FD = 3;
const TELL_NAMESPACE = ["--info-fd", String(NAMESPACE_FD)];
/** Between TERM and KILL, in ms; shorter when the server is going down. */
const GRACE_MS = 2_000;
const SHUTDOWN_GRACE_MS = 1_000;
/** How long output may go on behind the end of the child. */
const DRAIN_MS = 250;
const POLL_MS = 25;
/** Pauses, in ms, in which what dies by itself has its chance; a sandbox needs about one. */
const MOMENTS_MS = [1, 2, 5, 11] as const;

const living = new Set<ProcessGroup>();

/** End every child of this process, at once and without grace. For the last moments of a process. */
function killAll(): void {
  for (const group of living) group.killNow();
}

/**
 * Run a program in a process group of its own, its standard input closed. When the promise settles nothing of it is
 * left: within 3 s of the abort or time-out, whatever it ignores. Rejects with the system's error when it cannot start.
 */
export async function runChild(options: ChildOptions): Promise<ChildEnd> {
  const { spawn } = await import("node:child_process");
  options.signal.throwIfAborted();
  const mark = randomUUID();
  const args = options.sandbox === true ? [...TELL_NAMESPACE, ...options.args] : options.args;
  const child = spawn(options.file, args, {
    cwd: options.cwd,
    env: { ...options.env, [MARK]: mark },
    detached: true,
    stdio: ["ignore", "pipe", "pipe", ...(options.sandbox === true ? ["pipe" as const] : [])],
  });
  const ended = waitFor(child);
  if (child.pid === undefined) return ended.exit.then(() => Promise.reject(new Error("no process")));
  const group = new ProcessGroup(child.pid, mark);
  enlist(group);
  const told = child.stdio[NAMESPACE_FD] as Readable | undefined;
  told?.on("data", (chunk: Buffer) => group.toldOfNamespace(chunk.toString("latin1")));
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => options.onOutput(chunk));
  const time = deadline(options.timeoutMs, options.signal);
  try {
    await abortable(ended.exit, time.signal).catch((error: unknown) => {
      if (!time.signal.aborted) throw error;
    });
    time.clear();
    if (!time.signal.aborted) await settlesWithin(ended.closed, DRAIN_MS);
    const why = time.expired ? "timeout" : options.signal.aborted ? "abort" : "exit";
    const leftBehind = await endAll(group, why === "exit", options);
    // Past KILL only a process stuck in the kernel is left, for which nobody can wait.
    await settlesWithin(ended.closed, DRAIN_MS);
    return { code: child.exitCode, signal: child.signalCode, why, leftBehind: leftBehind && why === "exit" };
  } finally {
    time.clear();
    for (const stream of [child.stdout, child.stderr, told]) stream?.destroy();
    child.unref();
    dismiss(group);
  }
}

function waitFor(child: ChildProcess): { exit: Promise<void>; closed: Promise<void> } {
  const exit = new Promise<void>((resolve, reject) => {
    child.once("exit", () => resolve());
    child.once("error", reject);
  });
  // Its fault is the same, and told by `exit`.
  exit.catch(() => undefined);
  return { exit, closed: new Promise((resolve) => child.once("close", () => resolve())) };
}

/**
 * TERM, and KILL for what is left after the grace. Returns whether there was anything.
 *
 * @param over Whether the child itself has ended.
 */
async function endAll(group: ProcessGroup, over: boolean, options: ChildOptions): Promise<boolean> {
  const sparing = options.sandbox === true ? group.pid : undefined;
  // What only needs a moment to die by itself (a pipeline, a sandbox that ends with its shell) was not left behind.
  for (const moment of MOMENTS_MS) {
    if (options.signal.aborted) break;
    if (await nothingLeft(group, over)) return false;
    await sleep(moment);
  }
  let members = await group.members();
  if (members?.length === 0) return false;
  group.signal("SIGTERM", members, sparing);
  const started = ticks();
  const grace = (): number =>
    options.signal.aborted && hasCode(options.signal.reason, "shutting_down") ? SHUTDOWN_GRACE_MS : GRACE_MS;
  for (let pause = POLL_MS / 4; ticks() - started < grace(); pause = Math.min(pause * 2, 4 * POLL_MS)) {
    await sleep(pause);
    members = await group.members();
    if (members?.length === 0) return true;
  }
  // More than once, because a process can fork between the look and the signal.
  for (let round = 0; round < 8; round++) {
    group.signal("SIGKILL", members);
    await sleep(POLL_MS);
    members = await group.members();
    if (members?.length === 0) break;
  }
  return true;
}

/** The kernel ends a namespace with its first process: where that is known, nobody has to look for others. */
async function nothingLeft(group: ProcessGroup, over: boolean): Promise<boolean> {
  const ended = over ? group.namespaceEnded() : undefined;
  return ended ?? (await group.members())?.length === 0;
}

/** Children must not outlive a process that ends without asking anybody. */
function enlist(group: ProcessGroup): void {
  if (living.size === 0) process.once("exit", killAll);
  living.add(group);
}

function dismiss(group: ProcessGroup): void {
  living.delete(group);
  if (living.size === 0) process.off("exit", killAll);
}
