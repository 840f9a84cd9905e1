// `npm run bench:search [FILES]`: time of grep, glob and list in folders with 1,000, 10,000 and 100,000 files, compared
// with plain `rg` on the same folder. The result depends on the machine.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { builtinTools } from "gantry";
import { makeTempDir, type TempDir } from "../helpers/temp-dir.js";
import { callTool, createToolContext } from "../helpers/tool-context.js";

const FILE_COUNTS = process.argv[2] === undefined ? [1_000, 10_000, 100_000] : [Number(process.argv[2])];
const ROUND_COUNT = 7;
/** A call that takes longer is measured only once. */
const MAX_REPEATED_CALL_MS = 5_000;
const RG_FLAGS = ["--no-config", "--hidden", "--no-require-git", "--glob=!.git"];

const { rgPath } = await import("@vscode/ripgrep");
const tools = new Map(builtinTools().map((tool) => [tool.name, tool] as const));

/** Writes files of 20 lines, 50 in a folder. 20 files contain `needle`. The folder node_modules is ignored. */
async function createFiles(folder: TempDir, fileCount: number): Promise<void> {
  await folder.write({ ".gitignore": "node_modules/\n*.log\n/build\n", ".git/HEAD": "ref: refs/heads/main\n" });
  await folder.write({ "node_modules/x/index.js": "a needle\n" });
  const lines = Array.from({ length: 20 }, (_, n) => `export const value${n} = compute(${n}); // the text of a line\n`);
  for (let offset = 0; offset < fileCount; offset += 50) {
    const subfolder = folder.at(`package-${Math.floor(offset / 1_000)}`, `folder-${(offset / 50) % 20}`);
    await mkdir(subfolder, { recursive: true });
    await Promise.all(
      Array.from({ length: 50 }, (_, n) => {
        const text = lines.join("") + ((offset + n) % (fileCount / 20) === 7 ? "// a needle\n" : "");
        return writeFile(`${subfolder}/file-${offset + n}.${n % 10 === 0 ? "md" : "ts"}`, text);
      }),
    );
  }
}

async function runRipgrep(args: readonly string[], cwd: string): Promise<void> {
  const child = spawn(rgPath, [...RG_FLAGS, ...args], { cwd, stdio: ["ignore", "pipe", "inherit"] });
  child.stdout.resume();
  await once(child, "close");
}

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
  await createFiles(folder, fileCount);
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
