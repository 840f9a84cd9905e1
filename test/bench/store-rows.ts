// Rows for stores that already have content: long sessions, long lists, and the JSON driver compared with SQLite.
import { once } from "node:events";
import path from "node:path";
import { beside, interleaved, lineOf, type Bench, type Figure, type Scenario, type Server } from "./bench.js";
import { HttpClient } from "./http-client.js";
import { freshAtOnce, load, run } from "./http-rows.js";
import { cpuOf, end, memoryOf, start } from "./processes.js";
import { mean, median, quantile } from "./statistics.js";
import { probe } from "./stream-rows.js";

const SHORT_TURNS = 10;
const LONG_TURNS = 1010;

type Driver = "sqlite" | "json";

interface Prepared {
  server: Server;
  client: HttpClient;
  ids: string[];
  /** Path of the store. */
  file: string;
}

/**
 * Fills a store. `groups`: `100000x0` is 100,000 sessions without messages, `1x50000` one session of 50,000. Resolves
 * with the session ids of groups with fewer than ten sessions.
 */
export async function filled(
  bench: Bench,
  driver: Driver | "postgres",
  options: object,
  project: string,
  groups: readonly string[],
): Promise<string[]> {
  const { node, product } = bench.options;
  const child = start([node, beside("store.mjs"), product, driver, JSON.stringify(options), project, ...groups], {
    env: bench.environment(""),
    stderr: "inherit",
  });
  let output = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
  const [code] = (await once(child, "close")) as [number | null];
  await end(child);
  if (code !== 0) throw new Error("the store could not be prepared");
  return output.trim().split("\n");
}

/** Starts a server on a filled store. */
async function prepared(bench: Bench, driver: Driver, groups: readonly string[]): Promise<Prepared> {
  const home = bench.home({ driver });
  const project = bench.project();
  const file = path.join(home, driver === "json" ? "sessions" : "sessions.db");
  const ids = await filled(bench, driver, { path: file }, project, groups);
  const server = await bench.serve(home, project);
  return { server, client: new HttpClient(server.base), ids, file };
}

async function closed({ client, server }: Prepared): Promise<void> {
  client.close();
  await end(server.child);
}

/** Cost of each stored turn for a new turn: compares a session of many turns with one of few. */
async function slope(bench: Bench, driver: Driver): Promise<{ slope: number; long: number[]; short: number[] }> {
  const store = await prepared(bench, driver, [`1x${2 * SHORT_TURNS}`, `1x${2 * LONG_TURNS}`]);
  const [short = "", long = ""] = store.ids;
  const took = new Map<string, number[]>();
  const turn = async (id: string): Promise<void> => {
    took.set(id, [...(took.get(id) ?? []), (await run(store.client, "hi", id)).ms]);
  };
  await interleaved([short, long], bench.rounds(60, 30), turn);
  took.clear();
  await interleaved([short, long], bench.rounds(150, 50), turn);
  await closed(store);
  const [few = [], many = []] = [took.get(short), took.get(long)];
  return { slope: (median(many) - median(few)) / (LONG_TURNS - SHORT_TURNS), long: many, short: few };
}

const wordsOfSlope = (long: readonly number[], short: readonly number[]): string =>
  `a turn on ${SHORT_TURNS} stored ones ${median(short).toFixed(1)} ms, on ${LONG_TURNS} ${median(long).toFixed(1)} ms`;

/** Cost of history. */
export const slopes: Scenario = {
  rows: ["slope"],
  async run(bench) {
    const { slope: judged, long, short } = await slope(bench, "sqlite");
    return [{ row: "slope", judged, gantry: { samples: [judged] }, notes: [wordsOfSlope(long, short)] }];
  },
};

/** A page of a long list. */
export const longList: Scenario = {
  rows: ["list-100000"],
  async run(bench) {
    const store = await prepared(bench, "sqlite", ["100000x1"]);
    const samples: number[] = [];
    const ask = async (): Promise<void> => {
      const { body, ms } = await store.client.get("/api/sessions?size=50");
      if (!body.includes('"total":100000')) throw new Error("the list is not whole");
      samples.push(ms);
    };
    for (let n = 0; n < 300; n++) await ask();
    samples.length = 0;
    const before = cpuOf(store.server.child);
    for (let n = 0; n < bench.rounds(1000, 500); n++) await ask();
    const cpuMs = (cpuOf(store.server.child) - before) / samples.length;
    await closed(store);
    const notes = [`p99 ${quantile(samples, 0.99).toFixed(2)} ms`];
    return [{ row: "list-100000", judged: median(samples), gantry: { samples, cpuMs }, notes }];
  },
};

/** Turns on sessions of 50,000 messages, all of which are sent to the model. */
export const longSession: Scenario = {
  rows: ["newest-50000"],
  async run(bench) {
    const sessions = bench.rounds(5, 2);
    const store = await prepared(bench, "sqlite", [`${sessions}x50000`]);
    const { child, base } = store.server;
    const gantry: Figure & { cpu: number[] } = { samples: [], cpu: [] };
    const cold: number[] = [];
    const health: number[] = [];
    // The process is warm, but has not loaded these sessions.
    for (let n = 0; n < 40; n++) await run(store.client, "hi");
    for (const id of store.ids) {
      cold.push((await run(store.client, "hi", id)).ms);
      for (let n = 0; n < bench.rounds(4, 3); n++) {
        const before = cpuOf(child);
        const turn = run(store.client, "hi", id);
        health.push(Math.max(...(await probe(base, turn))));
        gantry.samples.push((await turn).ms);
        gantry.cpu.push(cpuOf(child) - before);
      }
    }
    const { peak } = memoryOf(child);
    await closed(store);
    const floor = { samples: await floorOfSession(bench, store) };
    const notes = [
      `the first on a session that the process has not had ${median(cold).toFixed(0)} ms (${Math.min(...cold).toFixed(0)}-${Math.max(...cold).toFixed(0)})`,
      `peak ${peak.toFixed(0)} MB; health meanwhile ${median(health).toFixed(0)} ms`,
    ];
    const cpuMs = mean(gantry.cpu);
    return [{ row: "newest-50000", judged: median(gantry.samples), gantry: { ...gantry, cpuMs }, floor, notes }];
  },
};

/** Reference: reads the session from the file and requests the model directly. */
async function floorOfSession(bench: Bench, { file, ids: [id = ""] }: Prepared): Promise<number[]> {
  const { node, product } = bench.options;
  const args = [product, file, bench.model, id, String(bench.rounds(15, 6))];
  const child = start([node, beside("floor-session.mjs"), ...args], { env: bench.environment(""), stderr: "inherit" });
  const took = JSON.parse(await lineOf(child, /^(\[.*\])$/m)) as number[];
  await end(child);
  return took.slice(2);
}

/** The JSON driver compared with SQLite. */
export const jsonDriver: Scenario = {
  rows: ["json-runs", "json-slope"],
  async run(bench) {
    const jobs = bench.rounds(640, 320);
    const stores = await Promise.all(
      (["json", "sqlite"] as const).map(async (driver) => {
        const server = await bench.serve(bench.home({ driver }));
        return { server, client: new HttpClient(server.base), load: load() };
      }),
    );
    const [json, sqlite] = stores.map(({ load: each }) => each);
    if (bench.wants("json-runs")) {
      // The first round runs cold code and is not counted.
      for (const { server, client } of stores) await freshAtOnce(server, client, jobs / 2, load());
      await interleaved(stores, bench.rounds(4, 2), ({ server, client, load: each }) =>
        freshAtOnce(server, client, jobs, each),
      );
    }
    for (const { server, client } of stores) {
      client.close();
      await end(server.child);
    }
    const lines = [];
    if (json && sqlite && bench.wants("json-runs"))
      lines.push({
        row: "json-runs",
        judged: median(json.rates) / median(sqlite.rates),
        gantry: { samples: json.rates, cpuMs: json.cpuMs / json.samples.length },
        floor: { samples: sqlite.rates, cpuMs: sqlite.cpuMs / sqlite.samples.length },
        notes: [
          `p99 ${quantile(json.samples, 0.99).toFixed(0)} ms, SQLite's ${quantile(sqlite.samples, 0.99).toFixed(0)} ms`,
        ],
      });
    if (bench.wants("json-slope")) {
      const { slope: judged, long, short } = await slope(bench, "json");
      lines.push({
        row: "json-slope",
        judged,
        gantry: { samples: [judged] },
        notes: [wordsOfSlope(long, short)],
      });
    }
    return lines;
  },
};
