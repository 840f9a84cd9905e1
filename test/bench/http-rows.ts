// Rows of `gantry serve`: start, single runs and concurrent runs.
import { once } from "node:events";
import { runInterleaved, type Figure, type RowMeasurement, type Scenario, type Server } from "./bench.js";
import { HttpClient } from "./http-client.js";
import { HttpPeerServer, measurePeers } from "./http-peer.js";
import { readCpuMs, endProcess, startProcess } from "./processes.js";
import { mean, median, quantile } from "./statistics.js";

/** Number of concurrent clients. */
export const CONCURRENT_CLIENTS = 64;

/** Creates a model request like gantry's, for clients that request the model directly. */
export const createModelRequest = (message: string) => ({
  model: "m1",
  stream: true,
  messages: [{ role: "user", content: message }],
});

/** Runs a prompt. Resolves with the session id and the duration. */
export async function runPrompt(
  client: HttpClient,
  message: string,
  sessionId?: string,
): Promise<{ id: string; ms: number }> {
  const { headers, ms } = await client.post("/api/run", { message, session_id: sessionId });
  return { id: String(headers["x-session-id"]), ms };
}

/** Runs `jobCount` jobs, `workerCount` at a time. Resolves with each duration and the rate per second. */
export async function runConcurrently(
  jobCount: number,
  runJob: (worker: number) => Promise<{ ms: number }>,
  workerCount = CONCURRENT_CLIENTS,
): Promise<{ perSecond: number; samples: number[] }> {
  const samples: number[] = [];
  let remainingJobs = jobCount;
  const startMs = performance.now();
  const worker = async (_: unknown, index: number): Promise<void> => {
    while (remainingJobs-- > 0) samples.push((await runJob(index)).ms);
  };
  await Promise.all(Array.from({ length: workerCount }, worker));
  return { perSecond: (samples.length / (performance.now() - startMs)) * 1000, samples };
}

/** Time from spawn to the listening line, compared with an empty Node and with peers. */
export const serveStart: Scenario = {
  rows: ["serve-start"],
  async run(bench) {
    const home = bench.createHome();
    const project = bench.createProject();
    const gantry = { samples: [] as number[], cpuSamplesMs: [] as number[] };
    const floor = { samples: [] as number[], cpuSamplesMs: [] as number[] };
    const peers = bench.options.httpPeers.map((peer) => ({ peer, samples: [] as number[] }));
    const measureGantry = async (): Promise<void> => {
      const server = await bench.startServer(home, project);
      gantry.cpuSamplesMs.push(readCpuMs(server.child));
      gantry.samples.push(server.startDurationMs);
      await endProcess(server.child);
    };
    const measureFloor = async (): Promise<void> => {
      const startMs = performance.now();
      const child = startProcess([bench.options.node, "-e", ""], { env: bench.createEnvironment(home) });
      await once(child, "exit");
      floor.samples.push(performance.now() - startMs);
      await endProcess(child);
    };
    const peerMeasurements = peers.map(({ peer, samples }) => async () => {
      // A few samples are enough, because a peer takes seconds to start.
      if (samples.length >= 5) return;
      const server = await HttpPeerServer.start(bench, peer, project);
      samples.push(server.startDurationMs);
      await server.close();
    });
    await measureGantry();
    await measureFloor();
    gantry.samples.length = gantry.cpuSamplesMs.length = floor.samples.length = 0;
    await runInterleaved([measureGantry, measureFloor, ...peerMeasurements], bench.getRounds(30, 10), (measure) =>
      measure(),
    );
    return [
      {
        row: "serve-start",
        comparedValue: median(gantry.samples) / median(floor.samples),
        gantry: { samples: gantry.samples, cpuMs: mean(gantry.cpuSamplesMs) },
        floor: { samples: floor.samples },
        peers: Object.fromEntries(peers.map(({ peer, samples }) => [peer.name, { samples }])),
      },
    ];
  },
};

/** The first turn of a process, fresh runs compared with direct requests, and the first 200 runs of a process. */
export const singleRuns: Scenario = {
  rows: ["first-turn-http", "fresh-run"],
  async run(bench) {
    const firstTurnsMs: number[] = [];
    const earlyRunsMs: number[] = [];
    const home = bench.createHome();
    const project = bench.createProject();
    for (let round = 0; round < bench.getRounds(10, 3); round++) {
      const server = await bench.startServer(home, project);
      const client = new HttpClient(server.baseUrl);
      firstTurnsMs.push((await runPrompt(client, "hi")).ms);
      if (round < 2) for (let n = 1; n < 200; n++) earlyRunsMs.push((await runPrompt(client, "hi")).ms);
      client.close();
      await endProcess(server.child);
    }
    const server = await bench.startServer(home, project);
    const client = new HttpClient(server.baseUrl);
    const model = new HttpClient(bench.modelUrl);
    const freshRuns = { samples: [] as number[], cpuSamplesMs: [] as number[] };
    const directRequests = { samples: [] as number[] };
    const storedTurns = { samples: [] as number[] };
    const { id } = await runPrompt(client, "hi");
    for (let n = 0; n < bench.getRounds(400, 200); n++) {
      await runPrompt(client, "hi", n % 2 === 0 ? id : undefined);
      await model.post("/chat/completions", createModelRequest("hi"));
    }
    const measureFreshRun = async (): Promise<void> => {
      const cpuMsBefore = readCpuMs(server.child);
      freshRuns.samples.push((await runPrompt(client, "hi")).ms);
      freshRuns.cpuSamplesMs.push(readCpuMs(server.child) - cpuMsBefore);
    };
    const measureDirectRequest = async (): Promise<void> => {
      directRequests.samples.push((await model.post("/chat/completions", createModelRequest("hi"))).ms);
    };
    const measureStoredTurn = async (): Promise<void> => {
      storedTurns.samples.push((await runPrompt(client, "hi", id)).ms);
    };
    await runInterleaved(
      [measureFreshRun, measureDirectRequest, measureStoredTurn],
      bench.getRounds(300, 100),
      (measure) => measure(),
    );
    client.close();
    model.close();
    await endProcess(server.child);
    const peers = await measurePeers(bench, async (peer) => {
      const samples: number[] = [];
      for (let n = 0; n < 20; n++) samples.push((await peer.run("hi")).ms);
      return { samples };
    });
    return [
      {
        row: "first-turn-http",
        comparedValue: median(firstTurnsMs) / median(storedTurns.samples),
        gantry: { samples: firstTurnsMs },
        floor: storedTurns,
      },
      {
        row: "fresh-run",
        comparedValue: median(freshRuns.samples) - median(directRequests.samples),
        gantry: { samples: freshRuns.samples, cpuMs: mean(freshRuns.cpuSamplesMs) },
        floor: directRequests,
        peers,
        notes: [`in a process's first 200: ${median(earlyRunsMs).toFixed(1)} ms`],
      },
    ];
  },
};

/** Measurements of rounds with 64 concurrent clients. */
export interface LoadSamples {
  /** Runs per second of each round. */
  rates: number[];
  /** Duration of each run of all rounds, in ms. */
  samples: number[];
  /** CPU time of the server in all rounds. */
  cpuMs: number;
}

/** Measures fresh runs of 64 concurrent clients. */
export async function measureFreshRuns(
  { child }: Server,
  client: HttpClient,
  jobCount: number,
  load: LoadSamples,
): Promise<void> {
  const cpuMsBefore = readCpuMs(child);
  const { perSecond, samples } = await runConcurrently(jobCount, () => runPrompt(client, "hi"));
  load.cpuMs += readCpuMs(child) - cpuMsBefore;
  load.rates.push(perSecond);
  load.samples.push(...samples);
}

/** Fresh runs, turns on stored sessions and direct model requests, 64 at a time. */
export const manyRuns: Scenario = {
  rows: ["runs-64", "runs-64-p99", "turns-64", "turns-64-p99"],
  async run(bench) {
    const server = await bench.startServer();
    const client = new HttpClient(server.baseUrl);
    const model = new HttpClient(bench.modelUrl);
    const jobCount = bench.getRounds(1280, 640);
    const loads = { fresh: createLoadSamples(), turns: createLoadSamples(), model: createLoadSamples() };
    const sessions = await Promise.all(
      Array.from({ length: CONCURRENT_CLIENTS }, async () => (await runPrompt(client, "hi")).id),
    );
    const measureRounds = {
      fresh: () => measureFreshRuns(server, client, jobCount, loads.fresh),
      turns: async () => {
        const cpuMsBefore = readCpuMs(server.child);
        const { perSecond, samples } = await runConcurrently(jobCount, (worker) =>
          runPrompt(client, "hi", sessions[worker]),
        );
        loads.turns.cpuMs += readCpuMs(server.child) - cpuMsBefore;
        loads.turns.rates.push(perSecond);
        loads.turns.samples.push(...samples);
      },
      model: async () => {
        const { perSecond, samples } = await runConcurrently(jobCount * 2, () =>
          model.post("/chat/completions", createModelRequest("hi")),
        );
        loads.model.rates.push(perSecond);
        loads.model.samples.push(...samples);
      },
    };
    // The first round runs cold code and is not counted.
    for (const kind of ["fresh", "turns", "model"] as const) {
      await measureRounds[kind]();
      loads[kind] = createLoadSamples();
    }
    await runInterleaved(["fresh", "turns", "model"] as const, bench.getRounds(5, 2), (kind) => measureRounds[kind]());
    client.close();
    model.close();
    await endProcess(server.child);
    const measurements: RowMeasurement[] = [];
    for (const kind of ["fresh", "turns"] as const) {
      const p99: Record<string, Figure> = {};
      const peers = await measurePeers(bench, async (peer) => {
        const storedRuns = Array.from({ length: kind === "turns" ? CONCURRENT_CLIENTS : 0 }, () => peer.run("hi"));
        const ids = (await Promise.all(storedRuns)).map(({ id }) => id);
        const { perSecond, samples } = await runConcurrently(2 * CONCURRENT_CLIENTS, (worker) =>
          peer.run("hi", ids[worker]),
        );
        p99[peer.peer.name] = { samples: [quantile(samples, 0.99)] };
        return { samples: [perSecond] };
      });
      const [rateMeasurement, p99Measurement] = createLoadMeasurements(
        kind === "fresh" ? "runs-64" : "turns-64",
        loads[kind],
        loads.model,
      );
      measurements.push({ ...rateMeasurement, peers }, { ...p99Measurement, peers: p99 });
    }
    return measurements;
  },
};

export function createLoadSamples(): LoadSamples {
  return { rates: [], samples: [], cpuMs: 0 };
}

function createLoadMeasurements(
  row: string,
  gantryLoad: LoadSamples,
  modelLoad: LoadSamples,
): [rate: RowMeasurement, p99: RowMeasurement] {
  const p99 = quantile(gantryLoad.samples, 0.99);
  const cpuMs = gantryLoad.cpuMs / gantryLoad.samples.length;
  const rates: Figure = { samples: gantryLoad.rates, cpuMs };
  return [
    { row, comparedValue: median(gantryLoad.rates), gantry: rates, floor: { samples: modelLoad.rates } },
    {
      row: `${row}-p99`,
      comparedValue: p99,
      gantry: { samples: [p99] },
      floor: { samples: [quantile(modelLoad.samples, 0.99)] },
      notes: [
        `p50 ${median(gantryLoad.samples).toFixed(0)} ms, at most ${Math.max(...gantryLoad.samples).toFixed(0)} ms`,
      ],
    },
  ];
}
