// Rows of `gantry serve`: start, single runs and concurrent runs.
import { once } from "node:events";
import { interleaved, type Figure, type Line, type Scenario, type Server } from "./bench.js";
import { HttpClient } from "./http-client.js";
import { HttpPeerServer, figuresOfPeers } from "./http-peer.js";
import { cpuOf, end, start } from "./processes.js";
import { mean, median, quantile } from "./statistics.js";

/** Number of concurrent clients. */
export const CONCURRENT_CLIENTS = 64;

/** A model request like gantry's, sent directly to the model. */
export const direct = (message: string) => ({
  model: "m1",
  stream: true,
  messages: [{ role: "user", content: message }],
});

/** Runs a prompt. Resolves with the session id and the duration. */
export async function run(
  client: HttpClient,
  message: string,
  sessionId?: string,
): Promise<{ id: string; ms: number }> {
  const { headers, ms } = await client.post("/api/run", { message, session_id: sessionId });
  return { id: String(headers["x-session-id"]), ms };
}

/** Runs `jobs` jobs with `workers` of them at a time. Resolves with each duration and the rate per second. */
export async function atOnce(
  jobs: number,
  work: (worker: number) => Promise<{ ms: number }>,
  workers = CONCURRENT_CLIENTS,
): Promise<{ perSecond: number; samples: number[] }> {
  const samples: number[] = [];
  let remainingJobs = jobs;
  const since = performance.now();
  const worker = async (_: unknown, index: number): Promise<void> => {
    while (remainingJobs-- > 0) samples.push((await work(index)).ms);
  };
  await Promise.all(Array.from({ length: workers }, worker));
  return { perSecond: (samples.length / (performance.now() - since)) * 1000, samples };
}

/** Time from spawn to the listening line, compared with an empty Node and with peers. */
export const serveStart: Scenario = {
  rows: ["serve-start"],
  async run(bench) {
    const home = bench.home();
    const project = bench.project();
    const gantry = { samples: [] as number[], cpu: [] as number[] };
    const floor = { samples: [] as number[], cpu: [] as number[] };
    const peers = bench.options.httpPeers.map((peer) => ({ peer, samples: [] as number[] }));
    const measureGantry = async (): Promise<void> => {
      const server = await bench.serve(home, project);
      gantry.cpu.push(cpuOf(server.child));
      gantry.samples.push(server.ms);
      await end(server.child);
    };
    const bare = async (): Promise<void> => {
      const since = performance.now();
      const child = start([bench.options.node, "-e", ""], { env: bench.environment(home) });
      await once(child, "exit");
      floor.samples.push(performance.now() - since);
      await end(child);
    };
    const peerMeasurements = peers.map(({ peer, samples }) => async () => {
      // A few samples are enough, because a peer takes seconds to start.
      if (samples.length >= 5) return;
      const server = await HttpPeerServer.start(bench, peer, project);
      samples.push(server.ms);
      await server.close();
    });
    await measureGantry();
    await bare();
    gantry.samples.length = gantry.cpu.length = floor.samples.length = 0;
    await interleaved([measureGantry, bare, ...peerMeasurements], bench.rounds(30, 10), (measure) => measure());
    return [
      {
        row: "serve-start",
        judged: median(gantry.samples) / median(floor.samples),
        gantry: { samples: gantry.samples, cpuMs: mean(gantry.cpu) },
        floor: { samples: floor.samples },
        peers: Object.fromEntries(peers.map(({ peer, samples }) => [peer.name, { samples }])),
      },
    ];
  },
};

/** The first turn of a process, fresh runs compared with direct requests, and runs in a young process. */
export const singleRuns: Scenario = {
  rows: ["first-turn-http", "fresh-run"],
  async run(bench) {
    const first: number[] = [];
    const young: number[] = [];
    const home = bench.home();
    const project = bench.project();
    for (let round = 0; round < bench.rounds(10, 3); round++) {
      const server = await bench.serve(home, project);
      const client = new HttpClient(server.base);
      first.push((await run(client, "hi")).ms);
      if (round < 2) for (let n = 1; n < 200; n++) young.push((await run(client, "hi")).ms);
      client.close();
      await end(server.child);
    }
    const server = await bench.serve(home, project);
    const client = new HttpClient(server.base);
    const model = new HttpClient(bench.model);
    const fresh = { samples: [] as number[], cpu: [] as number[] };
    const directRequests = { samples: [] as number[] };
    const turns = { samples: [] as number[] };
    const { id } = await run(client, "hi");
    for (let n = 0; n < bench.rounds(400, 200); n++) {
      await run(client, "hi", n % 2 === 0 ? id : undefined);
      await model.post("/chat/completions", direct("hi"));
    }
    const runs = async (): Promise<void> => {
      const before = cpuOf(server.child);
      fresh.samples.push((await run(client, "hi")).ms);
      fresh.cpu.push(cpuOf(server.child) - before);
    };
    const requests = async (): Promise<void> => {
      directRequests.samples.push((await model.post("/chat/completions", direct("hi"))).ms);
    };
    const again = async (): Promise<void> => {
      turns.samples.push((await run(client, "hi", id)).ms);
    };
    await interleaved([runs, requests, again], bench.rounds(300, 100), (measure) => measure());
    client.close();
    model.close();
    await end(server.child);
    const peers = await figuresOfPeers(bench, async (peer) => {
      const samples: number[] = [];
      for (let n = 0; n < 20; n++) samples.push((await peer.run("hi")).ms);
      return { samples };
    });
    return [
      {
        row: "first-turn-http",
        judged: median(first) / median(turns.samples),
        gantry: { samples: first },
        floor: turns,
      },
      {
        row: "fresh-run",
        judged: median(fresh.samples) - median(directRequests.samples),
        gantry: { samples: fresh.samples, cpuMs: mean(fresh.cpu) },
        floor: directRequests,
        peers,
        notes: [`in a process's first 200: ${median(young).toFixed(1)} ms`],
      },
    ];
  },
};

/** Rates, durations and CPU time of rounds with 64 concurrent clients. */
export interface LoadSamples {
  rates: number[];
  samples: number[];
  cpuMs: number;
}

/** Measures fresh runs of 64 concurrent clients. */
export async function freshAtOnce(
  { child }: Server,
  client: HttpClient,
  jobs: number,
  load: LoadSamples,
): Promise<void> {
  const before = cpuOf(child);
  const { perSecond, samples } = await atOnce(jobs, () => run(client, "hi"));
  load.cpuMs += cpuOf(child) - before;
  load.rates.push(perSecond);
  load.samples.push(...samples);
}

/** Fresh runs, turns on stored sessions and direct model requests, 64 at a time. */
export const manyRuns: Scenario = {
  rows: ["runs-64", "runs-64-p99", "turns-64", "turns-64-p99"],
  async run(bench) {
    const server = await bench.serve();
    const client = new HttpClient(server.base);
    const model = new HttpClient(bench.model);
    const jobs = bench.rounds(1280, 640);
    const loads = { fresh: load(), turns: load(), model: load() };
    const sessions = await Promise.all(
      Array.from({ length: CONCURRENT_CLIENTS }, async () => (await run(client, "hi")).id),
    );
    const work = {
      fresh: () => freshAtOnce(server, client, jobs, loads.fresh),
      turns: async () => {
        const before = cpuOf(server.child);
        const { perSecond, samples } = await atOnce(jobs, (worker) => run(client, "hi", sessions[worker]));
        loads.turns.cpuMs += cpuOf(server.child) - before;
        loads.turns.rates.push(perSecond);
        loads.turns.samples.push(...samples);
      },
      model: async () => {
        const { perSecond, samples } = await atOnce(jobs * 2, () => model.post("/chat/completions", direct("hi")));
        loads.model.rates.push(perSecond);
        loads.model.samples.push(...samples);
      },
    };
    // The first round runs cold code and is not counted.
    for (const kind of ["fresh", "turns", "model"] as const) {
      await work[kind]();
      loads[kind] = load();
    }
    await interleaved(["fresh", "turns", "model"] as const, bench.rounds(5, 2), (kind) => work[kind]());
    client.close();
    model.close();
    await end(server.child);
    const lines: Line[] = [];
    for (const kind of ["fresh", "turns"] as const) {
      const p99: Record<string, Figure> = {};
      const peers = await figuresOfPeers(bench, async (peer) => {
        const stored = Array.from({ length: kind === "turns" ? CONCURRENT_CLIENTS : 0 }, () => peer.run("hi"));
        const ids = (await Promise.all(stored)).map(({ id }) => id);
        const { perSecond, samples } = await atOnce(2 * CONCURRENT_CLIENTS, (worker) => peer.run("hi", ids[worker]));
        p99[peer.peer.name] = { samples: [quantile(samples, 0.99)] };
        return { samples: [perSecond] };
      });
      const [rate, slowest] = linesOfLoad(kind === "fresh" ? "runs-64" : "turns-64", loads[kind], loads.model);
      lines.push({ ...rate, peers }, { ...slowest, peers: p99 });
    }
    return lines;
  },
};

export function load(): LoadSamples {
  return { rates: [], samples: [], cpuMs: 0 };
}

function linesOfLoad(row: string, gantryLoad: LoadSamples, model: LoadSamples): [rate: Line, p99: Line] {
  const p99 = quantile(gantryLoad.samples, 0.99);
  const cpuMs = gantryLoad.cpuMs / gantryLoad.samples.length;
  const rates: Figure = { samples: gantryLoad.rates, cpuMs };
  return [
    { row, judged: median(gantryLoad.rates), gantry: rates, floor: { samples: model.rates } },
    {
      row: `${row}-p99`,
      judged: p99,
      gantry: { samples: [p99] },
      floor: { samples: [quantile(model.samples, 0.99)] },
      notes: [
        `p50 ${median(gantryLoad.samples).toFixed(0)} ms, at most ${Math.max(...gantryLoad.samples).toFixed(0)} ms`,
      ],
    },
  ];
}
