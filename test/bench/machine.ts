// Describes the machine and its current load, for the report.
import { execFileSync } from "node:child_process";
import { cpus, loadavg, tmpdir, totalmem } from "node:os";
import { quantile, median } from "./statistics.js";

/**
 * Repeats a fixed computation. `spread` is the 90th percentile divided by the best time, and shows the load by other
 * processes. `load` is the load average of the last minute.
 */
export function measureNoise(repetitions = 40): { medianMs: number; spread: number; load: number } {
  const durationsMs: number[] = [];
  for (let n = 0; n < repetitions; n++) {
    const startMs = performance.now();
    let sum = 0;
    for (let step = 0; step < 3_000_000; step++) sum = (sum * 31 + step) | 0;
    // The use of `sum`, which is never 0.5, prevents the removal of the loop by the compiler.
    durationsMs.push(performance.now() - startMs + (sum === 0.5 ? 1 : 0));
  }
  // The first samples run cold code.
  const warmDurationsMs = durationsMs.slice(5);
  return {
    medianMs: median(warmDurationsMs),
    spread: quantile(warmDurationsMs, 0.9) / Math.min(...warmDurationsMs),
    load: loadavg()[0] ?? NaN,
  };
}

/** Formats the noise as text. */
export function formatNoise({ medianMs, spread, load }: ReturnType<typeof measureNoise>): string {
  return `busy loop ${medianMs.toFixed(1)} ms, p90 ${spread.toFixed(2)}x its best; load ${load.toFixed(1)}`;
}

/** Properties of the machine that the figures depend on. */
export function describeMachine(node: string): string[] {
  const version = execFileSync(node, ["--version"], { encoding: "utf8" }).trim();
  const [cpu] = cpus();
  const memory = (totalmem() / 2 ** 30).toFixed(0);
  return [
    `${cpus().length} x ${cpu?.model.trim() || process.arch}, ${memory} GB, ${process.platform}`,
    `Node ${version}`,
    `stores on ${getFileSystemType(tmpdir())}`,
  ];
}

/** Returns the type of a folder's file system. A store on a memory file system would give wrong figures. */
function getFileSystemType(folderPath: string): string {
  try {
    const [, line = ""] = execFileSync("df", ["-PT", folderPath], { encoding: "utf8" }).split("\n");
    const type = line.split(/\s+/)[1] ?? "?";
    return type === "tmpfs" ? "tmpfs: SET TMPDIR TO A DISK" : type;
  } catch {
    return "an unknown file system";
  }
}
