import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { attempt } from "../base/attempt.js";
import { newId } from "../base/ids.js";
import type { Holder } from "../ports/holder.js";

let self: Omit<Holder, "id"> | undefined;
/** Names this machine among all of one name; `""` where it has none, as in many containers. */
let machine = "";

/** This process, as a holder of leases and locks. */
export function thisHolder(id = newId()): Holder {
  if (!self) machine = textOf(() => readFileSync("/etc/machine-id", "utf8"));
  // Two machines may share a name, and two containers a name and a boot: neither can tell by a pid whether the other's process lives.
  self ??= {
    host: `${hostname()} ${machine} ${textOf(() => readlinkSync("/proc/self/ns/pid"))}`.trim(),
    boot: textOf(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")),
    pid: process.pid,
    started: startOf(process.pid),
  };
  return { ...self, id };
}

/** Whether a holder is of this process. */
export function isOurs(holder: Holder): boolean {
  const here = thisHolder(holder.id);
  return (["host", "boot", "pid", "started"] as const).every((name) => holder[name] === here[name]);
}

/** Whether the process of a holder lives; `elsewhere` where only its own host could tell. */
export function holderState(holder: Holder): "alive" | "dead" | "elsewhere" {
  const here = thisHolder();
  if (holder.host !== here.host) return "elsewhere";
  // Where nothing names the machine it may be another one of its name, and not this one before it was started anew.
  if (holder.boot !== here.boot) return machine === "" ? "elsewhere" : "dead";
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    // EPERM: it lives, as another user.
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return "dead";
  }
  // The pid may have gone to another process.
  const started = startOf(holder.pid);
  return holder.started !== "" && started !== "" && started !== holder.started ? "dead" : "alive";
}

/** Start time of a process in clock ticks since boot (field 22 of /proc/PID/stat); `""` where the system does not tell. */
function startOf(pid: number): string {
  const stat = textOf(() => readFileSync(`/proc/${pid}/stat`, "utf8"));
  // The command's name may hold spaces and brackets: count from behind its last one.
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}

function textOf(read: () => string): string {
  return attempt(() => read().trim(), "");
}
