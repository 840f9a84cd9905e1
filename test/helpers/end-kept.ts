import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

/** End all commands that were to outlive gantry, as they are written down below this folder. */
export function endKept(keptPath: string): void {
  if (!existsSync(keptPath)) return;
  for (const name of readdirSync(keptPath, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".json")) continue;
    try {
      const { pid } = JSON.parse(readFileSync(path.join(keptPath, name), "utf8")) as { pid: unknown };
      // What a test wrote there itself is no keeper.
      if (typeof pid !== "number" || pid === process.pid || pid <= 1) continue;
      if (readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(keptPath)) process.kill(-pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  }
}
