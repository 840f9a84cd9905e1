// `npm run bench -- --profile WHAT`: the ten largest costs of one kind of work, by package and by function. The V8
// profiler samples the costs, and source maps give the names of the sources.
import { readdirSync, readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { AcpClient } from "./acp-client.js";
import type { Bench } from "./bench.js";
import { HttpClient, readRunText } from "./http-client.js";
import { runConcurrently, runPrompt } from "./http-rows.js";
import type { ProfileKind } from "./options.js";
import { BenchDatabase } from "./postgres-server.js";
import { endProcess, createTempFolder, startProcess } from "./processes.js";

const MAX_COSTS = 10;

interface Profile {
  /** In µs of the machine's monotonic clock, as all times in this file. */
  startTime: number;
  nodes: { id: number; callFrame: CallFrame }[];
  samples: number[];
  timeDeltas: number[];
}

interface CallFrame {
  functionName: string;
  url: string;
  lineNumber: number;
  columnNumber: number;
}

/** The measured part of a process's life, and the number of repetitions in it. */
interface MeasuredWindow {
  startUs: number;
  endUs: number;
  repetitions: number;
}

const readClockUs = (): number => Number(process.hrtime.bigint() / 1000n);

/** Profiles one kind of work. Resolves with a report of its largest costs. */
export async function profile(bench: Bench, kind: ProfileKind): Promise<string> {
  const profileFolder = createTempFolder();
  const nodeArgs = ["--cpu-prof", "--cpu-prof-interval=100", `--cpu-prof-dir=${profileFolder}`];
  const window = await WORK_BY_KIND[kind](bench, nodeArgs);
  const [file = ""] = readdirSync(profileFolder);
  const costs = sumCosts(
    JSON.parse(readFileSync(path.join(profileFolder, file), "utf8")) as Profile,
    window,
    bench.options.product,
  );
  const suffix = window.repetitions === 1 ? "" : ` each of ${window.repetitions}`;
  return [
    `${kind}: ${(costs.totalMs / window.repetitions).toFixed(1)} ms at work${suffix}`,
    ...formatSection("by package or folder, in ms", costs.byPackage, window.repetitions, costs.totalMs),
    ...formatSection("by function, in ms", costs.byFunction, window.repetitions, costs.totalMs),
    "",
  ].join("\n");
}

function formatSection(
  title: string,
  costs: ReadonlyMap<string, number>,
  repetitions: number,
  totalMs: number,
): string[] {
  const largestCosts = [...costs].sort(([, a], [, b]) => b - a).slice(0, MAX_COSTS);
  const formatPercent = (ms: number): string => `${((ms / totalMs) * 100).toFixed(1)} %`.padStart(7);
  return [
    "",
    title,
    ...largestCosts.map(([name, ms]) => `${(ms / repetitions).toFixed(2).padStart(8)} ${formatPercent(ms)}  ${name}`),
  ];
}

const WORK_BY_KIND: Record<ProfileKind, (bench: Bench, nodeArgs: readonly string[]) => Promise<MeasuredWindow>> = {
  /** `gantry serve --acp --stdio`, from its spawn to a session. */
  async start(bench, nodeArgs) {
    const home = bench.createHome();
    const cwd = bench.createProject();
    const [node, ...gantryArguments] = bench.getGantryCommand("serve", "--acp", "--stdio");
    for (const args of [[], nodeArgs]) {
      const startUs = readClockUs();
      const child = startProcess([node, ...args, ...gantryArguments], { cwd, env: bench.createEnvironment(home) });
      await new AcpClient(child).openSession(cwd);
      const window = { startUs, endUs: readClockUs(), repetitions: 1 };
      await endProcess(child);
      if (args.length > 0) return window;
    }
    throw new Error("nothing was profiled");
  },
  turn: (bench, nodeArgs) => profileServer(bench, nodeArgs, prepareTurns),
  runs: (bench, nodeArgs) => profileServer(bench, nodeArgs, prepareConcurrentRuns),
  "postgres-turn": (bench, nodeArgs) => profileOnPostgres(bench, nodeArgs, prepareTurns),
  "postgres-runs": (bench, nodeArgs) => profileOnPostgres(bench, nodeArgs, prepareConcurrentRuns),
  /** Streams of 20,000 tokens, one after the other. */
  stream: (bench, nodeArgs) =>
    profileServer(
      bench,
      nodeArgs,
      async (client) => async (repetitions) => {
        for (let n = 0; n < repetitions; n++)
          await client.stream("/api/run", { message: "[tokens=20000]", stream: true }, readRunText);
      },
      [5, 10],
    ),
};

type Prepare = (client: HttpClient) => Promise<(repetitions: number) => Promise<void>>;

/** Turns on one session, one after the other. */
const prepareTurns: Prepare = async (client) => {
  const { id } = await runPrompt(client, "hi");
  return async (repetitions) => {
    for (let n = 0; n < repetitions; n++) await runPrompt(client, "hi", id);
  };
};

/** Fresh runs, 64 at a time. */
const prepareConcurrentRuns: Prepare = async (client) => async (repetitions) => {
  await runConcurrently(repetitions, () => runPrompt(client, "hi"));
};

async function profileOnPostgres(bench: Bench, nodeArgs: readonly string[], prepare: Prepare): Promise<MeasuredWindow> {
  await using database = await BenchDatabase.create();
  return await profileServer(bench, nodeArgs, prepare, undefined, bench.createHome(database.createSessionConfig()));
}

async function profileServer(
  bench: Bench,
  nodeArgs: readonly string[],
  prepare: Prepare,
  [warmUpRuns, repetitions]: readonly [number, number] = [200, 640],
  home = bench.createHome(),
): Promise<MeasuredWindow> {
  const server = await bench.startServer(home, bench.createProject(), nodeArgs);
  const client = new HttpClient(server.baseUrl);
  const runWork = await prepare(client);
  await runWork(warmUpRuns);
  const startUs = readClockUs();
  await runWork(repetitions);
  const window = { startUs, endUs: readClockUs(), repetitions };
  client.close();
  await endProcess(server.child);
  return window;
}

function sumCosts(
  { startTime, nodes, samples, timeDeltas }: Profile,
  { startUs, endUs }: MeasuredWindow,
  product: string,
): { totalMs: number; byPackage: Map<string, number>; byFunction: Map<string, number> } {
  const sourceMapsByScript = new Map<string, SourceMap | undefined>();
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const byPackage = new Map<string, number>();
  const byFunction = new Map<string, number>();
  const addCost = (costs: Map<string, number>, name: string, ms: number): unknown =>
    costs.set(name, (costs.get(name) ?? 0) + ms);
  let [timeUs, totalMs] = [startTime, 0];
  samples.forEach((id, index) => {
    const deltaUs = timeDeltas[index] ?? 0;
    timeUs += deltaUs;
    const frame = frames.get(id);
    if (!frame || timeUs < startUs || timeUs > endUs || frame.functionName === "(idle)") return;
    totalMs += deltaUs / 1000;
    const { name, owner } = findOrigin(frame, product, sourceMapsByScript);
    addCost(byPackage, owner, deltaUs / 1000);
    addCost(byFunction, name, deltaUs / 1000);
  });
  return { totalMs, byPackage, byFunction };
}

/** Finds the owner of a frame's code (a package, a folder of this project, a part of Node), and its function. */
function findOrigin(
  { functionName, url, lineNumber, columnNumber }: CallFrame,
  product: string,
  sourceMapsByScript: Map<string, SourceMap | undefined>,
): { name: string; owner: string } {
  const functionLabel = functionName || "(anonymous)";
  if (url === "") return { name: functionLabel, owner: functionLabel };
  if (!url.startsWith("file:")) return { name: `${functionLabel} ${url}`, owner: url.split("/").slice(0, 2).join("/") };
  const script = fileURLToPath(url);
  if (!sourceMapsByScript.has(script)) {
    try {
      sourceMapsByScript.set(script, new SourceMap(JSON.parse(readFileSync(`${script}.map`, "utf8"))));
    } catch {
      sourceMapsByScript.set(script, undefined);
    }
  }
  const entry = sourceMapsByScript.get(script)?.findEntry(lineNumber, columnNumber);
  const isMapped = entry && "originalSource" in entry;
  const source = isMapped ? path.resolve(path.dirname(script), entry.originalSource) : script;
  const location = `${path.relative(product, source)}:${(isMapped ? entry.originalLine : lineNumber) + 1}`;
  const [, dependency] = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(source) ?? [];
  return {
    name: `${functionLabel} ${location}`,
    owner: dependency ?? location.split("/").slice(0, 2).join("/").replace(/:\d+$/, ""),
  };
}
