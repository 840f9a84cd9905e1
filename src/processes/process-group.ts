import { setImmediate as breath } from "node:timers/promises";
import { attempt } from "../base/attempt.js";
import { hasMark, IS_LINUX, lineOf, MARK, processes, statOf, type ProcessStat } from "../base/linux-processes.js";

/** A child that leads a process group, and all that came of it. */
export class ProcessGroup {
  readonly pid: number;
  readonly #mark: string;
  readonly #started: number | undefined;
  /** What a sandbox told of its namespace. */
  #told = "";
  #first: ProcessStat | undefined;

  constructor(pid: number, mark: string) {
    this.pid = pid;
    this.#mark = `${MARK}=${mark}`;
    this.#started = IS_LINUX ? statOf(pid)?.started : undefined;
  }

  /** What a sandbox says as it starts: JSON with `child-pid`, the first process of the namespace that all the others are in. */
  toldOfNamespace(text: string): void {
    this.#told += text;
    // What follows the number says that all of it has come.
    const pid = /"child-pid":\s*(\d+)[\s,}]/.exec(this.#told)?.[1];
    if (pid !== undefined) this.#first ??= statOf(Number(pid));
  }

  /**
   * Whether the namespace of a sandbox has ended: the kernel lets its first process end as the last. What is left of one
   * that is on its way out, and has no child, is the kernel's work, a millisecond for its mounts. Undefined where none is
   * known.
   */
  namespaceEnded(): boolean | undefined {
    if (this.#first === undefined) return undefined;
    const { pid, started } = this.#first;
    const now = statOf(pid);
    if (now === undefined) return !exists(pid);
    return now.dead || now.started !== started || (now.ending && isChildless(pid));
  }

  /** Processes of the group, and on Linux those that left it (setsid, daemons), without the dead. Undefined where the system cannot tell which. */
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

  /** Signal every process of it, now. `sparing` leaves one out. */
  signal(signal: NodeJS.Signals, members: readonly number[] | undefined, sparing?: number): void {
    if (sparing === undefined || members === undefined) kill(-this.pid, signal);
    for (const pid of members ?? []) if (pid !== sparing) kill(pid, signal);
  }

  /** As the process ends there is no time for anything else. */
  killNow(): void {
    if (IS_LINUX) {
      // A dead parent's children could not be told from others.
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
    // What is older than the child cannot have come of it; this also makes up for a number used again.
    if (this.#started !== undefined && stat.started < this.#started) return;
    if (stat.group === this.pid || hasMark(pid, this.#mark)) found.add(pid);
    else others.push(stat);
  }
}

/** When a process began, in clock ticks since boot; undefined where there is none that lives, and no /proc. */
export function startOf(pid: number): number | undefined {
  const stat = IS_LINUX ? statOf(pid) : undefined;
  return stat === undefined || stat.dead ? undefined : stat.started;
}

/** Add children of what was found, which may have emptied their environment. */
function close(found: Set<number>, others: readonly ProcessStat[]): number[] {
  for (let before = -1; before !== found.size;) {
    before = found.size;
    for (const { pid, parent } of others) if (found.has(parent)) found.add(pid);
  }
  return [...found];
}

/** Of a negative number: whether there is any process of that group. What may not be signalled is there, too. */
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
    // Gone already, or not ours to signal.
  }
}

/** Not where the kernel does not tell. All of a namespace come of its first process; those whose parent ends become its children. */
function isChildless(pid: number): boolean {
  return attempt(() => lineOf(`/proc/${pid}/task/${pid}/children`) === "", false);
}
