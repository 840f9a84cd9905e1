import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

/** Kills all detached commands that are recorded below this folder. */
export function killDetached(keptPath: string): void {
  if (!existsSync(keptPath)) return;
  for (const name of readdirSync(keptPath, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".json")) continue;
    try {
      const { pid } = JSON.parse(readFileSync(path.join(keptPath, name), "utf8")) as { pid: unknown };
      // A record that a test wrote itself does not belong to a supervisor.
      if (typeof pid !== "number" || pid === process.pid || pid <= 1) continue;
      if (readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(keptPath)) process.kill(-pid, "SIGKILL");
    } catch {
      // The process has already ended.
    }
  }
}
