// The measured processes. Each leads its own process group, which is killed at the end, also if the bench is
// interrupted. Resource usage is read from /proc, only on Linux.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, rmSync, mkdtempSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** A program with its arguments, or a shell command. */
export type Command = readonly [program: string, ...args: string[]] | string;

export interface StartOptions {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** Default: `ignore`. */
  stderr?: "ignore" | "inherit" | "pipe";
}

const runningChildren = new Set<ChildProcess>();
const tempFolders = new Set<string>();
/** Duration of a clock tick in /proc: USER_HZ is 100 on all platforms of Node. */
const TICK_MS = 10;
const EXIT_LIMIT_MS = 6_000;

/** Starts a process. Callers must call `endProcess` for the process, or `endAllProcesses`. */
export function startProcess(command: Command, { cwd, env, stderr = "ignore" }: StartOptions = {}): ChildProcess {
  const [program, ...args] = typeof command === "string" ? ["/bin/sh", "-c", `exec env ${command}`] : command;
  const child = spawn(program, args, { cwd, env, stdio: ["pipe", "pipe", stderr], detached: true });
  runningChildren.add(child);
  // Ignores write errors after the exit, because the exit event reports the exit.
  child.stdin?.on("error", () => {});
  child.once("error", () => runningChildren.delete(child));
  return child;
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The group no longer exists.
  }
}

/** Requests the exit of a process and waits for the exit. Kills the process after 6 s, and finally its group. */
export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
    const exit = once(child, "exit");
    child.stdin?.end();
    signalGroup(child, "SIGTERM");
    const killTimer = setTimeout(() => signalGroup(child, "SIGKILL"), EXIT_LIMIT_MS);
    await exit;
    clearTimeout(killTimer);
  }
  signalGroup(child, "SIGKILL");
  runningChildren.delete(child);
}

/** Creates a temporary folder, which `endAllProcesses` removes. */
export function createTempFolder(): string {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), "gantry-bench-")));
  tempFolders.add(folder);
  return folder;
}

/** Kills all processes and removes all temporary folders. */
export function endAllProcesses(): void {
  for (const child of runningChildren) signalGroup(child, "SIGKILL");
  for (const folder of tempFolders) rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  runningChildren.clear();
  tempFolders.clear();
}

/** Registers `endAllProcesses` for the end of the bench, also if a signal ends the bench. */
export function endOnSignals(): void {
  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)
    process.once(signal, () => {
      endAllProcesses();
      process.exit(code);
    });
  process.once("exit", endAllProcesses);
}

/** Reads the fields of /proc/PID/stat after the name, which may contain any character. */
function readStat(pid: number | string): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").pop()?.split(" ");
  } catch {
    return undefined;
  }
}

/** Lists a process and its living descendants. */
function listTree(root: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc"))
    if (/^\d+$/.test(name)) {
      const parent = Number(readStat(name)?.[1]);
      if (parent > 0) parents.set(Number(name), parent);
    }
  const tree = [root];
  for (const pid of tree) for (const [child, parent] of parents) if (parent === pid) tree.push(child);
  return tree;
}

/**
 * User and system CPU time of a process and its descendants until now, with a resolution of 10 ms. NaN if unknown.
 */
export function readCpuMs({ pid }: ChildProcess, includesDescendants = true): number {
  return pid === undefined ? NaN : readTreeCpuMs(pid, includesDescendants);
}

/** Like `readCpuMs`, for a process id. */
export function readTreeCpuMs(pid: number, includesDescendants = true): number {
  if (process.platform !== "linux") return NaN;
  let ticks = 0;
  for (const treePid of includesDescendants ? listTree(pid) : [pid]) {
    const stat = readStat(treePid);
    // utime, stime, and the times of ended children.
    for (const field of [11, 12, 13, 14]) ticks += Number(stat?.[field] ?? 0);
  }
  return ticks * TICK_MS;
}

/** Current and peak memory of a process and its descendants, in MB. NaN if unknown. */
export function readMemory({ pid }: ChildProcess): { currentMb: number; peakMb: number } {
  if (process.platform !== "linux" || pid === undefined) return { currentMb: NaN, peakMb: NaN };
  const memory = { currentMb: 0, peakMb: 0 };
  for (const treePid of listTree(pid)) {
    let status = "";
    try {
      status = readFileSync(`/proc/${treePid}/status`, "utf8");
    } catch {
      // The process has just ended.
    }
    const readFieldMb = (name: string): number =>
      Number(new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(status)?.[1] ?? 0) / 1024;
    memory.currentMb += readFieldMb("VmRSS");
    memory.peakMb += readFieldMb("VmHWM");
  }
  return memory;
}
