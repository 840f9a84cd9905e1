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

/**
 * Runs `measureRun` with watchers. Resolves with the answer characters that each watcher except the slow one has read.
 */
async function runWithWatchers(
  bench: Bench,
  baseUrl: string,
  sessionId: string,
  measureRun: () => Promise<void>,
): Promise<number[]> {
  const child = startProcess(
    [bench.options.node, resolveBenchFile("watch-load.mjs"), baseUrl, sessionId, String(WATCHER_COUNT)],
    {
      env: bench.createEnvironment(""),
      stderr: "inherit",
    },
  );
  let output = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
  const closeEvent = once(child, "close");
  await waitForMatch(child, /^\{"connected":true\}$/m);
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
    const gantry: Figure & { cpuSamplesMs: number[] } = { samples: [], cpuSamplesMs: [] };
    const floor: Figure & { cpuSamplesMs: number[] } = { samples: [], cpuSamplesMs: [] };
    for (const figure of [gantry, floor]) await measureTurn(server, client, figure);
    for (const figure of [gantry, floor]) figure.samples.length = figure.cpuSamplesMs.length = 0;
    await runInterleaved([gantry, floor], bench.getRounds(12, 3), async (figure) => {
      const sessionId = await createSession(client);
      const measureRun = () => measureTurn(server, client, figure, sessionId);
      if (figure === floor) return measureRun();
      for (const characters of await runWithWatchers(bench, server.baseUrl, sessionId, measureRun))
        // The session's first turn has an answer of one word.
        if (characters !== RUN_TOKENS * WORD_CHARACTERS + WORD_CHARACTERS)
          throw new Error(`a watcher received ${characters} characters`);
    });
    const memory = readMemory(server.child).peakMb.toFixed(0);
    client.close();
    await endProcess(server.child);
    const comparedValue = median(gantry.samples) / median(floor.samples);
    const cpuNote = `CPU of the server ${mean(gantry.cpuSamplesMs).toFixed(0)} ms, unwatched ${mean(floor.cpuSamplesMs).toFixed(0)} ms`;
    const notes = [`${cpuNote}; ${memory} MB at most`];
    return [
      {
        row: "watch-20",
        comparedValue,
        gantry: { samples: gantry.samples, cpuMs: mean(gantry.cpuSamplesMs) },
        floor: { samples: floor.samples, cpuMs: mean(floor.cpuSamplesMs) },
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
  figure: Figure & { cpuSamplesMs: number[] },
  sessionId?: string,
) {
  const cpuMsBefore = readCpuMs(child);
  const body = { message: `[tokens=${RUN_TOKENS}]`, stream: true, ...(sessionId && { session_id: sessionId }) };
  const { ms, characters } = await client.stream("/api/run", body, readRunText);
  if (characters !== RUN_TOKENS * WORD_CHARACTERS)
    throw new Error(`received ${characters} of ${RUN_TOKENS * WORD_CHARACTERS} characters`);
  figure.samples.push(ms);
  figure.cpuSamplesMs.push(readCpuMs(child) - cpuMsBefore);
}
