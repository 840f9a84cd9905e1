// Processes that are measured: each the leader of a group of its own, ended with all it started, also when the bench is
// interrupted. What they take is read from /proc, on Linux alone.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, rmSync, mkdtempSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** What is started: a program with its arguments, or a line for the shell. */
export type Command = readonly [program: string, ...args: string[]] | string;

export interface StartOptions {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** Default `pipe`, `pipe`, `ignore`. */
  stderr?: "ignore" | "inherit" | "pipe";
}

const running = new Set<ChildProcess>();
const folders = new Set<string>();
/** Clock ticks of /proc: USER_HZ, 100 wherever Node runs. */
const TICK_MS = 10;

/** Start a process. `end` it, or `endAll`. */
export function start(command: Command, { cwd, env, stderr = "ignore" }: StartOptions = {}): ChildProcess {
  const [program, ...args] = typeof command === "string" ? ["/bin/sh", "-c", `exec env ${command}`] : command;
  const child = spawn(program, args, { cwd, env, stdio: ["pipe", "pipe", stderr], detached: true });
  running.add(child);
  // Writes to what has gone are told by its exit.
  child.stdin?.on("error", () => {});
  child.once("error", () => running.delete(child));
  return child;
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The group is gone.
  }
}

/** Ask a process to end, and see to it that it and all of its group have. */
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

/** A new folder under the system's temporary one; gone at the end. */
export function folder(): string {
  const made = realpathSync(mkdtempSync(path.join(tmpdir(), "gantry-bench-")));
  folders.add(made);
  return made;
}

/** Nothing is left: no process, no file. */
export function endAll(): void {
  for (const child of running) signalGroup(child, "SIGKILL");
  for (const made of folders) rmSync(made, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  running.clear();
  folders.clear();
}

/** Leave nothing behind either when somebody ends the bench. */
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

/** Fields of /proc/PID/stat behind the name, which may hold anything. */
function statOf(pid: number | string): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").pop()?.split(" ");
  } catch {
    return undefined;
  }
}

/** A process and what it started, as long as it lives. */
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

/** CPU milliseconds, user and system, of a process with all that it started, so far; in steps of 10. NaN where unknown. */
export function cpuOf({ pid }: ChildProcess, whole = true): number {
  return pid === undefined ? NaN : cpuOfTree(pid, whole);
}

/** The same, by its number. */
export function cpuOfTree(pid: number, whole = true): number {
  if (process.platform !== "linux") return NaN;
  let ticks = 0;
  for (const each of whole ? treeOf(pid) : [pid]) {
    const stat = statOf(each);
    // utime, stime, and what ended children took.
    for (const field of [11, 12, 13, 14]) ticks += Number(stat?.[field] ?? 0);
  }
  return ticks * TICK_MS;
}

/** Megabytes that a process with all that it started has in memory now, and had at most. NaN where unknown. */
export function memoryOf({ pid }: ChildProcess): { now: number; peak: number } {
  if (process.platform !== "linux" || pid === undefined) return { now: NaN, peak: NaN };
  const total = { now: 0, peak: 0 };
  for (const each of treeOf(pid)) {
    let status = "";
    try {
      status = readFileSync(`/proc/${each}/status`, "utf8");
    } catch {
      // It has just ended.
    }
    const field = (name: string): number =>
      Number(new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(status)?.[1] ?? 0) / 1024;
    total.now += field("VmRSS");
    total.peak += field("VmHWM");
  }
  return total;
}
