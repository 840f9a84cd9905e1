import type { ChildProcess, IOType } from "node:child_process";
import { closeSync } from "node:fs";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { abortable, createDeadline, settlesWithin } from "../base/abort.js";
import { newId } from "../base/ids.js";
import { endGroup } from "./end-group.js";
import { registerMark, registerGroup, unregisterMark } from "./reaper.js";
import { commandPids, MARK_VARIABLE } from "../base/linux-processes.js";
import { openUnnamedFile, ProcessGroup } from "./process-group.js";

/** A program to start. */
export interface Program {
  file: string;
  args: readonly string[];
  cwd: string;
  /** The child's environment. Only the mark that identifies the child is added. */
  env: Readonly<Record<string, string>>;
  /**
   * Whether `file` is bubblewrap and `args` is the command in the sandbox. Bubblewrap waits for `configureSandbox`.
   *
   * The processes have their own namespace and end with its first process. TERM goes to all processes except
   * bubblewrap, because the end of bubblewrap would end the other processes immediately.
   */
  isSandbox?: boolean;
  /** Whether standard input is open for writing. Default: false, standard input is closed. */
  hasInput?: boolean;
  /** Whether the program starts no programs and can be killed without damage. Default: false. */
  isLeaf?: boolean;
}

export interface ChildOptions {
  /** Time limit in ms. Undefined: no limit. */
  timeoutMs?: number;
  signal: AbortSignal;
  onOutput?(chunk: Buffer): void;
  /** Time in ms between TERM and KILL, read repeatedly during that time. Default: 2000, or 1000 during a shutdown. */
  graceMs?(): number;
}

export interface ChildEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
  reason: "exit" | "timeout" | "abort";
  /** Whether the program left processes running, which were then ended. */
  hadLeftovers: boolean;
  /** Bubblewrap's error message if it could not start the program; undefined otherwise and for other programs. */
  sandboxFault: string | undefined;
}

/** Bubblewrap writes the first process of its namespace to this file descriptor. */
const NAMESPACE_FD = 3;
/** Bubblewrap reads its switches from this file descriptor. */
const SWITCHES_FD = 4;
/**
 * The command in a sandbox must write to this file descriptor and wait for a line before it begins. No line arrives if
 * the host process was killed. Bubblewrap ends with its host only if the host ends after bubblewrap has asked the kernel
 * for that. A failing write is not enough: the kernel closes the files of a killed process late.
 */
export const HOST_FD = 5;

/** Maximum length of bubblewrap's messages to keep, in characters. */
const MAX_FAULT_CHARACTERS = 500;
/** Time in ms that output may continue after the child ends. */
const DRAIN_MS = 250;
/** Time in ms that the exit event of an ended child may take. */
const EXIT_EVENT_WAIT_MS = 500;
const livingGroups = new Set<ProcessGroup>();

/** Kills every child of this process immediately. For the exit of the process. */
function killAll(): void {
  for (const group of livingGroups) group.killNow();
}

/** A program in its own process group. The starter must call `run` or `kill`. */
export class Child {
  readonly #process: ChildProcess;
  readonly #group: ProcessGroup;
  readonly #endPromises: EndPromises;
  readonly #isSandbox: boolean;
  readonly #isLeaf: boolean;
  readonly #mark: string;
  /** Output of bubblewrap itself. The sandboxed program writes only to standard output. */
  #sandboxErrors = "";

  private constructor(
    child: ChildProcess,
    group: ProcessGroup,
    endPromises: EndPromises,
    { isSandbox = false, isLeaf = false }: Program,
    mark: string,
  ) {
    this.#process = child;
    this.#group = group;
    this.#endPromises = endPromises;
    this.#isSandbox = isSandbox;
    this.#isLeaf = isLeaf;
    this.#mark = mark;
    trackGroup(group);
    // Writing to a process that has ended fails; the error is ignored.
    child.stdin?.on("error", () => undefined);
    if (isSandbox)
      child.stderr?.on("data", (chunk: Buffer) => {
        if (this.#sandboxErrors.length < MAX_FAULT_CHARACTERS) this.#sandboxErrors += chunk.toString();
      });
    // If bubblewrap cannot be written to, it has ended and reports the reason itself.
    this.#stream(SWITCHES_FD)?.on("error", () => undefined);
    const hostStream = this.#stream(HOST_FD);
    hostStream?.on("error", () => undefined).once("data", () => hostStream.end("\n"));
  }

  /** Starts a program. Rejects with the system's error if it cannot start. */
  static async start(program: Program): Promise<Child> {
    const { file, args, cwd, env, isSandbox = false, hasInput = false } = program;
    const { spawn } = await import("node:child_process");
    const mark = newId();
    // Sandboxed processes end with this process automatically and need no reaper.
    if (!isSandbox) await registerMark(mark);
    // A file, because bubblewrap dies from writing to a pipe whose reader was killed, and its child then waits forever.
    const namespaceFile = isSandbox ? openUnnamedFile() : undefined;
    const sandboxStdio: (IOType | number)[] = isSandbox ? [namespaceFile ?? "ignore", "pipe", "pipe"] : [];
    const child = spawn(file, isSandbox ? ["--args", String(SWITCHES_FD), "--", ...args] : args, {
      cwd,
      env: { ...env, [MARK_VARIABLE]: mark },
      detached: true,
      stdio: [hasInput ? "pipe" : "ignore", "pipe", "pipe", ...sandboxStdio],
    });
    const endPromises = observeEnd(child);
    if (child.pid === undefined) {
      unregisterMark(mark);
      if (namespaceFile !== undefined) closeSync(namespaceFile);
      return endPromises.exit.then(() => Promise.reject(new Error("no process")));
    }
    registerGroup(mark, child.pid);
    return new Child(child, new ProcessGroup(child.pid, mark, namespaceFile), endPromises, program, mark);
  }

  get pid(): number {
    return this.#group.pid;
  }

  /** Null unless the program has `hasInput` set. */
  get stdin(): Writable | null {
    return this.#process.stdin;
  }

  get stdout(): Readable | null {
    return this.#process.stdout;
  }

  get stderr(): Readable | null {
    return this.#process.stderr;
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** Sends bubblewrap its switches, for which it waits. `onWritten` is called after the switches are written. */
  configureSandbox(switches: readonly string[], onWritten?: () => void): void {
    const fixedSwitches = ["--info-fd", String(NAMESPACE_FD), "--die-with-parent"];
    this.#stream<Writable>(SWITCHES_FD)?.end(
      [...fixedSwitches, ...switches].map((argument) => `${argument}\0`).join(""),
      onWritten,
    );
  }

  /** Sets whether the child keeps this process alive. */
  keepAlive(isEnabled: boolean): void {
    // Pipes of a child are sockets.
    for (const handle of [this.#process, ...(this.#process.stdio as (Socket | null)[])])
      handle?.[isEnabled ? "ref" : "unref"]();
  }

  /**
   * Waits for the end of the program. When the promise settles, no process of the group is left, at most 3 s after an
   * abort or timeout.
   *
   * Without `onOutput` the caller must read the output streams to their end.
   */
  async run({ timeoutMs, signal, onOutput, graceMs }: ChildOptions): Promise<ChildEnd> {
    if (onOutput) for (const stream of [this.#process.stdout, this.#process.stderr]) stream?.on("data", onOutput);
    const timeout = createDeadline(timeoutMs, signal);
    try {
      await abortable(this.#endPromises.exit, timeout.signal).catch((error: unknown) => {
        if (!timeout.signal.aborted) throw error;
      });
      timeout.clear();
      if (!timeout.signal.aborted) await settlesWithin(this.#endPromises.close, DRAIN_MS);
      const reason = timeout.hasExpired ? "timeout" : signal.aborted ? "abort" : "exit";
      // A scan of all processes would take longer than most searches.
      if (this.#isLeaf && reason !== "exit") this.#group.sendSignal("SIGKILL", undefined);
      const hadLeftovers =
        !this.#isLeaf && (await endGroup(this.#group, reason === "exit", this.#isSandbox, signal, graceMs));
      // After KILL, only a process stuck in the kernel can remain, which cannot be awaited. On a busy machine the exit
      // event of an ended process is late; the exit code is known only after it.
      await settlesWithin(this.#endPromises.exit, EXIT_EVENT_WAIT_MS);
      if (onOutput) await settlesWithin(this.#endPromises.close, DRAIN_MS);
      const { exitCode, signalCode } = this.#process;
      const sandboxFault = exitCode === 0 ? undefined : /^bwrap: (.*)/m.exec(this.#sandboxErrors)?.[1];
      return {
        code: exitCode,
        signal: signalCode,
        reason,
        hadLeftovers: hadLeftovers && reason === "exit",
        sandboxFault,
      };
    } finally {
      timeout.clear();
      this.#release(onOutput === undefined);
    }
  }

  /** Kills the program immediately, without a search for its processes. For a program that never ran. */
  kill(): void {
    this.#group.sendSignal("SIGKILL", undefined);
    this.#release();
  }

  /** @param keepsOutput Whether the output streams stay open for reading. */
  #release(keepsOutput = false): void {
    const { stdio, stdout, stderr } = this.#process;
    for (const stream of stdio) if (!keepsOutput || (stream !== stdout && stream !== stderr)) stream?.destroy();
    this.#process.unref();
    this.#group.close();
    untrackGroup(this.#group);
    unregisterMark(this.#mark);
  }

  #stream<T extends Readable | Writable = Socket>(fd: number): T | undefined {
    return (this.#process.stdio[fd] ?? undefined) as T | undefined;
  }
}

interface EndPromises {
  exit: Promise<void>;
  close: Promise<void>;
}

function observeEnd(child: ChildProcess): EndPromises {
  const exit = new Promise<void>((resolve, reject) => {
    child.once("exit", () => resolve());
    child.once("error", reject);
  });
  // The rejection is handled through the returned `exit`.
  exit.catch(() => undefined);
  return { exit, close: new Promise((resolve) => child.once("close", () => resolve())) };
}

/** Registers a group, so that children do not outlive a process that exits without cleanup. */
function trackGroup(group: ProcessGroup): void {
  if (livingGroups.size === 0) process.once("exit", killAll);
  livingGroups.add(group);
  commandPids.add(group.pid);
}

function untrackGroup(group: ProcessGroup): void {
  livingGroups.delete(group);
  commandPids.delete(group.pid);
  if (livingGroups.size === 0) process.off("exit", killAll);
}
