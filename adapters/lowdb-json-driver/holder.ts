import { readFile, readlink } from "node:fs/promises";
import { hostname } from "node:os";
import { systemCode } from "./errors.js";

/** The process that holds a lock or a folder: enough to tell whether it still lives. */
export interface Process {
  /** Of the driver. */
  instance: string;
  /** With the namespace in which its process ids count: two containers may share a name and a boot. */
  host: string;
  /** Boot id of the host; `""` where unknown. */
  boot: string;
  pid: number;
  /** Start time in the host's own unit; `""` where unknown. */
  started: string;
}

export async function thisProcess(instance: string): Promise<Process> {
  const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => "");
  const namespace = await readlink("/proc/self/ns/pid").catch(() => "");
  return {
    instance,
    host: `${hostname()} ${namespace}`.trim(),
    boot: boot.trim(),
    pid: process.pid,
    started: await startOf(process.pid),
  };
}

/** `alive` or `dead`; `elsewhere` where only that host could tell. */
export async function stateOf(other: Process, self: Process): Promise<"alive" | "dead" | "elsewhere"> {
  if (other.host !== self.host) return "elsewhere";
  if (other.boot !== self.boot) return "dead";
  try {
    process.kill(other.pid, 0);
  } catch (error) {
    // EPERM: it lives, as another user.
    if (systemCode(error) === "ESRCH") return "dead";
  }
  // The pid may have gone to another process.
  const started = other.started === "" ? "" : await startOf(other.pid);
  return started !== "" && started !== other.started ? "dead" : "alive";
}

/** Field 22 of /proc/<pid>/stat; the second one is a name that may hold blanks and brackets. */
async function startOf(pid: number): Promise<string> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}
