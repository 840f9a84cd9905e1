// `npm run bench:search [FILES]`: time of grep, glob and list in folders with 1,000, 10,000 and 100,000 files, compared
// with plain `rg` on the same folder. The result depends on the machine.
import { builtinTools } from "gantry";
import { makeTempDir } from "../helpers/temp-dir.js";
import { callTool, createToolContext } from "../helpers/tool-context.js";
import { createSearchFiles, runRipgrep } from "./search-folder.js";

const FILE_COUNTS = process.argv[2] === undefined ? [1_000, 10_000, 100_000] : [Number(process.argv[2])];
const ROUND_COUNT = 7;
/** A call that takes longer is measured only once. */
const MAX_REPEATED_CALL_MS = 5_000;

const tools = new Map(builtinTools().map((tool) => [tool.name, tool] as const));

async function measureMs(operation: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await operation();
  return performance.now() - startMs;
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

const CASES: readonly (readonly [tool: string, input: object, args: readonly string[]])[] = [
  ["grep", { pattern: "needle" }, ["needle", "."]],
  ["grep", { pattern: "needle", glob: "*.ts" }, ["needle", "--glob=*.ts", "."]],
  ["grep", { pattern: "compute" }, ["compute", "."]],
  ["grep", { pattern: "compute", output: "count" }, ["--count", "compute", "."]],
  ["glob", { pattern: "**/*.md" }, ["--files", "--glob=**/*.md", "."]],
  ["glob", { pattern: "**" }, ["--files", "."]],
  ["list", {}, ["--files", "."]],
  ["list", { depth: 5 }, ["--files", "."]],
];

for (const fileCount of FILE_COUNTS) {
  await using folder = await makeTempDir();
  await createSearchFiles(folder.path, fileCount);
  const context = createToolContext(folder.path);
  for (const [name, input, args] of CASES) {
    const toolDurationsMs: number[] = [];
    const rgDurationsMs: number[] = [];
    const call = () => callTool(tools.get(name)!, input, context);
    // Alternates both, so that they run under the same conditions. The first round fills caches.
    for (let round = 0; round <= ROUND_COUNT && (toolDurationsMs[0] ?? 0) < MAX_REPEATED_CALL_MS; round++) {
      const [toolMs, rgMs] = [await measureMs(call), await measureMs(() => runRipgrep(args, folder.path))];
      if (round === 0 && toolMs <= MAX_REPEATED_CALL_MS) continue;
      toolDurationsMs.push(toolMs);
      rgDurationsMs.push(rgMs);
    }
    const [toolMedianMs, rgMedianMs] = [median(toolDurationsMs), median(rgDurationsMs)];
    console.log(
      `${String(fileCount).padStart(7)} files  ${name} ${JSON.stringify(input).padEnd(40)} ` +
        `${toolMedianMs.toFixed(1).padStart(9)} ms  rg ${rgMedianMs.toFixed(1).padStart(7)} ms  ratio ${(toolMedianMs / rgMedianMs).toFixed(2)}`,
    );
  }
}
