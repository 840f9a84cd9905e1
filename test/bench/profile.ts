// `npm run bench -- --profile WHAT`: the ten largest costs of one kind of work, by package and by function. V8 samples
// them, and source maps give the names of the sources.
import { readdirSync, readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { AcpClient } from "./acp-client.js";
import type { Bench } from "./bench.js";
import { HttpClient, textOfRun } from "./http-client.js";
import { atOnce, run } from "./http-rows.js";
import type { Profiled } from "./options.js";
import { BenchDatabase } from "./postgres-server.js";
import { end, folder, start } from "./processes.js";

const LARGEST = 10;

interface Profile {
  /** In µs of the machine's monotonic clock, as all times in this file. */
  startTime: number;
  nodes: { id: number; callFrame: Frame }[];
  samples: number[];
  timeDeltas: number[];
}

interface Frame {
  functionName: string;
  url: string;
  lineNumber: number;
  columnNumber: number;
}

/** The measured part of a process's life, and the number of repetitions in it. */
interface Window {
  from: number;
  to: number;
  times: number;
}

const now = (): number => Number(process.hrtime.bigint() / 1000n);

/** Profiles one kind of work. Resolves with a report of its largest costs. */
export async function profile(bench: Bench, what: Profiled): Promise<string> {
  const out = folder();
  const nodeArgs = ["--cpu-prof", "--cpu-prof-interval=100", `--cpu-prof-dir=${out}`];
  const window = await WORK[what](bench, nodeArgs);
  const [file = ""] = readdirSync(out);
  const costs = costsOf(
    JSON.parse(readFileSync(path.join(out, file), "utf8")) as Profile,
    window,
    bench.options.product,
  );
  const each = window.times === 1 ? "" : ` each of ${window.times}`;
  return [
    `${what}: ${(costs.total / window.times).toFixed(1)} ms at work${each}`,
    ...section("by package or folder, in ms", costs.byPackage, window.times, costs.total),
    ...section("by function, in ms", costs.byFunction, window.times, costs.total),
    "",
  ].join("\n");
}

function section(title: string, costs: ReadonlyMap<string, number>, times: number, total: number): string[] {
  const largest = [...costs].sort(([, a], [, b]) => b - a).slice(0, LARGEST);
  const percent = (ms: number): string => `${((ms / total) * 100).toFixed(1)} %`.padStart(7);
  return ["", title, ...largest.map(([name, ms]) => `${(ms / times).toFixed(2).padStart(8)} ${percent(ms)}  ${name}`)];
}

const WORK: Record<Profiled, (bench: Bench, nodeArgs: readonly string[]) => Promise<Window>> = {
  /** `gantry serve --acp --stdio`, from its spawn to a session. */
  async start(bench, nodeArgs) {
    const home = bench.home();
    const cwd = bench.project();
    const [node, ...gantryArguments] = bench.gantry("serve", "--acp", "--stdio");
    for (const args of [[], nodeArgs]) {
      const from = now();
      const child = start([node, ...args, ...gantryArguments], { cwd, env: bench.environment(home) });
      await new AcpClient(child).open(cwd);
      const window = { from, to: now(), times: 1 };
      await end(child);
      if (args.length > 0) return window;
    }
    throw new Error("nothing was profiled");
  },
  turn: (bench, nodeArgs) => served(bench, nodeArgs, turns),
  runs: (bench, nodeArgs) => served(bench, nodeArgs, manyRuns),
  "postgres-turn": (bench, nodeArgs) => onPostgres(bench, nodeArgs, turns),
  "postgres-runs": (bench, nodeArgs) => onPostgres(bench, nodeArgs, manyRuns),
  /** Streams of 20,000 tokens, one after the other. */
  stream: (bench, nodeArgs) =>
    served(
      bench,
      nodeArgs,
      async (client) => async (times) => {
        for (let n = 0; n < times; n++)
          await client.stream("/api/run", { message: "[tokens=20000]", stream: true }, textOfRun);
      },
      [5, 10],
    ),
};

type Prepare = (client: HttpClient) => Promise<(times: number) => Promise<void>>;

/** Turns on one session, one after the other. */
const turns: Prepare = async (client) => {
  const { id } = await run(client, "hi");
  return async (times) => {
    for (let n = 0; n < times; n++) await run(client, "hi", id);
  };
};

/** Fresh runs, 64 at a time. */
const manyRuns: Prepare = async (client) => async (times) => {
  await atOnce(times, () => run(client, "hi"));
};

async function onPostgres(bench: Bench, nodeArgs: readonly string[], prepare: Prepare): Promise<Window> {
  await using database = await BenchDatabase.create();
  return await served(bench, nodeArgs, prepare, undefined, bench.home(database.session()));
}

async function served(
  bench: Bench,
  nodeArgs: readonly string[],
  prepare: Prepare,
  [warmUp, times]: readonly [number, number] = [200, 640],
  home = bench.home(),
): Promise<Window> {
  const server = await bench.serve(home, bench.project(), nodeArgs);
  const client = new HttpClient(server.base);
  const work = await prepare(client);
  await work(warmUp);
  const from = now();
  await work(times);
  const window = { from, to: now(), times };
  client.close();
  await end(server.child);
  return window;
}

function costsOf(
  { startTime, nodes, samples, timeDeltas }: Profile,
  { from, to }: Window,
  product: string,
): { total: number; byPackage: Map<string, number>; byFunction: Map<string, number> } {
  const maps = new Map<string, SourceMap | undefined>();
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const byPackage = new Map<string, number>();
  const byFunction = new Map<string, number>();
  const add = (costs: Map<string, number>, name: string, ms: number): unknown =>
    costs.set(name, (costs.get(name) ?? 0) + ms);
  let [time, total] = [startTime, 0];
  samples.forEach((id, index) => {
    const delta = timeDeltas[index] ?? 0;
    time += delta;
    const frame = frames.get(id);
    if (!frame || time < from || time > to || frame.functionName === "(idle)") return;
    total += delta / 1000;
    const { name, owner } = originOf(frame, product, maps);
    add(byPackage, owner, delta / 1000);
    add(byFunction, name, delta / 1000);
  });
  return { total, byPackage, byFunction };
}

/** Owner of a frame's code (a package, a folder of this project, a part of Node), and its function. */
function originOf(
  { functionName, url, lineNumber, columnNumber }: Frame,
  product: string,
  maps: Map<string, SourceMap | undefined>,
): { name: string; owner: string } {
  const called = functionName || "(anonymous)";
  if (url === "") return { name: called, owner: called };
  if (!url.startsWith("file:")) return { name: `${called} ${url}`, owner: url.split("/").slice(0, 2).join("/") };
  const script = fileURLToPath(url);
  if (!maps.has(script)) {
    try {
      maps.set(script, new SourceMap(JSON.parse(readFileSync(`${script}.map`, "utf8"))));
    } catch {
      maps.set(script, undefined);
    }
  }
  const entry = maps.get(script)?.findEntry(lineNumber, columnNumber);
  const mapped = entry && "originalSource" in entry;
  const source = mapped ? path.resolve(path.dirname(script), entry.originalSource) : script;
  const place = `${path.relative(product, source)}:${(mapped ? entry.originalLine : lineNumber) + 1}`;
  const [, dependency] = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(source) ?? [];
  return {
    name: `${called} ${place}`,
    owner: dependency ?? place.split("/").slice(0, 2).join("/").replace(/:\d+$/, ""),
  };
}
