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

const running = new Set<ChildProcess>();
const folders = new Set<string>();
/** Duration of a clock tick in /proc: USER_HZ is 100 on all platforms of Node. */
const TICK_MS = 10;

/** Starts a process. Callers must `end` it, or call `endAll`. */
export function start(command: Command, { cwd, env, stderr = "ignore" }: StartOptions = {}): ChildProcess {
  const [program, ...args] = typeof command === "string" ? ["/bin/sh", "-c", `exec env ${command}`] : command;
  const child = spawn(program, args, { cwd, env, stdio: ["pipe", "pipe", stderr], detached: true });
  running.add(child);
  // Write errors after the exit are ignored; the exit event reports it.
  child.stdin?.on("error", () => {});
  child.once("error", () => running.delete(child));
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

/** Asks a process to exit and waits for that. Kills it after 6 s, and then the rest of its group. */
export async function end(child: ChildProcess): Promise<void> {
  if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
    const gone = once(child, "exit");
    child.stdin?.end();
    signalGroup(child, "SIGTERM");
    const late = setTimeout(() => signalGroup(child, "SIGKILL"), 6_000);
    await gone;
    clearTimeout(late);
  }
  signalGroup(child, "SIGKILL");
  running.delete(child);
}

/** Creates a temporary folder, which `endAll` removes. */
export function folder(): string {
  const made = realpathSync(mkdtempSync(path.join(tmpdir(), "gantry-bench-")));
  folders.add(made);
  return made;
}

/** Kills all processes and removes all temporary folders. */
export function endAll(): void {
  for (const child of running) signalGroup(child, "SIGKILL");
  for (const made of folders) rmSync(made, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  running.clear();
  folders.clear();
}

/** Cleans up also if a signal ends the bench. */
export function endWithSignals(): void {
  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)
    process.once(signal, () => {
      endAll();
      process.exit(code);
    });
  process.once("exit", endAll);
}

/** Fields of /proc/PID/stat after the name, which may contain any character. */
function statOf(pid: number | string): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").pop()?.split(" ");
  } catch {
    return undefined;
  }
}

/** A process and its living descendants. */
function treeOf(root: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc"))
    if (/^\d+$/.test(name)) {
      const parent = Number(statOf(name)?.[1]);
      if (parent > 0) parents.set(Number(name), parent);
    }
  const tree = [root];
  for (const pid of tree) for (const [child, parent] of parents) if (parent === pid) tree.push(child);
  return tree;
}

/**
 * User and system CPU time of a process and its descendants until now, in ms with a resolution of 10. NaN if unknown.
 */
export function cpuOf({ pid }: ChildProcess, includesDescendants = true): number {
  return pid === undefined ? NaN : cpuOfTree(pid, includesDescendants);
}

/** The same, by process id. */
export function cpuOfTree(pid: number, includesDescendants = true): number {
  if (process.platform !== "linux") return NaN;
  let ticks = 0;
  for (const each of includesDescendants ? treeOf(pid) : [pid]) {
    const stat = statOf(each);
    // utime, stime, and the times of ended children.
    for (const field of [11, 12, 13, 14]) ticks += Number(stat?.[field] ?? 0);
  }
  return ticks * TICK_MS;
}

/** Current and peak memory of a process and its descendants, in MB. NaN if unknown. */
export function memoryOf({ pid }: ChildProcess): { now: number; peak: number } {
  if (process.platform !== "linux" || pid === undefined) return { now: NaN, peak: NaN };
  const total = { now: 0, peak: 0 };
  for (const each of treeOf(pid)) {
    let status = "";
    try {
      status = readFileSync(`/proc/${each}/status`, "utf8");
    } catch {
      // The process has just ended.
    }
    const field = (name: string): number =>
      Number(new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(status)?.[1] ?? 0) / 1024;
    total.now += field("VmRSS");
    total.peak += field("VmHWM");
  }
  return total;
}
