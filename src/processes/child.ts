import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { abortable, deadline, settlesWithin } from "../base/abort.js";
import { ticks } from "../base/clock.js";
import { newId } from "../base/ids.js";
import { hasCode } from "../ports/errors.js";
import { guard, guardGroup, unguard } from "./reaper.js";
import { commandPids, MARK } from "../base/linux-processes.js";
import { ProcessGroup } from "./process-group.js";

/** What is started. */
export interface Program {
  file: string;
  args: readonly string[];
  cwd: string;
  /** All that the child gets, beside a mark by which it is found again. */
  env: Readonly<Record<string, string>>;
  /**
   * Whether `file` is bubblewrap and `args` what runs in it. It waits for its `arrange`ment. Its processes live in a
   * namespace of their own and end with the first of it: TERM goes to all but bubblewrap itself, which would take the
   * rest down at once.
   */
  sandbox?: boolean;
  /** Whether something may be said to its standard input. Default false: it is closed. */
  input?: boolean;
  /** Whether it starts no program of its own and holds nothing that a kill would spoil. Default false. */
  isLeaf?: boolean;
}

export interface ChildOptions {
  /** Left out: it takes what it takes. */
  timeoutMs?: number;
  signal: AbortSignal;
  onOutput?(chunk: Buffer): void;
  /** Between TERM and KILL, in ms; asked when that time has begun. */
  graceMs?(): number;
}

export interface ChildEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
  why: "exit" | "timeout" | "abort";
  /** Whether it left processes behind, which were then ended. */
  leftBehind: boolean;
  /** Why bubblewrap could not start the program, in its own words; undefined if it did, and for other programs. */
  sandboxFault: string | undefined;
}

/** Where bubblewrap is told how the sandbox shall be, and where it tells which process is the first of its namespace. */
const NAMESPACE_FD = 3;
const ARRANGEMENT_FD = 4;

/** Size of what is kept of bubblewrap's own messages, in characters. */
const MAX_FAULT_CHARACTERS = 500;

/** Between TERM and KILL, in ms; shorter when the server is going down. */
const GRACE_MS = 2_000;
const SHUTDOWN_GRACE_MS = 1_000;
/** How long output may go on behind the end of the child. */
const DRAIN_MS = 250;
/** How long a child that is gone may take to be told of. */
const REAP_MS = 500;
const POLL_MS = 25;
/** Pauses, in ms, in which what dies by itself has its chance; a sandbox needs about one. */
const MOMENTS_MS = [1, 2, 5, 11] as const;

const living = new Set<ProcessGroup>();

/** End every child of this process, at once and without grace. For the last moments of a process. */
function killAll(): void {
  for (const group of living) group.killNow();
}

/** A program in a process group of its own. Whoever starts it lets it `run`, or `kill`s it. */
export class Child {
  readonly #process: ChildProcess;
  readonly #group: ProcessGroup;
  readonly #ended: Ended;
  readonly #sandbox: boolean;
  readonly #isLeaf: boolean;
  readonly #mark: string;
  /** Output of bubblewrap itself: that of the program in the sandbox goes to the standard output alone. */
  #sandboxErrors = "";

  private constructor(
    child: ChildProcess,
    group: ProcessGroup,
    ended: Ended,
    { sandbox = false, isLeaf = false }: Program,
    mark: string,
  ) {
    this.#process = child;
    this.#group = group;
    this.#ended = ended;
    this.#sandbox = sandbox;
    this.#isLeaf = isLeaf;
    this.#mark = mark;
    enlist(group);
    // What has ended cannot be spoken to.
    child.stdin?.on("error", () => undefined);
    this.#stream<Readable>(NAMESPACE_FD)?.on("data", (chunk: Buffer) =>
      group.toldOfNamespace(chunk.toString("latin1")),
    );
    if (sandbox)
      child.stderr?.on("data", (chunk: Buffer) => {
        if (this.#sandboxErrors.length < MAX_FAULT_CHARACTERS) this.#sandboxErrors += chunk.toString();
      });
    // What cannot be written to has ended, and says why itself.
    this.#stream<Writable>(ARRANGEMENT_FD)?.on("error", () => undefined);
  }

  /** Rejects with the system's error when it cannot start. */
  static async start(program: Program): Promise<Child> {
    const { file, args, cwd, env, sandbox = false, input = false } = program;
    const { spawn } = await import("node:child_process");
    const mark = newId();
    // What is in a sandbox ends with this process by itself.
    if (!sandbox) await guard(mark);
    const child = spawn(file, sandbox ? ["--args", String(ARRANGEMENT_FD), "--", ...args] : args, {
      cwd,
      env: { ...env, [MARK]: mark },
      detached: true,
      stdio: [input ? "pipe" : "ignore", "pipe", "pipe", ...(sandbox ? (["pipe", "pipe"] as const) : [])],
    });
    const ended = waitFor(child);
    if (child.pid === undefined) {
      unguard(mark);
      return ended.exit.then(() => Promise.reject(new Error("no process")));
    }
    guardGroup(mark, child.pid);
    return new Child(child, new ProcessGroup(child.pid, mark), ended, program, mark);
  }

  get pid(): number {
    return this.#group.pid;
  }

  /** Only where it has an `input`. */
  get stdin(): Writable | null {
    return this.#process.stdin;
  }

  get stdout(): Readable | null {
    return this.#process.stdout;
  }

  get stderr(): Readable | null {
    return this.#process.stderr;
  }

  get living(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /**
   * Bubblewrap's switches, without which it does nothing. `taken` is called when they are on their way. It tells of its
   * namespace, and ends with this process, unless `alone`: that is for what ends by itself at once.
   */
  arrange(switches: readonly string[], { taken, alone = false }: { taken?: () => void; alone?: boolean } = {}): void {
    // Asked for here: where nobody is left to be told, bubblewrap would die of it halfway, and leave a process behind.
    const held = alone ? [] : ["--info-fd", String(NAMESPACE_FD), "--die-with-parent"];
    this.#stream<Writable>(ARRANGEMENT_FD)?.end([...held, ...switches].map((one) => `${one}\0`).join(""), taken);
  }

  /** Whether this process goes on for it. */
  hold(on: boolean): void {
    // Pipes of a child are sockets.
    for (const one of [this.#process, ...(this.#process.stdio as (Socket | null)[])]) one?.[on ? "ref" : "unref"]();
  }

  /**
   * When the promise settles nothing of it is left: within 3 s of the abort or time-out, whatever it ignores. Without
   * `onOutput` its streams are for whoever holds them, to their end.
   */
  async run({ timeoutMs, signal, onOutput, graceMs }: ChildOptions): Promise<ChildEnd> {
    if (onOutput) for (const stream of [this.#process.stdout, this.#process.stderr]) stream?.on("data", onOutput);
    const time = deadline(timeoutMs, signal);
    try {
      await abortable(this.#ended.exit, time.signal).catch((error: unknown) => {
        if (!time.signal.aborted) throw error;
      });
      time.clear();
      if (!time.signal.aborted) await settlesWithin(this.#ended.closed, DRAIN_MS);
      const why = time.expired ? "timeout" : signal.aborted ? "abort" : "exit";
      // Looking through all processes of the system takes longer than most searches.
      if (this.#isLeaf && why !== "exit") this.#group.signal("SIGKILL", undefined);
      const leftBehind = !this.#isLeaf && (await endAll(this.#group, why === "exit", this.#sandbox, signal, graceMs));
      // Past KILL only a process stuck in the kernel is left, for which nobody can wait. One that is gone is told of late
      // by a busy machine: how it ended is known from then on.
      await settlesWithin(this.#ended.exit, REAP_MS);
      if (onOutput) await settlesWithin(this.#ended.closed, DRAIN_MS);
      const { exitCode: code, signalCode } = this.#process;
      const sandboxFault = code === 0 ? undefined : /^bwrap: (.*)/m.exec(this.#sandboxErrors)?.[1];
      return { code, signal: signalCode, why, leftBehind: leftBehind && why === "exit", sandboxFault };
    } finally {
      time.clear();
      this.#dismiss(onOutput === undefined);
    }
  }

  /** At once, and without a look at what it may have started: for one that never ran. */
  kill(): void {
    this.#group.signal("SIGKILL", undefined);
    this.#dismiss();
  }

  /** @param toTheirEnd Whether what it printed is still read. */
  #dismiss(toTheirEnd = false): void {
    const { stdio, stdout, stderr } = this.#process;
    for (const stream of stdio) if (!toTheirEnd || (stream !== stdout && stream !== stderr)) stream?.destroy();
    this.#process.unref();
    dismiss(this.#group);
    unguard(this.#mark);
  }

  #stream<T extends Readable | Writable>(fd: number): T | undefined {
    return (this.#process.stdio[fd] ?? undefined) as T | undefined;
  }
}

interface Ended {
  exit: Promise<void>;
  closed: Promise<void>;
}

function waitFor(child: ChildProcess): Ended {
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
export async function endAll(
  group: ProcessGroup,
  over: boolean,
  sandbox: boolean,
  signal: AbortSignal,
  graceMs = (): number => (signal.aborted && hasCode(signal.reason, "shutting_down") ? SHUTDOWN_GRACE_MS : GRACE_MS),
): Promise<boolean> {
  const sparing = sandbox ? group.pid : undefined;
  // What only needs a moment to die by itself (a pipeline, a sandbox that ends with its shell) was not left behind.
  for (const moment of MOMENTS_MS) {
    if (signal.aborted) break;
    if (await nothingLeft(group, over)) return false;
    await sleep(moment);
  }
  let members = await group.members();
  if (members?.length === 0) return false;
  group.signal("SIGTERM", members, sparing);
  const started = ticks();
  for (let pause = POLL_MS / 4; ticks() - started < graceMs(); pause = Math.min(pause * 2, 4 * POLL_MS)) {
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
  commandPids.add(group.pid);
}

function dismiss(group: ProcessGroup): void {
  living.delete(group);
  commandPids.delete(group.pid);
  if (living.size === 0) process.off("exit", killAll);
}
