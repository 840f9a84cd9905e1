// `npm run bench:search [FILES]`: time of grep, glob and list in folders with 1,000, 10,000 and 100,000 files, compared
// with plain `rg` on the same folder. The result depends on the machine.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { builtinTools } from "gantry";
import { makeTempDir, type TempDir } from "../helpers/temp.js";
import { callTool, toolContext } from "../helpers/tool-context.js";

const SIZES = process.argv[2] === undefined ? [1_000, 10_000, 100_000] : [Number(process.argv[2])];
const ROUNDS = 7;
/** A call that takes longer is measured only once, in ms. */
const LONG_MS = 5_000;
const RG_FLAGS = ["--no-config", "--hidden", "--no-require-git", "--glob=!.git"];

const { rgPath } = await import("@vscode/ripgrep");
const tools = new Map(builtinTools().map((tool) => [tool.name, tool] as const));

/** Writes files of 20 lines, 50 in a folder. 20 files match. One more folder is ignored. */
async function fill(folder: TempDir, size: number): Promise<void> {
  await folder.write({ ".gitignore": "node_modules/\n*.log\n/build\n", ".git/HEAD": "ref: refs/heads/main\n" });
  await folder.write({ "node_modules/x/index.js": "a needle\n" });
  const lines = Array.from({ length: 20 }, (_, n) => `export const value${n} = compute(${n}); // the text of a line\n`);
  for (let from = 0; from < size; from += 50) {
    const place = folder.at(`package-${Math.floor(from / 1_000)}`, `folder-${(from / 50) % 20}`);
    await mkdir(place, { recursive: true });
    await Promise.all(
      Array.from({ length: 50 }, (_, n) => {
        const text = lines.join("") + ((from + n) % (size / 20) === 7 ? "// a needle\n" : "");
        return writeFile(`${place}/file-${from + n}.${n % 10 === 0 ? "md" : "ts"}`, text);
      }),
    );
  }
}

async function plain(args: readonly string[], cwd: string): Promise<void> {
  const child = spawn(rgPath, [...RG_FLAGS, ...args], { cwd, stdio: ["ignore", "pipe", "inherit"] });
  child.stdout.resume();
  await once(child, "close");
}

async function time(work: () => Promise<unknown>): Promise<number> {
  const since = performance.now();
  await work();
  return performance.now() - since;
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

for (const size of SIZES) {
  await using folder = await makeTempDir();
  await fill(folder, size);
  const context = toolContext(folder.path);
  for (const [name, input, args] of CASES) {
    const ours: number[] = [];
    const rgTimes: number[] = [];
    const call = () => callTool(tools.get(name)!, input, context);
    // Alternates both, so that they run under the same conditions. The first round fills caches.
    for (let round = 0; round <= ROUNDS && (ours[0] ?? 0) < LONG_MS; round++) {
      const [toolTime, rgTime] = [await time(call), await time(() => plain(args, folder.path))];
      if (round === 0 && toolTime <= LONG_MS) continue;
      ours.push(toolTime);
      rgTimes.push(rgTime);
    }
    const [toolMedian, rgMedian] = [median(ours), median(rgTimes)];
    console.log(
      `${String(size).padStart(7)} files  ${name} ${JSON.stringify(input).padEnd(40)} ` +
        `${toolMedian.toFixed(1).padStart(9)} ms  rg ${rgMedian.toFixed(1).padStart(7)} ms  ratio ${(toolMedian / rgMedian).toFixed(2)}`,
    );
  }
}
