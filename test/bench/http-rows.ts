// Rows of `gantry serve`: its start, single runs, and many at once.
import { once } from "node:events";
import { interleaved, type Figure, type Line, type Scenario, type Server } from "./bench.js";
import { HttpClient } from "./http-client.js";
import { HttpPeerServer, figuresOfPeers } from "./http-peer.js";
import { cpuOf, end, start } from "./processes.js";
import { mean, median, quantile } from "./statistics.js";

/** Clients that ask at once. */
export const AT_ONCE = 64;

/** A question as `gantry` asks it, without gantry. */
export const direct = (message: string) => ({
  model: "m1",
  stream: true,
  messages: [{ role: "user", content: message }],
});

/** One run; resolves with its session's id and how long it took. */
export async function run(
  client: HttpClient,
  message: string,
  sessionId?: string,
): Promise<{ id: string; ms: number }> {
  const { headers, ms } = await client.post("/api/run", { message, session_id: sessionId });
  return { id: String(headers["x-session-id"]), ms };
}

/** So many jobs, a number of them at once. Resolves with what each took and how many a second there were. */
export async function atOnce(
  jobs: number,
  work: (worker: number) => Promise<{ ms: number }>,
  workers = AT_ONCE,
): Promise<{ perSecond: number; samples: number[] }> {
  const samples: number[] = [];
  let left = jobs;
  const since = performance.now();
  const worker = async (_: unknown, index: number): Promise<void> => {
    while (left-- > 0) samples.push((await work(index)).ms);
  };
  await Promise.all(Array.from({ length: workers }, worker));
  return { perSecond: (samples.length / (performance.now() - since)) * 1000, samples };
}

/** From spawn to the listen line, beside an empty Node and peers that serve. */
export const serveStart: Scenario = {
  rows: ["serve-start"],
  async run(bench) {
    const home = bench.home();
    const project = bench.project();
    const gantry = { samples: [] as number[], cpu: [] as number[] };
    const floor = { samples: [] as number[], cpu: [] as number[] };
    const peers = bench.options.httpPeers.map((peer) => ({ peer, samples: [] as number[] }));
    const own = async (): Promise<void> => {
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
    const others = peers.map(({ peer, samples }) => async () => {
      // They take seconds; a few are enough.
      if (samples.length >= 5) return;
      const server = await HttpPeerServer.start(bench, peer, project);
      samples.push(server.ms);
      await server.close();
    });
    await own();
    await bare();
    gantry.samples.length = gantry.cpu.length = floor.samples.length = 0;
    await interleaved([own, bare, ...others], bench.rounds(30, 10), (measure) => measure());
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

/** The first turn of a process, fresh runs beside direct requests, and how they do in a young process. */
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
    const asked = { samples: [] as number[] };
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
      asked.samples.push((await model.post("/chat/completions", direct("hi"))).ms);
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
        judged: median(fresh.samples) - median(asked.samples),
        gantry: { samples: fresh.samples, cpuMs: mean(fresh.cpu) },
        floor: asked,
        peers,
        notes: [`in a process's first 200: ${median(young).toFixed(1)} ms`],
      },
    ];
  },
};

/** What 64 at once took of one server, by rounds. */
export interface Load {
  rates: number[];
  samples: number[];
  cpuMs: number;
}

/** Fresh runs of 64 clients. */
export async function freshAtOnce({ child }: Server, client: HttpClient, jobs: number, load: Load): Promise<void> {
  const before = cpuOf(child);
  const { perSecond, samples } = await atOnce(jobs, () => run(client, "hi"));
  load.cpuMs += cpuOf(child) - before;
  load.rates.push(perSecond);
  load.samples.push(...samples);
}

/** Fresh runs, turns on stored sessions and the model alone, 64 at once. */
export const manyRuns: Scenario = {
  rows: ["runs-64", "runs-64-p99", "turns-64", "turns-64-p99"],
  async run(bench) {
    const server = await bench.serve();
    const client = new HttpClient(server.base);
    const model = new HttpClient(bench.model);
    const jobs = bench.rounds(1280, 640);
    const loads = { fresh: load(), turns: load(), model: load() };
    const sessions = await Promise.all(Array.from({ length: AT_ONCE }, async () => (await run(client, "hi")).id));
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
    // The first of each finds cold code.
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
        const stored = Array.from({ length: kind === "turns" ? AT_ONCE : 0 }, () => peer.run("hi"));
        const ids = (await Promise.all(stored)).map(({ id }) => id);
        const { perSecond, samples } = await atOnce(2 * AT_ONCE, (worker) => peer.run("hi", ids[worker]));
        p99[peer.peer.name] = { samples: [quantile(samples, 0.99)] };
        return { samples: [perSecond] };
      });
      const [rate, slowest] = linesOfLoad(kind === "fresh" ? "runs-64" : "turns-64", loads[kind], loads.model);
      lines.push({ ...rate, peers }, { ...slowest, peers: p99 });
    }
    return lines;
  },
};

/** An empty load. */
export function load(): Load {
  return { rates: [], samples: [], cpuMs: 0 };
}

function linesOfLoad(row: string, own: Load, model: Load): [rate: Line, p99: Line] {
  const p99 = quantile(own.samples, 0.99);
  const cpuMs = own.cpuMs / own.samples.length;
  const rates: Figure = { samples: own.rates, cpuMs };
  return [
    { row, judged: median(own.rates), gantry: rates, floor: { samples: model.rates } },
    {
      row: `${row}-p99`,
      judged: p99,
      gantry: { samples: [p99] },
      floor: { samples: [quantile(model.samples, 0.99)] },
      notes: [`p50 ${median(own.samples).toFixed(0)} ms, at most ${Math.max(...own.samples).toFixed(0)} ms`],
    },
  ];
}
