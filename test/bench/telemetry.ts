// `npm run bench:telemetry`: the cost of telemetry. Two servers of the build, without and with telemetry, get the same
// prompts alternately. Each prompt is one run with a tool call. The collector and the models run in this process.
import { readFileSync } from "node:fs";
import { callStep, startFakeModelServer, textStep } from "../helpers/fake-model-server.js";
import { startServer } from "../helpers/server.js";
import { postPrompt, startCollector } from "../helpers/telemetry.js";

const WARM_UP_TURNS = 200;
const TURNS = Number(process.argv[2] ?? 400);
/** Duration of a tick of /proc, in ms. */
const TICK_MS = 10;

const cleanups: (() => Promise<void> | void)[] = [];
const hooks = { after: (run: () => Promise<void> | void) => void cleanups.unshift(run) };

/** CPU time of a process, in ms. */
function readCpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

const models = await startFakeModelServer({
  toolFreeAnswer: textStep("Title"),
  fallback: ({ body }) =>
    JSON.stringify(body).includes('"role":"tool"') ? textStep("Done.") : callStep("read", { path: "a.txt" }),
});
hooks.after(() => models.close());
const collector = await startCollector(hooks);
const providers = [{ name: "lab", base_url: models.baseUrl, api_key: "k" }];
const otlp = { endpoint: collector.endpoint, interval: 10 };

async function startMeasured(name: string, config: Record<string, unknown>) {
  const options = { from: "dist" as const, config: { providers, ...config }, files: { "a.txt": "text" } };
  const server = await startServer(hooks, options);
  return { name, url: server.url, pid: server.child.pid ?? 0, wallMs: [] as number[], cpuMs: 0 };
}

try {
  const subjects = [
    await startMeasured("off", {}),
    await startMeasured("off again", {}),
    await startMeasured("metrics", { telemetry: { prometheus: true } }),
    await startMeasured("traces", { telemetry: { otlp: { ...otlp, metrics: false } } }),
    await startMeasured("both", { telemetry: { prometheus: true, otlp } }),
  ];
  for (let turn = 0; turn < WARM_UP_TURNS; turn += 1)
    for (const { url } of subjects) await postPrompt(url, "Read a.txt");
  for (const subject of subjects) subject.cpuMs = readCpuMs(subject.pid);
  for (let turn = 0; turn < TURNS; turn += 1) {
    // Each subject comes first equally often.
    const order = subjects.map((_subject, i) => subjects[(i + turn) % subjects.length]!);
    for (const subject of order) {
      const startedAtMs = performance.now();
      await postPrompt(subject.url, "Read a.txt");
      subject.wallMs.push(performance.now() - startedAtMs);
    }
  }
  for (const subject of subjects) subject.cpuMs = (readCpuMs(subject.pid) - subject.cpuMs) / TURNS;
  const [off] = subjects;
  for (const { name, wallMs, cpuMs } of subjects) {
    const toPercent = (value: number, base: number) => `${((value / base - 1) * 100).toFixed(1)} %`;
    const [wall, baseWall] = [median(wallMs), median(off!.wallMs)];
    const pairs = median(wallMs.map((value, i) => value - off!.wallMs[i]!));
    console.log(
      `${name.padEnd(10)} wall ${wall.toFixed(2)} ms (${toPercent(wall, baseWall)}; median of differences ${pairs.toFixed(3)} ms), ` +
        `CPU ${cpuMs.toFixed(2)} ms (${toPercent(cpuMs, off!.cpuMs)})`,
    );
  }
  console.log(`${TURNS} turns each, ${collector.spans.length} spans received`);
} finally {
  for (const cleanUp of cleanups) await cleanUp();
}
