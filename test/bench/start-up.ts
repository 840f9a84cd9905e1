// `npm run bench`: how long `gantry serve` takes from spawn to listen line, beside Node's own start in the same run,
// and where the time goes. Never part of the tests: it measures the machine as well.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { makeTempDir } from "../helpers/temp.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const CLI = path.join(ROOT, "dist/src/cli.js");
const ROUNDS = 10;
/** More arguments for `serve`: `npm run bench -- --acp`. */
const ARGUMENTS = process.argv.slice(2);

interface Profile {
  startTime: number;
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number; columnNumber: number } }[];
  samples: number[];
  timeDeltas: number[];
}

execFileSync(process.execPath, [path.join(ROOT, ".ci/build.mjs"), "--js"], { stdio: "inherit" });
await using home = await makeTempDir();
await using project = await makeTempDir();
await project.write({ "package.json": "{}" });
const env = { PATH: process.env.PATH, HOME: home.path, GANTRY_HOME: home.path };

async function bare(): Promise<number> {
  const since = performance.now();
  await once(spawn(process.execPath, ["-e", ""], { stdio: "ignore", env }), "exit");
  return performance.now() - since;
}

async function serve(options: readonly string[] = []): Promise<number> {
  const since = performance.now();
  const child = spawn(process.execPath, [...options, CLI, "serve", "--port", "0", ...ARGUMENTS], {
    cwd: project.path,
    env,
    stdio: ["ignore", "pipe", "ignore"],
  });
  let output = "";
  for await (const text of child.stdout) {
    output += String(text);
    if (output.includes("listening on")) break;
  }
  const took = performance.now() - since;
  child.kill("SIGTERM");
  if (child.exitCode === null) await once(child, "exit");
  if (!output.includes("listening on")) throw new Error("the server did not start");
  return took;
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

const bareTimes: number[] = [];
const serveTimes: number[] = [];
await bare();
await serve();
for (let round = 0; round < ROUNDS; round++) {
  bareTimes.push(await bare());
  serveTimes.push(await serve());
}
const [node, server] = [median(bareTimes), median(serveTimes)];
console.log(
  `node -e ''            ${node.toFixed(1)} ms (median of ${ROUNDS}, ${Math.min(...bareTimes).toFixed(1)} to ${Math.max(...bareTimes).toFixed(1)})`,
);
console.log(
  `spawn to listen line  ${server.toFixed(1)} ms (median of ${ROUNDS}, ${Math.min(...serveTimes).toFixed(1)} to ${Math.max(...serveTimes).toFixed(1)})`,
);
console.log(`ratio                 ${(server / node).toFixed(2)}`);

await using profiles = await makeTempDir();
const profiled = await serve(["--cpu-prof", "--cpu-prof-interval=100", `--cpu-prof-dir=${profiles.path}`]);
const [file] = readdirSync(profiles.path);
if (file === undefined) throw new Error("no profile was written");
const profile = JSON.parse(readFileSync(profiles.at(file), "utf8")) as Profile;
const maps = new Map<string, SourceMap | undefined>();
const costs = new Map<string, number>();
const names = new Map(profile.nodes.map(({ id, callFrame }) => [id, ownerOf(callFrame)]));
let elapsed = 0;
profile.samples.forEach((id, index) => {
  const delta = profile.timeDeltas[index] ?? 0;
  elapsed += delta;
  // What comes later is the shutdown.
  if (elapsed > profiled * 1000) return;
  const owner = names.get(id) ?? "?";
  costs.set(owner, (costs.get(owner) ?? 0) + delta);
});
console.log("\nlargest costs, in ms of one profiled start (waiting left out):");
for (const [owner, cost] of [...costs]
  .filter(([name]) => name !== "(idle)")
  .sort(([, a], [, b]) => b - a)
  .slice(0, 10)) {
  console.log(`${(cost / 1000).toFixed(1).padStart(6)}  ${owner}`);
}

/** Whose code a frame is: a package, a file of ours, or a part of Node. */
function ownerOf({ functionName, url, lineNumber, columnNumber }: Profile["nodes"][number]["callFrame"]): string {
  if (url === "") return functionName || "(native)";
  if (url.startsWith("node:")) return url.split("/").slice(0, 3).join("/");
  if (!url.startsWith("file:")) return url;
  const script = fileURLToPath(url);
  if (!maps.has(script)) {
    try {
      maps.set(script, new SourceMap(JSON.parse(readFileSync(`${script}.map`, "utf8"))));
    } catch {
      maps.set(script, undefined);
    }
  }
  const entry = maps.get(script)?.findEntry(lineNumber, columnNumber);
  const source = entry && "originalSource" in entry ? entry.originalSource : script;
  const match = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(source);
  return match?.[1] ?? path.relative(ROOT, path.resolve(path.dirname(script), source));
}
