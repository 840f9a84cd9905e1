import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { attempt } from "./attempt.js";

export const IS_LINUX = process.platform === "linux";

/** Environment variable that identifies commands, MCP servers and background processes outside their process group. */
export const MARK_VARIABLE = "GANTRY_CALL";

/** Running processes that this process started as commands, MCP servers or background processes. */
export const commandPids = new Set<number>();

/** Selected fields of /proc/PID/stat. */
export interface ProcessStat {
  pid: number;
  parentPid: number;
  groupId: number;
  /** Start time, in clock ticks since boot. */
  startTicks: number;
  /** Whether the process has ended and its parent has not collected the exit status. */
  isDead: boolean;
  /** Whether the process is exiting and no longer runs its own code. */
  isExiting: boolean;
}

/**
 * Whether a process is a command, MCP server or background process that gantry started, or a descendant of one. Always
 * false without /proc.
 *
 * Such a process carries the variable `MARK_VARIABLE`. A process that cleared its environment is found by its
 * ancestors. An unsandboxed process that cleared its environment and lost its parent is not found.
 */
export function isCommandProcess(pid: number): boolean {
  if (!IS_LINUX) return false;
  // If this gantry itself runs in a command of another gantry, the mark alone does not identify its own commands.
  const isNested = hasMark(process.pid, `${MARK_VARIABLE}=`);
  for (let ancestorPid = pid, i = 0; ancestorPid > 1 && ancestorPid !== process.pid && i < MAX_ANCESTORS; i++) {
    const stat = readProcessStat(ancestorPid);
    // A process keeps its process group when it loses its parent.
    if (
      commandPids.has(ancestorPid) ||
      commandPids.has(stat?.groupId ?? 0) ||
      (!isNested && hasMark(ancestorPid, `${MARK_VARIABLE}=`))
    )
      return true;
    ancestorPid = stat?.parentPid ?? 0;
  }
  return false;
}

/** Limits the search through the ancestors, which could be endless if process ids are reused during the search. */
const MAX_ANCESTORS = 1_000;

/** Ids of all processes listed in /proc; empty if /proc is not readable. */
export function listProcessIds(): number[] {
  return attempt(
    () =>
      readdirSync("/proc")
        .filter((name) => /^\d+$/.test(name))
        .map(Number),
    [],
  );
}

/** Kernel process flag: the process is exiting. */
const PF_EXITING = 4;

/** Buffer for a line of /proc/PID/stat: a name of at most 64 bytes, and numbers. */
const LINE_BUFFER = Buffer.alloc(2048);

/** Returns undefined if the process does not exist or /proc is not readable. */
export function readProcessStat(pid: number): ProcessStat | undefined {
  try {
    const text = readProcLine(`/proc/${pid}/stat`);
    // The name, in parentheses, may contain any characters.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ", 20);
    // Indexes count from the field after the name: `state`, field 3 in proc(5), has index 0.
    const [state = "", parent, group] = fields;
    return {
      pid,
      parentPid: Number(parent),
      groupId: Number(group),
      startTicks: Number(fields[19] ?? 0),
      isDead: "ZX".includes(state),
      isExiting: (Number(fields[6]) & PF_EXITING) !== 0,
    };
  } catch {
    return undefined;
  }
}

/**
 * Reads the first line of a file in /proc. Throws the system's error. `readFileSync` needs twice as many system calls,
 * for each process of the machine.
 */
export function readProcLine(path: string): string {
  const fd = openSync(path, "r");
  try {
    return LINE_BUFFER.toString("latin1", 0, readSync(fd, LINE_BUFFER, 0, LINE_BUFFER.length, 0));
  } finally {
    closeSync(fd);
  }
}

/** Whether the environment of a process contains a variable that starts with `mark`. False if it is not readable. */
export function hasMark(pid: number, mark: string): boolean {
  return attempt(() => `\0${readFileSync(`/proc/${pid}/environ`, "latin1")}`.includes(`\0${mark}`), false);
}
