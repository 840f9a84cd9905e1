// Rows of HTTP streams: one long stream, and many concurrent ones compared with a floor server.
import { once } from "node:events";
import type { ChildProcess } from "node:child_process";
import {
  beside,
  interleaved,
  lineOf,
  type Bench,
  type Figure,
  type Line,
  type Scenario,
  type Server,
} from "./bench.js";
import { HttpClient, textOfChunk, textOfRun, type Stream } from "./http-client.js";
import { figuresOfPeers } from "./http-peer.js";
import { direct } from "./http-rows.js";
import { cpuOf, end, start } from "./processes.js";
import { mean, median, quantile } from "./statistics.js";

const LONG_STREAM_TOKENS = 20_000;
const CONCURRENT_STREAMS = 100;
const CROWD = 500;
/** Characters of each word from the model. */
const WORD = 5;

/** 20,000 tokens at the model's full speed, compared with reading the model's own stream. */
export const longStream: Scenario = {
  rows: ["sse-20000"],
  async run(bench) {
    const server = await bench.serve();
    const client = new HttpClient(server.base);
    const model = new HttpClient(bench.model);
    const prompt = `[tokens=${LONG_STREAM_TOKENS}]`;
    const gantry: Figure & { cpu: number[] } = { samples: [], cpu: [] };
    const floor: Figure = { samples: [] };
    const requireComplete = ({ ms, characters }: Stream): number => {
      if (characters !== LONG_STREAM_TOKENS * WORD)
        throw new Error(`${characters} characters of ${LONG_STREAM_TOKENS * WORD} came`);
      return ms;
    };
    const measureGantry = async (): Promise<void> => {
      const before = cpuOf(server.child);
      const stream = await client.stream("/api/run", { message: prompt, stream: true }, textOfRun);
      gantry.samples.push(requireComplete(stream));
      gantry.cpu.push(cpuOf(server.child) - before);
    };
    const bare = async (): Promise<void> => {
      floor.samples.push(requireComplete(await model.stream("/chat/completions", direct(prompt), textOfChunk)));
    };
    for (let n = 0; n < 3; n++) await Promise.all([measureGantry(), bare()]);
    gantry.samples.length = gantry.cpu.length = floor.samples.length = 0;
    await interleaved([measureGantry, bare], bench.rounds(20, 8), (measure) => measure());
    client.close();
    model.close();
    await end(server.child);
    const peers = await figuresOfPeers(bench, async (peer) => {
      const samples: number[] = [];
      for (let n = 0; n < 3; n++) samples.push((await peer.run(prompt)).ms);
      return { samples };
    });
    const judged = median(gantry.samples) / median(floor.samples);
    const notes = Object.keys(peers).map((name) => `${name}: the run to its end, not streamed`);
    return [
      { row: "sse-20000", judged, gantry: { samples: gantry.samples, cpuMs: mean(gantry.cpu) }, floor, peers, notes },
    ];
  },
};

/** Measurements of many concurrent streams. */
interface Crowd {
  first: number[];
  ms: number;
  characters: number;
}

/** A reader of many streams in its own process, so that reading does not slow down the probes. */
class Reader {
  readonly #child: ChildProcess;
  /** Resolves once each stream has sent text. */
  readonly talking: Promise<unknown>;
  readonly done: Promise<Crowd>;

  constructor(bench: Bench, base: string, count: number, message: string) {
    this.#child = start([bench.options.node, beside("stream-load.mjs"), base, String(count), message], {
      env: bench.environment(""),
      stderr: "inherit",
    });
    let output = "";
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
    this.talking = lineOf(this.#child, /^\{"all":true\}$/m);
    this.talking.catch(() => {});
    this.done = once(this.#child, "close").then(async () => {
      await end(this.#child);
      const line = output.trim().split("\n").at(-1) ?? "";
      if (!line.startsWith('{"first"')) throw new Error("the streams were not read to their end");
      return JSON.parse(line) as Crowd;
    });
  }
}

async function floorServer(bench: Bench): Promise<Server> {
  const since = performance.now();
  const child = start([bench.options.node, beside("floor-server.mjs"), bench.model], { env: bench.environment("") });
  return { child, base: await lineOf(child, /listening on (\S+)/), ms: performance.now() - since };
}

async function both(bench: Bench, work: (servers: readonly Subject[]) => Promise<Line[]>): Promise<Line[]> {
  const servers: Subject[] = [
    { name: "gantry", server: await bench.serve(), samples: [], cpu: [], notes: [] },
    { name: "floor", server: await floorServer(bench), samples: [], cpu: [], notes: [] },
  ];
  try {
    for (const { server } of servers)
      await new Reader(bench, server.base, CONCURRENT_STREAMS, "[tokens=50 every=5]").done;
    return await work(servers);
  } finally {
    await Promise.all(servers.map(({ server }) => end(server.child)));
  }
}

interface Subject {
  name: string;
  server: Server;
  samples: number[];
  cpu: number[];
  notes: number[];
}

function complete({ characters }: Crowd, streams: number, tokens: number): void {
  const expectedCharacters = streams * tokens * WORD;
  if (characters !== expectedCharacters) throw new Error(`${characters} characters of ${expectedCharacters} came`);
}

/** CPU time of a token that arrives separately, while many streams run at an even pace. */
export const tokenCpu: Scenario = {
  rows: ["token-cpu"],
  run: (bench) =>
    both(bench, async (servers) => {
      const tokens = bench.rounds(500, 150);
      await interleaved(servers, bench.rounds(3, 1), async ({ server, samples, notes }) => {
        const before = cpuOf(server.child);
        const crowd = await new Reader(bench, server.base, CONCURRENT_STREAMS, `[tokens=${tokens} every=20]`).done;
        complete(crowd, CONCURRENT_STREAMS, tokens);
        samples.push((cpuOf(server.child) - before) / (CONCURRENT_STREAMS * tokens));
        notes.push(crowd.ms);
      });
      const [gantry, floor] = servers;
      const took = `${(median(gantry?.notes ?? []) / 1000).toFixed(1)} s for ${(tokens * 20) / 1000} s of talk`;
      return [line("token-cpu", gantry, floor, median(gantry?.samples ?? []), [took])];
    }),
};

/** Time to the first token of many concurrent requests, with a model at full speed. */
export const firstToken: Scenario = {
  rows: ["first-token-100"],
  run: (bench) =>
    both(bench, async (servers) => {
      const totals: number[] = [];
      const tokens = 500;
      await interleaved(servers, bench.rounds(8, 2), async ({ name, server, samples, notes, cpu }) => {
        const before = cpuOf(server.child);
        const crowd = await new Reader(bench, server.base, CONCURRENT_STREAMS, `[tokens=${tokens}]`).done;
        complete(crowd, CONCURRENT_STREAMS, tokens);
        cpu.push(cpuOf(server.child) - before);
        samples.push(quantile(crowd.first, 0.5));
        notes.push(quantile(crowd.first, 0.99));
        if (name === "gantry") totals.push(crowd.ms);
      });
      const [gantry, floor] = servers;
      const summaryNote = `p99 ${median(gantry?.notes ?? []).toFixed(0)} ms; all ${CONCURRENT_STREAMS} x ${tokens} tokens ${median(totals).toFixed(0)} ms`;
      return [line("first-token-100", gantry, floor, median(gantry?.samples ?? []), [summaryNote])];
    }),
};

/** Response time of the health endpoint during many streams. */
export const healthBeside: Scenario = {
  rows: ["health-500"],
  run: (bench) =>
    both(bench, async (servers) => {
      const tokens = bench.rounds(100, 40);
      const opening: number[] = [];
      await interleaved(servers, bench.rounds(2, 1), async ({ name, server, samples, notes }) => {
        const reader = new Reader(bench, server.base, CROWD, `[tokens=${tokens} every=100]`);
        const waits = await probe(server.base, reader.talking);
        if (name === "gantry") opening.push(...waits);
        const beside = await probe(server.base, reader.done);
        complete(await reader.done, CROWD, tokens);
        samples.push(quantile(beside, 0.99));
        notes.push(quantile(beside, 0.5));
      });
      const [gantry, floor] = servers;
      const p50 = median(gantry?.notes ?? []).toFixed(1);
      const summaryNote = `p50 ${p50} ms; while the ${CROWD} streams began, p99 ${quantile(opening, 0.99).toFixed(0)} ms`;
      return [line("health-500", gantry, floor, median(gantry?.samples ?? []), [summaryNote])];
    }),
};

/** Response times of the health endpoint, requested every few ms until a promise settles. */
export async function probe(base: string, until: Promise<unknown>): Promise<number[]> {
  const client = new HttpClient(base);
  const waits: number[] = [];
  const ended = until.then(
    () => true,
    () => true,
  );
  const pause = (): Promise<false> => new Promise((resolve) => setTimeout(resolve, 5, false));
  do waits.push((await client.get("/api/health")).ms);
  while (!(await Promise.race([ended, pause()])));
  client.close();
  return waits;
}

function line(
  row: string,
  gantrySubject: Subject | undefined,
  base: Subject | undefined,
  judged: number,
  notes: string[],
): Line {
  const figure = ({ samples = [], cpu = [] }: Partial<Subject> = {}): Figure => ({
    samples,
    ...(cpu.length > 0 ? { cpuMs: mean(cpu) } : {}),
  });
  return { row, judged, gantry: figure(gantrySubject), floor: figure(base), notes };
}
