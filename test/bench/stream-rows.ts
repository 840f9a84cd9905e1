// Rows of HTTP streams: one long stream, and many concurrent streams compared with a floor server.
import { once } from "node:events";
import type { ChildProcess } from "node:child_process";
import {
  resolveBenchFile,
  runInterleaved,
  waitForMatch,
  type Bench,
  type Figure,
  type RowMeasurement,
  type Scenario,
  type Server,
} from "./bench.js";
import { HttpClient, readChunkText, readRunText, type StreamMeasurement } from "./http-client.js";
import { measurePeers } from "./http-peer.js";
import { createModelRequest } from "./http-rows.js";
import { readCpuMs, endProcess, startProcess } from "./processes.js";
import { mean, median, quantile } from "./statistics.js";

const LONG_STREAM_TOKENS = 20_000;
const CONCURRENT_STREAMS = 100;
const HEALTH_STREAMS = 500;
/** Characters of each word from the model. */
const WORD_CHARACTERS = 5;

/** 20,000 tokens at the model's full speed, compared with reading the model's own stream. */
export const longStream: Scenario = {
  rows: ["sse-20000"],
  async run(bench) {
    const server = await bench.startServer();
    const client = new HttpClient(server.baseUrl);
    const model = new HttpClient(bench.modelUrl);
    const prompt = `[tokens=${LONG_STREAM_TOKENS}]`;
    const gantry: Figure & { cpuSamplesMs: number[] } = { samples: [], cpuSamplesMs: [] };
    const floor: Figure = { samples: [] };
    const requireComplete = ({ ms, characters }: StreamMeasurement): number => {
      if (characters !== LONG_STREAM_TOKENS * WORD_CHARACTERS)
        throw new Error(`received ${characters} of ${LONG_STREAM_TOKENS * WORD_CHARACTERS} characters`);
      return ms;
    };
    const measureGantry = async (): Promise<void> => {
      const cpuMsBefore = readCpuMs(server.child);
      const stream = await client.stream("/api/run", { message: prompt, stream: true }, readRunText);
      gantry.samples.push(requireComplete(stream));
      gantry.cpuSamplesMs.push(readCpuMs(server.child) - cpuMsBefore);
    };
    const measureFloor = async (): Promise<void> => {
      floor.samples.push(
        requireComplete(await model.stream("/chat/completions", createModelRequest(prompt), readChunkText)),
      );
    };
    for (let n = 0; n < 3; n++) await Promise.all([measureGantry(), measureFloor()]);
    gantry.samples.length = gantry.cpuSamplesMs.length = floor.samples.length = 0;
    await runInterleaved([measureGantry, measureFloor], bench.getRounds(20, 8), (measure) => measure());
    client.close();
    model.close();
    await endProcess(server.child);
    const peers = await measurePeers(bench, async (peer) => {
      const samples: number[] = [];
      for (let n = 0; n < 3; n++) samples.push((await peer.run(prompt)).ms);
      return { samples };
    });
    const comparedValue = median(gantry.samples) / median(floor.samples);
    const notes = Object.keys(peers).map((name) => `${name}: the run to its end, not streamed`);
    return [
      {
        row: "sse-20000",
        comparedValue,
        gantry: { samples: gantry.samples, cpuMs: mean(gantry.cpuSamplesMs) },
        floor,
        peers,
        notes,
      },
    ];
  },
};

/** Measurements of many concurrent streams. */
interface StreamLoad {
  /** Time to the first token of each stream. */
  firstTokensMs: number[];
  /** Time until all streams have ended. */
  ms: number;
  characters: number;
}

/** A reader of many streams in its own process, so that reading does not slow down the probes. */
class StreamLoadProcess {
  readonly #child: ChildProcess;
  /** Resolves once each stream has sent text. */
  readonly allStreamsStarted: Promise<unknown>;
  readonly result: Promise<StreamLoad>;

  constructor(bench: Bench, baseUrl: string, streamCount: number, message: string) {
    this.#child = startProcess(
      [bench.options.node, resolveBenchFile("stream-load.mjs"), baseUrl, String(streamCount), message],
      {
        env: bench.createEnvironment(""),
        stderr: "inherit",
      },
    );
    let output = "";
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
    this.allStreamsStarted = waitForMatch(this.#child, /^\{"all":true\}$/m);
    this.allStreamsStarted.catch(() => {});
    this.result = once(this.#child, "close").then(async () => {
      await endProcess(this.#child);
      const line = output.trim().split("\n").at(-1) ?? "";
      if (!line.startsWith('{"firstTokensMs"')) throw new Error("the streams were not read to their end");
      return JSON.parse(line) as StreamLoad;
    });
  }
}

async function startFloorServer(bench: Bench): Promise<Server> {
  const spawnedMs = performance.now();
  const child = startProcess([bench.options.node, resolveBenchFile("floor-server.mjs"), bench.modelUrl], {
    env: bench.createEnvironment(""),
  });
  return {
    child,
    baseUrl: await waitForMatch(child, /listening on (\S+)/),
    startDurationMs: performance.now() - spawnedMs,
  };
}

async function measureBoth(
  bench: Bench,
  measure: (servers: readonly ServerSubject[]) => Promise<RowMeasurement[]>,
): Promise<RowMeasurement[]> {
  const servers: ServerSubject[] = [
    { name: "gantry", server: await bench.startServer(), samples: [], cpuSamplesMs: [], extraSamples: [] },
    { name: "floor", server: await startFloorServer(bench), samples: [], cpuSamplesMs: [], extraSamples: [] },
  ];
  try {
    for (const { server } of servers)
      await new StreamLoadProcess(bench, server.baseUrl, CONCURRENT_STREAMS, "[tokens=50 every=5]").result;
    return await measure(servers);
  } finally {
    await Promise.all(servers.map(({ server }) => endProcess(server.child)));
  }
}

/** A measured server and the samples of one row. */
interface ServerSubject {
  name: string;
  server: Server;
  samples: number[];
  cpuSamplesMs: number[];
  /** Samples of a second figure, which is reported in a note. */
  extraSamples: number[];
}

function requireCompleteLoad({ characters }: StreamLoad, streams: number, tokens: number): void {
  const expectedCharacters = streams * tokens * WORD_CHARACTERS;
  if (characters !== expectedCharacters) throw new Error(`received ${characters} of ${expectedCharacters} characters`);
}

/** CPU time of a token that arrives separately, while many streams run at an even pace. */
export const tokenCpu: Scenario = {
  rows: ["token-cpu"],
  run: (bench) =>
    measureBoth(bench, async (servers) => {
      const tokens = bench.getRounds(500, 150);
      await runInterleaved(servers, bench.getRounds(3, 1), async ({ server, samples, extraSamples }) => {
        const cpuMsBefore = readCpuMs(server.child);
        const load = await new StreamLoadProcess(
          bench,
          server.baseUrl,
          CONCURRENT_STREAMS,
          `[tokens=${tokens} every=20]`,
        ).result;
        requireCompleteLoad(load, CONCURRENT_STREAMS, tokens);
        samples.push((readCpuMs(server.child) - cpuMsBefore) / (CONCURRENT_STREAMS * tokens));
        extraSamples.push(load.ms);
      });
      const [gantry, floor] = servers;
      const durationNote = `${(median(gantry?.extraSamples ?? []) / 1000).toFixed(1)} s for ${(tokens * 20) / 1000} s of talk`;
      return [createMeasurement("token-cpu", gantry, floor, median(gantry?.samples ?? []), [durationNote])];
    }),
};

/** Time to the first token of many concurrent requests, with a model at full speed. */
export const firstToken: Scenario = {
  rows: ["first-token-100"],
  run: (bench) =>
    measureBoth(bench, async (servers) => {
      const totalsMs: number[] = [];
      const tokens = 500;
      await runInterleaved(
        servers,
        bench.getRounds(8, 2),
        async ({ name, server, samples, extraSamples, cpuSamplesMs }) => {
          const cpuMsBefore = readCpuMs(server.child);
          const load = await new StreamLoadProcess(bench, server.baseUrl, CONCURRENT_STREAMS, `[tokens=${tokens}]`)
            .result;
          requireCompleteLoad(load, CONCURRENT_STREAMS, tokens);
          cpuSamplesMs.push(readCpuMs(server.child) - cpuMsBefore);
          samples.push(quantile(load.firstTokensMs, 0.5));
          extraSamples.push(quantile(load.firstTokensMs, 0.99));
          if (name === "gantry") totalsMs.push(load.ms);
        },
      );
      const [gantry, floor] = servers;
      const summaryNote = `p99 ${median(gantry?.extraSamples ?? []).toFixed(0)} ms; all ${CONCURRENT_STREAMS} x ${tokens} tokens ${median(totalsMs).toFixed(0)} ms`;
      return [createMeasurement("first-token-100", gantry, floor, median(gantry?.samples ?? []), [summaryNote])];
    }),
};

/** Response time of the health endpoint during many streams. */
export const healthDuringStreams: Scenario = {
  rows: ["health-500"],
  run: (bench) =>
    measureBoth(bench, async (servers) => {
      const tokens = bench.getRounds(100, 40);
      const openingWaitsMs: number[] = [];
      await runInterleaved(servers, bench.getRounds(2, 1), async ({ name, server, samples, extraSamples }) => {
        const reader = new StreamLoadProcess(bench, server.baseUrl, HEALTH_STREAMS, `[tokens=${tokens} every=100]`);
        const waitsMs = await probeHealth(server.baseUrl, reader.allStreamsStarted);
        if (name === "gantry") openingWaitsMs.push(...waitsMs);
        const streamingWaitsMs = await probeHealth(server.baseUrl, reader.result);
        requireCompleteLoad(await reader.result, HEALTH_STREAMS, tokens);
        samples.push(quantile(streamingWaitsMs, 0.99));
        extraSamples.push(quantile(streamingWaitsMs, 0.5));
      });
      const [gantry, floor] = servers;
      const p50 = median(gantry?.extraSamples ?? []).toFixed(1);
      const summaryNote = `p50 ${p50} ms; while the ${HEALTH_STREAMS} streams began, p99 ${quantile(openingWaitsMs, 0.99).toFixed(0)} ms`;
      return [createMeasurement("health-500", gantry, floor, median(gantry?.samples ?? []), [summaryNote])];
    }),
};

/** Requests the health endpoint every few ms until a promise settles. Resolves with the response times in ms. */
export async function probeHealth(baseUrl: string, promise: Promise<unknown>): Promise<number[]> {
  const client = new HttpClient(baseUrl);
  const waitsMs: number[] = [];
  const settlement = promise.then(
    () => true,
    () => true,
  );
  const pause = (): Promise<false> => new Promise((resolve) => setTimeout(resolve, 5, false));
  do waitsMs.push((await client.get("/api/health")).ms);
  while (!(await Promise.race([settlement, pause()])));
  client.close();
  return waitsMs;
}

function createMeasurement(
  row: string,
  gantrySubject: ServerSubject | undefined,
  floorSubject: ServerSubject | undefined,
  comparedValue: number,
  notes: string[],
): RowMeasurement {
  const createFigure = ({ samples = [], cpuSamplesMs = [] }: Partial<ServerSubject> = {}): Figure => ({
    samples,
    ...(cpuSamplesMs.length > 0 ? { cpuMs: mean(cpuSamplesMs) } : {}),
  });
  return { row, comparedValue, gantry: createFigure(gantrySubject), floor: createFigure(floorSubject), notes };
}
