import { setImmediate as breath } from "node:timers/promises";
import { attempt } from "../base/attempt.js";
import { hasMark, IS_LINUX, lineOf, MARK, processes, statOf, type ProcessStat } from "../base/linux-processes.js";

/** A child that leads a process group, with all its descendants. */
export class ProcessGroup {
  readonly pid: number;
  readonly #mark: string;
  readonly #started: number | undefined;
  /** Text that bubblewrap has sent about its namespace. */
  #told = "";
  #first: ProcessStat | undefined;

  constructor(pid: number, mark: string) {
    this.pid = pid;
    this.#mark = `${MARK}=${mark}`;
    this.#started = IS_LINUX ? statOf(pid)?.started : undefined;
  }

  /**
   * Reads bubblewrap's startup message: JSON with `child-pid`, the first process of the namespace that contains all
   * others.
   */
  toldOfNamespace(text: string): void {
    this.#told += text;
    // The character after the number shows that the number is complete.
    const pid = /"child-pid":\s*(\d+)[\s,}]/.exec(this.#told)?.[1];
    if (pid !== undefined) this.#first ??= statOf(Number(pid));
  }

  /**
   * Whether the namespace of a sandbox has ended; undefined if it is not known.
   *
   * The kernel ends the first process last. If it is exiting and has no child, only kernel work is left, such as a
   * millisecond for its mounts.
   */
  namespaceEnded(): boolean | undefined {
    if (this.#first === undefined) return undefined;
    const { pid, started } = this.#first;
    const now = statOf(pid);
    if (now === undefined) return !exists(pid);
    return now.dead || now.started !== started || (now.ending && isChildless(pid));
  }

  /**
   * Living processes of the group. On Linux also those that left it (setsid, daemons). Undefined if the system cannot
   * list them.
   */
  async members(): Promise<number[] | undefined> {
    if (!IS_LINUX) return exists(-this.pid) ? undefined : [];
    const found = new Set<number>();
    const others: ProcessStat[] = [];
    for (const [index, pid] of processes().entries()) {
      if (index % 500 === 499) await breath();
      this.#look(pid, found, others);
    }
    return close(found, others);
  }

  /** Sends a signal to every process of the group. `sparing`: id of a process to skip. */
  signal(signal: NodeJS.Signals, members: readonly number[] | undefined, sparing?: number): void {
    if (sparing === undefined || members === undefined) kill(-this.pid, signal);
    for (const pid of members ?? []) if (pid !== sparing) kill(pid, signal);
  }

  /** Kills the group synchronously, for the exit of this process. */
  killNow(): void {
    if (IS_LINUX) {
      // Children of a dead parent could not be identified.
      kill(-this.pid, "SIGSTOP");
      const found = new Set<number>();
      const others: ProcessStat[] = [];
      for (const pid of processes()) this.#look(pid, found, others);
      for (const pid of close(found, others)) kill(pid, "SIGKILL");
    }
    kill(-this.pid, "SIGKILL");
  }

  #look(pid: number, found: Set<number>, others: ProcessStat[]): void {
    const stat = statOf(pid);
    if (!stat || stat.dead || pid === process.pid) return;
    // A process older than the child is not its descendant. This also excludes reused process ids.
    if (this.#started !== undefined && stat.started < this.#started) return;
    if (stat.group === this.pid || hasMark(pid, this.#mark)) found.add(pid);
    else others.push(stat);
  }
}

/** Start of a living process, in clock ticks since boot; undefined if there is none, or no /proc. */
export function startOf(pid: number): number | undefined {
  const stat = IS_LINUX ? statOf(pid) : undefined;
  return stat === undefined || stat.dead ? undefined : stat.started;
}

/** Adds descendants of the found processes, which may have cleared their environment. */
function close(found: Set<number>, others: readonly ProcessStat[]): number[] {
  for (let before = -1; before !== found.size;) {
    before = found.size;
    for (const { pid, parent } of others) if (found.has(parent)) found.add(pid);
  }
  return [...found];
}

/**
 * Whether a process exists, or, for a negative number, any process of that group. A process that may not be signalled
 * exists too.
 */
function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // The process has ended, or this process may not signal it.
  }
}

/**
 * Whether a process has no children; false if the kernel does not report them. All processes of a namespace descend
 * from its first process, and orphans become its children.
 */
function isChildless(pid: number): boolean {
  return attempt(() => lineOf(`/proc/${pid}/task/${pid}/children`) === "", false);
}
