import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { attempt } from "../base/attempt.js";
import { newId } from "../base/ids.js";
import type { LeaseHolder } from "../ports/holder.js";

let localProcess: Omit<LeaseHolder, "id"> | undefined;
/** Machine id, to distinguish machines with the same host name. `""` if there is none, as in many containers. */
let machineId = "";

/** Returns this process as a holder of leases and locks. */
export function currentHolder(id = newId()): LeaseHolder {
  if (!localProcess) machineId = readText(() => readFileSync("/etc/machine-id", "utf8"));
  // Machines can share a host name, and containers a host name and boot id. In those cases a pid does not show whether
  // the holder's process is alive.
  localProcess ??= {
    host: `${hostname()} ${machineId} ${readText(() => readlinkSync("/proc/self/ns/pid"))}`.trim(),
    boot: readText(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")),
    pid: process.pid,
    started: readStartTime(process.pid),
  };
  return { ...localProcess, id };
}

/** Whether a holder belongs to this process. */
export function isOwnHolder(holder: LeaseHolder): boolean {
  const localHolder = currentHolder(holder.id);
  return (["host", "boot", "pid", "started"] as const).every((name) => holder[name] === localHolder[name]);
}

/** Whether the process of a holder is alive; `remote` if only the holder's host can determine it. */
export function holderState(holder: LeaseHolder): "alive" | "dead" | "remote" {
  const localHolder = currentHolder();
  if (holder.host !== localHolder.host) return "remote";
  // Without a machine id, the holder may be on another machine with this host name, or on this machine before its
  // reboot.
  if (holder.boot !== localHolder.boot) return machineId === "" ? "remote" : "dead";
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    // EPERM: the process is alive and belongs to another user.
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return "dead";
  }
  // The pid may have been reused by another process.
  const currentStartTime = readStartTime(holder.pid);
  return holder.started !== "" && currentStartTime !== "" && currentStartTime !== holder.started ? "dead" : "alive";
}

/**
 * Returns the start time of a process in clock ticks since boot (field 22 of /proc/PID/stat). `""` if the system does
 * not provide it.
 */
function readStartTime(pid: number): string {
  const stat = readText(() => readFileSync(`/proc/${pid}/stat`, "utf8"));
  // The command's name may contain spaces and brackets: count fields after the last bracket.
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}

/** Returns the trimmed text; `""` if it cannot be read. */
function readText(read: () => string): string {
  return attempt(() => read().trim(), "");
}
