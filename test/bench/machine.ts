// Describes the machine and its current load, for the report.
import { execFileSync } from "node:child_process";
import { cpus, loadavg, tmpdir, totalmem } from "node:os";
import { quantile, median } from "./statistics.js";

/** Repeats a fixed piece of work. The difference from its best time shows the load by other processes. */
export function noise(times = 40): { medianMs: number; spread: number; load: number } {
  const took: number[] = [];
  for (let n = 0; n < times; n++) {
    const since = performance.now();
    let sum = 0;
    for (let step = 0; step < 3_000_000; step++) sum = (sum * 31 + step) | 0;
    took.push(performance.now() - since + (sum === 0.5 ? 1 : 0));
  }
  // The first samples run cold code.
  const warm = took.slice(5);
  return { medianMs: median(warm), spread: quantile(warm, 0.9) / Math.min(...warm), load: loadavg()[0] ?? NaN };
}

/** The noise as text. */
export function wordsOfNoise({ medianMs, spread, load }: ReturnType<typeof noise>): string {
  return `busy loop ${medianMs.toFixed(1)} ms, p90 ${spread.toFixed(2)}x its best; load ${load.toFixed(1)}`;
}

/** Properties of the machine that the figures depend on. */
export function machine(node: string): string[] {
  const version = execFileSync(node, ["--version"], { encoding: "utf8" }).trim();
  const [cpu] = cpus();
  const memory = (totalmem() / 2 ** 30).toFixed(0);
  return [
    `${cpus().length} x ${cpu?.model.trim() || process.arch}, ${memory} GB, ${process.platform}`,
    `Node ${version}`,
    `stores on ${fileSystem(tmpdir())}`,
  ];
}

/** Type of a folder's file system. A store on a memory file system would give wrong figures. */
function fileSystem(folder: string): string {
  try {
    const [, line = ""] = execFileSync("df", ["-PT", folder], { encoding: "utf8" }).split("\n");
    const kind = line.split(/\s+/)[1] ?? "?";
    return kind === "tmpfs" ? "tmpfs: SET TMPDIR TO A DISK" : kind;
  } catch {
    return "an unknown file system";
  }
}
