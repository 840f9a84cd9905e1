import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

/** Kills all detached commands whose records (`<name>.json` with a `pid`) are below `folderPath`. */
export function killDetached(folderPath: string): void {
  if (!existsSync(folderPath)) return;
  for (const name of readdirSync(folderPath, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".json")) continue;
    try {
      const { pid } = JSON.parse(readFileSync(path.join(folderPath, name), "utf8")) as { pid: unknown };
      // A record that a test wrote itself does not belong to a supervisor.
      if (typeof pid !== "number" || pid === process.pid || pid <= 1) continue;
      if (readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(folderPath)) process.kill(-pid, "SIGKILL");
    } catch {
      // The process has already ended.
    }
  }
}
