// The row of a watched run, compared with the same run without watchers.
import { once } from "node:events";
import {
  runInterleaved,
  resolveBenchFile,
  waitForMatch,
  type Bench,
  type Figure,
  type Scenario,
  type Server,
} from "./bench.js";
import { HttpClient, readRunText } from "./http-client.js";
import { readCpuMs, readMemory, endProcess, startProcess } from "./processes.js";
import { mean, median } from "./statistics.js";

const RUN_TOKENS = 20_000;
const WATCHER_COUNT = 20;
/** Characters of each word from the model. */
const WORD_CHARACTERS = 5;

/** Runs `work` with watchers. Resolves with the answer characters that each watcher has read, except the slow one. */
async function runWithWatchers(
  bench: Bench,
  base: string,
  session: string,
  measureRun: () => Promise<void>,
): Promise<number[]> {
  const child = startProcess(
    [bench.options.node, resolveBenchFile("watch-load.mjs"), base, session, String(WATCHER_COUNT)],
    {
      env: bench.createEnvironment(""),
      stderr: "inherit",
    },
  );
  let output = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
  const closeEvent = once(child, "close");
  await waitForMatch(child, /^\{"all":true\}$/m);
  await measureRun();
  // The last events arrive within the notification delay.
  await new Promise((resolve) => setTimeout(resolve, 500));
  child.stdin?.end();
  await closeEvent;
  await endProcess(child);
  return (JSON.parse(output.trim().split("\n").at(-1) ?? "") as { characters: number[] }).characters;
}

/** A run of 20,000 tokens with 20 watchers, one of which reads a byte a second, compared with an unwatched run. */
export const watchedStream: Scenario = {
  rows: ["watch-20"],
  async run(bench) {
    const server = await bench.startServer();
    const client = new HttpClient(server.baseUrl);
    const gantry: Figure & { cpu: number[] } = { samples: [], cpu: [] };
    const floor: Figure & { cpu: number[] } = { samples: [], cpu: [] };
    for (const figure of [gantry, floor]) await measureTurn(server, client, figure);
    for (const figure of [gantry, floor]) figure.samples.length = figure.cpu.length = 0;
    await runInterleaved([gantry, floor], bench.getRounds(12, 3), async (figure) => {
      const sessionId = await createSession(client);
      const measureRun = () => measureTurn(server, client, figure, sessionId);
      if (figure === floor) return measureRun();
      for (const characters of await runWithWatchers(bench, server.baseUrl, sessionId, measureRun))
        if (characters !== RUN_TOKENS * WORD_CHARACTERS + WORD_CHARACTERS)
          throw new Error(`a watcher was told ${characters} characters`);
    });
    const memory = readMemory(server.child).peakMb.toFixed(0);
    client.close();
    await endProcess(server.child);
    const judged = median(gantry.samples) / median(floor.samples);
    const cpu = `CPU of the server ${mean(gantry.cpu).toFixed(0)} ms, unwatched ${mean(floor.cpu).toFixed(0)} ms`;
    const notes = [`${cpu}; ${memory} MB at most`];
    return [
      {
        row: "watch-20",
        judged,
        gantry: { samples: gantry.samples, cpuMs: mean(gantry.cpu) },
        floor: { samples: floor.samples, cpuMs: mean(floor.cpu) },
        notes,
      },
    ];
  },
};

/** Creates a session with a short turn. Resolves with its id. */
async function createSession(client: HttpClient): Promise<string> {
  const { headers } = await client.post("/api/run", { message: "hello" });
  return String(headers["x-session-id"]);
}

async function measureTurn(
  { child }: Server,
  client: HttpClient,
  figure: Figure & { cpu: number[] },
  session?: string,
) {
  const cpuMsBefore = readCpuMs(child);
  const body = { message: `[tokens=${RUN_TOKENS}]`, stream: true, ...(session && { session_id: session }) };
  const { ms, characters } = await client.stream("/api/run", body, readRunText);
  if (characters !== RUN_TOKENS * WORD_CHARACTERS)
    throw new Error(`${characters} characters of ${RUN_TOKENS * WORD_CHARACTERS} came`);
  figure.samples.push(ms);
  figure.cpu.push(readCpuMs(child) - cpuMsBefore);
}
