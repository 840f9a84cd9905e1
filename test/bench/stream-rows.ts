// Rows of streams over HTTP: one that is long, and many at once beside a floor server.
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

const LONG = 20_000;
const MANY = 100;
const CROWD = 500;
/** Characters of a word of the model's, but for the first. */
const WORD = 5;

/** 20,000 tokens as fast as the model writes, beside a reader of the model's own stream. */
export const longStream: Scenario = {
  rows: ["sse-20000"],
  async run(bench) {
    const server = await bench.serve();
    const client = new HttpClient(server.base);
    const model = new HttpClient(bench.model);
    const prompt = `[tokens=${LONG}]`;
    const gantry: Figure & { cpu: number[] } = { samples: [], cpu: [] };
    const floor: Figure = { samples: [] };
    const whole = ({ ms, characters }: Stream): number => {
      if (characters !== LONG * WORD) throw new Error(`${characters} characters of ${LONG * WORD} came`);
      return ms;
    };
    const own = async (): Promise<void> => {
      const before = cpuOf(server.child);
      const stream = await client.stream("/api/run", { message: prompt, stream: true }, textOfRun);
      gantry.samples.push(whole(stream));
      gantry.cpu.push(cpuOf(server.child) - before);
    };
    const bare = async (): Promise<void> => {
      floor.samples.push(whole(await model.stream("/chat/completions", direct(prompt), textOfChunk)));
    };
    for (let n = 0; n < 3; n++) await Promise.all([own(), bare()]);
    gantry.samples.length = gantry.cpu.length = floor.samples.length = 0;
    await interleaved([own, bare], bench.rounds(20, 8), (measure) => measure());
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

/** What many streams at once took. */
interface Crowd {
  first: number[];
  ms: number;
  characters: number;
}

/** A reader of many streams, in its own process, so that reading slows no probe down. */
class Reader {
  readonly #child: ChildProcess;
  /** When each stream has begun to talk. */
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
    for (const { server } of servers) await new Reader(bench, server.base, MANY, "[tokens=50 every=5]").done;
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
  const wanted = streams * tokens * WORD;
  if (characters !== wanted) throw new Error(`${characters} characters of ${wanted} came`);
}

/** What a token costs that comes alone, when many streams talk at an even pace. */
export const tokenCpu: Scenario = {
  rows: ["token-cpu"],
  run: (bench) =>
    both(bench, async (servers) => {
      const tokens = bench.rounds(500, 150);
      await interleaved(servers, bench.rounds(3, 1), async ({ server, samples, notes }) => {
        const before = cpuOf(server.child);
        const crowd = await new Reader(bench, server.base, MANY, `[tokens=${tokens} every=20]`).done;
        complete(crowd, MANY, tokens);
        samples.push((cpuOf(server.child) - before) / (MANY * tokens));
        notes.push(crowd.ms);
      });
      const [gantry, floor] = servers;
      const took = `${(median(gantry?.notes ?? []) / 1000).toFixed(1)} s for ${(tokens * 20) / 1000} s of talk`;
      return [line("token-cpu", gantry, floor, median(gantry?.samples ?? []), [took])];
    }),
};

/** How long each of many waits that ask at once, of a model that answers as fast as it can. */
export const firstToken: Scenario = {
  rows: ["first-token-100"],
  run: (bench) =>
    both(bench, async (servers) => {
      const totals: number[] = [];
      const tokens = 500;
      await interleaved(servers, bench.rounds(8, 2), async ({ name, server, samples, notes, cpu }) => {
        const before = cpuOf(server.child);
        const crowd = await new Reader(bench, server.base, MANY, `[tokens=${tokens}]`).done;
        complete(crowd, MANY, tokens);
        cpu.push(cpuOf(server.child) - before);
        samples.push(quantile(crowd.first, 0.5));
        notes.push(quantile(crowd.first, 0.99));
        if (name === "gantry") totals.push(crowd.ms);
      });
      const [gantry, floor] = servers;
      const said = `p99 ${median(gantry?.notes ?? []).toFixed(0)} ms; all ${MANY} x ${tokens} tokens ${median(totals).toFixed(0)} ms`;
      return [line("first-token-100", gantry, floor, median(gantry?.samples ?? []), [said])];
    }),
};

/** Whether a server still answers others while many streams talk. */
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
      const said = `p50 ${p50} ms; while the ${CROWD} streams began, p99 ${quantile(opening, 0.99).toFixed(0)} ms`;
      return [line("health-500", gantry, floor, median(gantry?.samples ?? []), [said])];
    }),
};

/** What a health check takes, asked every few ms until something is done. */
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

function line(row: string, own: Subject | undefined, base: Subject | undefined, judged: number, notes: string[]): Line {
  const figure = ({ samples = [], cpu = [] }: Partial<Subject> = {}): Figure => ({
    samples,
    ...(cpu.length > 0 ? { cpuMs: mean(cpu) } : {}),
  });
  return { row, judged, gantry: figure(own), floor: figure(base), notes };
}
