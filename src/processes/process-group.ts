import { closeSync, constants, openSync, readSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { attempt } from "../base/attempt.js";
import {
  hasMark,
  IS_LINUX,
  readProcLine,
  MARK_VARIABLE,
  listProcessIds,
  readProcessStat,
  type ProcessStat,
} from "../base/linux-processes.js";

/** Processes that are checked before the event loop continues. */
const PROCESSES_PER_YIELD = 500;

/** More bytes than bubblewrap writes about its namespace. */
const NAMESPACE_INFO_BYTES = 1024;

/** A child that leads a process group, with all its descendants. */
export class ProcessGroup {
  readonly pid: number;
  readonly #mark: string;
  readonly #startTicks: number | undefined;
  #namespaceFile: number | undefined;

  /**
   * @param namespaceFile Descriptor of the file to which bubblewrap writes information about its namespace. `close`
   * closes it.
   */
  constructor(pid: number, mark: string, namespaceFile?: number) {
    this.pid = pid;
    this.#mark = `${MARK_VARIABLE}=${mark}`;
    this.#namespaceFile = namespaceFile;
    this.#startTicks = IS_LINUX ? readProcessStat(pid)?.startTicks : undefined;
  }

  /**
   * Whether the namespace of a sandbox has ended. Undefined if the namespace is not known.
   *
   * The kernel ends the first process last. If it is exiting and has no child, only kernel work is left, such as a
   * millisecond for its mounts.
   */
  hasNamespaceEnded(): boolean | undefined {
    const pid = this.#readFirstProcess();
    if (pid === undefined) return undefined;
    const stat = readProcessStat(pid);
    if (stat === undefined) return !processExists(pid);
    return stat.isDead || this.#isOlder(stat) || (stat.isExiting && isChildless(pid));
  }

  close(): void {
    if (this.#namespaceFile !== undefined) closeSync(this.#namespaceFile);
    this.#namespaceFile = undefined;
  }

  /**
   * Lists the living processes of the group; on Linux also processes that left the group (setsid, daemons). Undefined
   * if the system cannot list processes.
   */
  async listMembers(): Promise<number[] | undefined> {
    if (!IS_LINUX) return processExists(-this.pid) ? undefined : [];
    const memberPids = new Set<number>();
    const candidates: ProcessStat[] = [];
    for (const [index, pid] of listProcessIds().entries()) {
      if ((index + 1) % PROCESSES_PER_YIELD === 0) await yieldToEventLoop();
      this.#classify(pid, memberPids, candidates);
    }
    return addDescendants(memberPids, candidates);
  }

  /** Sends a signal to every process of the group. `sparedPid`: id of a process to skip. */
  sendSignal(signal: NodeJS.Signals, members: readonly number[] | undefined, sparedPid?: number): void {
    if (sparedPid === undefined || members === undefined) kill(-this.pid, signal);
    for (const pid of members ?? []) if (pid !== sparedPid) kill(pid, signal);
  }

  /** Kills the group synchronously, for the exit of this process. */
  killNow(): void {
    if (IS_LINUX) {
      // Stopped first, because children of a dead parent could not be identified.
      kill(-this.pid, "SIGSTOP");
      const memberPids = new Set<number>();
      const candidates: ProcessStat[] = [];
      for (const pid of listProcessIds()) this.#classify(pid, memberPids, candidates);
      for (const pid of addDescendants(memberPids, candidates)) kill(pid, "SIGKILL");
    }
    kill(-this.pid, "SIGKILL");
  }

  #classify(pid: number, memberPids: Set<number>, candidates: ProcessStat[]): void {
    const stat = readProcessStat(pid);
    if (!stat || stat.isDead || pid === process.pid) return;
    if (this.#isOlder(stat)) return;
    if (stat.groupId === this.pid || hasMark(pid, this.#mark)) memberPids.add(pid);
    else candidates.push(stat);
  }

  /** Whether a process is older than the child, and so not its descendant. */
  #isOlder({ startTicks }: ProcessStat): boolean {
    return this.#startTicks !== undefined && startTicks < this.#startTicks;
  }

  /** Reads `child-pid`, the first process of the namespace, from what bubblewrap wrote to its `--info-fd`. */
  #readFirstProcess(): number | undefined {
    if (this.#namespaceFile === undefined) return undefined;
    const buffer = Buffer.alloc(NAMESPACE_INFO_BYTES);
    const text = buffer.toString("latin1", 0, readSync(this.#namespaceFile, buffer, 0, buffer.length, 0));
    // The character after the number shows that the number is complete.
    const pid = /"child-pid":\s*(\d+)[\s,}]/.exec(text)?.[1];
    return pid === undefined ? undefined : Number(pid);
  }
}

/**
 * Opens a file without a name, which ends with its last descriptor. In memory if possible. Its first bytes are written,
 * so that writing them again does not fail on a full disk. Undefined if the system has no such files or no space.
 */
export function openUnnamedFile(): number | undefined {
  const O_TMPFILE = 0o20000000;
  const flags = O_TMPFILE | constants.O_DIRECTORY | constants.O_RDWR;
  for (const folder of ["/dev/shm", tmpdir()]) {
    const fd = attempt(() => openSync(folder, flags, 0o600), undefined);
    if (fd === undefined) continue;
    if (attempt(() => writeSync(fd, new Uint8Array(NAMESPACE_INFO_BYTES), 0, NAMESPACE_INFO_BYTES, 0), 0) > 0)
      return fd;
    closeSync(fd);
  }
  return undefined;
}

/**
 * Returns the start of a living process, in clock ticks since boot. Undefined if there is no such process, or no /proc.
 */
export function readStartTicks(pid: number): number | undefined {
  const stat = IS_LINUX ? readProcessStat(pid) : undefined;
  return stat === undefined || stat.isDead ? undefined : stat.startTicks;
}

/** Adds descendants of the found processes, which may have cleared their environment. */
function addDescendants(memberPids: Set<number>, candidates: readonly ProcessStat[]): number[] {
  for (let previousSize = -1; previousSize !== memberPids.size;) {
    previousSize = memberPids.size;
    for (const { pid, parentPid } of candidates) if (memberPids.has(parentPid)) memberPids.add(pid);
  }
  return [...memberPids];
}

/**
 * Whether a process exists, or, for a negative number, any process of that group. A process that may not be signalled
 * exists too.
 */
function processExists(pid: number): boolean {
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
  return attempt(() => readProcLine(`/proc/${pid}/task/${pid}/children`) === "", false);
}
