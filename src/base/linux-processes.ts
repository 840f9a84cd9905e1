import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { attempt } from "./attempt.js";

export const IS_LINUX = process.platform === "linux";

/** In the environment of every child, so that those are found that left their process group. */
export const MARK = "GANTRY_CALL";

/** Processes that this process started as commands, MCP servers or background processes, and that have not ended. */
export const commandPids = new Set<number>();

export interface ProcessStat {
  pid: number;
  parent: number;
  group: number;
  /** Clock ticks since boot. */
  started: number;
  dead: boolean;
  /** On its way out: it runs nothing of its own any more. */
  ending: boolean;
}

/**
 * Whether a process is a command, an MCP server or a background process that gantry started, or descends from one. All of
 * them carry `MARK`, and a process that cleared its environment is found by its ancestors. Not found is a process without
 * a sandbox that cleared its environment and has lost its parent. False without /proc.
 */
export function isOfCommand(pid: number): boolean {
  if (!IS_LINUX) return false;
  // The commands of a gantry that runs in a command of another gantry are not the only processes with a mark.
  const isNested = hasMark(process.pid, `${MARK}=`);
  for (let at = pid, i = 0; at > 1 && at !== process.pid && i < MAX_ANCESTORS; i++) {
    const stat = statOf(at);
    // The process group is kept when a process loses its parent.
    if (commandPids.has(at) || commandPids.has(stat?.group ?? 0) || (!isNested && hasMark(at, `${MARK}=`))) return true;
    at = stat?.parent ?? 0;
  }
  return false;
}

/** A chain of parents has an end; it may change while it is read. */
const MAX_ANCESTORS = 1_000;

/** All processes of this machine that /proc lists. */
export function processes(): number[] {
  return attempt(
    () =>
      readdirSync("/proc")
        .filter((name) => /^\d+$/.test(name))
        .map(Number),
    [],
  );
}

/** Among the flags of a process that the kernel tells. */
const PF_EXITING = 4;

/** One line of /proc/PID/stat: a name of at most 64 bytes, and numbers. */
const LINE = Buffer.alloc(2048);

export function statOf(pid: number): ProcessStat | undefined {
  try {
    const text = lineOf(`/proc/${pid}/stat`);
    // The name, in parentheses, may hold anything.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ", 20);
    const [state = "", parent, group] = fields;
    return {
      pid,
      parent: Number(parent),
      group: Number(group),
      started: Number(fields[19] ?? 0),
      dead: "ZX".includes(state),
      ending: (Number(fields[6]) & PF_EXITING) !== 0,
    };
  } catch {
    return undefined;
  }
}

/** `readFileSync` asks twice as much of the system, for each process of the machine. */
export function lineOf(path: string): string {
  const fd = openSync(path, "r");
  try {
    return LINE.toString("latin1", 0, readSync(fd, LINE, 0, LINE.length, 0));
  } finally {
    closeSync(fd);
  }
}

export function hasMark(pid: number, mark: string): boolean {
  return attempt(() => `\0${readFileSync(`/proc/${pid}/environ`, "latin1")}`.includes(`\0${mark}`), false);
}
