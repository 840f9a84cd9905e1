// Rows for stores that already have content: long sessions, long lists, and the JSON driver compared with SQLite.
import { once } from "node:events";
import path from "node:path";
import {
  resolveBenchFile,
  runInterleaved,
  waitForMatch,
  type Bench,
  type Figure,
  type Scenario,
  type Server,
} from "./bench.js";
import { HttpClient } from "./http-client.js";
import { measureFreshRuns, createLoadSamples, runPrompt } from "./http-rows.js";
import { readCpuMs, endProcess, readMemory, startProcess } from "./processes.js";
import { mean, median, quantile } from "./statistics.js";
import { probeHealth } from "./stream-rows.js";

const SHORT_TURNS = 10;
const LONG_TURNS = 1010;

type DriverKind = "sqlite" | "json";

interface PreparedStore {
  server: Server;
  client: HttpClient;
  ids: string[];
  /** Path of the store. */
  file: string;
}

/**
 * Fills a store. `groups`: `100000x0` is 100,000 sessions without messages, `1x50000` one session of 50,000 messages.
 * Resolves with the session ids of groups with fewer than ten sessions.
 */
export async function fillStore(
  bench: Bench,
  driver: DriverKind | "postgres",
  options: object,
  project: string,
  groups: readonly string[],
): Promise<string[]> {
  const { node, product } = bench.options;
  const child = startProcess(
    [node, resolveBenchFile("store.mjs"), product, driver, JSON.stringify(options), project, ...groups],
    {
      env: bench.createEnvironment(""),
      stderr: "inherit",
    },
  );
  let output = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
  const [code] = (await once(child, "close")) as [number | null];
  await endProcess(child);
  if (code !== 0) throw new Error("the store could not be prepared");
  return output.trim().split("\n");
}

/** Starts a server on a filled store. */
async function prepareStore(bench: Bench, driver: DriverKind, groups: readonly string[]): Promise<PreparedStore> {
  const home = bench.createHome({ driver });
  const project = bench.createProject();
  const file = path.join(home, driver === "json" ? "sessions" : "sessions.db");
  const ids = await fillStore(bench, driver, { path: file }, project, groups);
  const server = await bench.startServer(home, project);
  return { server, client: new HttpClient(server.baseUrl), ids, file };
}

async function closeStore({ client, server }: PreparedStore): Promise<void> {
  client.close();
  await endProcess(server.child);
}

/**
 * Time in ms that each stored turn adds to a new turn: compares a session of many turns with a session of few turns.
 */
async function measureSlope(
  bench: Bench,
  driver: DriverKind,
): Promise<{ slope: number; longDurationsMs: number[]; shortDurationsMs: number[] }> {
  const store = await prepareStore(bench, driver, [`1x${2 * SHORT_TURNS}`, `1x${2 * LONG_TURNS}`]);
  const [shortId = "", longId = ""] = store.ids;
  const durationsMsById = new Map<string, number[]>();
  const measureTurn = async (id: string): Promise<void> => {
    durationsMsById.set(id, [...(durationsMsById.get(id) ?? []), (await runPrompt(store.client, "hi", id)).ms]);
  };
  await runInterleaved([shortId, longId], bench.getRounds(60, 30), measureTurn);
  durationsMsById.clear();
  await runInterleaved([shortId, longId], bench.getRounds(150, 50), measureTurn);
  await closeStore(store);
  const [shortDurationsMs = [], longDurationsMs = []] = [durationsMsById.get(shortId), durationsMsById.get(longId)];
  return {
    slope: (median(longDurationsMs) - median(shortDurationsMs)) / (LONG_TURNS - SHORT_TURNS),
    longDurationsMs,
    shortDurationsMs,
  };
}

const formatSlope = (longDurationsMs: readonly number[], shortDurationsMs: readonly number[]): string =>
  `a turn on ${SHORT_TURNS} stored ones ${median(shortDurationsMs).toFixed(1)} ms, on ${LONG_TURNS} ${median(longDurationsMs).toFixed(1)} ms`;

/** Time that a session's history adds to a turn, with SQLite. */
export const sessionSlope: Scenario = {
  rows: ["slope"],
  async run(bench) {
    const { slope: comparedValue, longDurationsMs, shortDurationsMs } = await measureSlope(bench, "sqlite");
    return [
      {
        row: "slope",
        comparedValue,
        gantry: { samples: [comparedValue] },
        notes: [formatSlope(longDurationsMs, shortDurationsMs)],
      },
    ];
  },
};

/** A page of a long list. */
export const longList: Scenario = {
  rows: ["list-100000"],
  async run(bench) {
    const store = await prepareStore(bench, "sqlite", ["100000x1"]);
    const samples: number[] = [];
    const requestList = async (): Promise<void> => {
      const { body, ms } = await store.client.get("/api/sessions?size=50");
      if (!body.includes('"total":100000')) throw new Error("the list does not have all sessions");
      samples.push(ms);
    };
    for (let n = 0; n < 300; n++) await requestList();
    samples.length = 0;
    const cpuMsBefore = readCpuMs(store.server.child);
    for (let n = 0; n < bench.getRounds(1000, 500); n++) await requestList();
    const cpuMs = (readCpuMs(store.server.child) - cpuMsBefore) / samples.length;
    await closeStore(store);
    const notes = [`p99 ${quantile(samples, 0.99).toFixed(2)} ms`];
    return [{ row: "list-100000", comparedValue: median(samples), gantry: { samples, cpuMs }, notes }];
  },
};

/** Turns on sessions of 50,000 messages, all of which are sent to the model. */
export const longSession: Scenario = {
  rows: ["newest-50000"],
  async run(bench) {
    const sessionCount = bench.getRounds(5, 2);
    const store = await prepareStore(bench, "sqlite", [`${sessionCount}x50000`]);
    const { child, baseUrl } = store.server;
    const gantry: Figure & { cpuSamplesMs: number[] } = { samples: [], cpuSamplesMs: [] };
    const firstTurnsMs: number[] = [];
    const healthWaitsMs: number[] = [];
    // The process is warm, but has not loaded these sessions.
    for (let n = 0; n < 40; n++) await runPrompt(store.client, "hi");
    for (const id of store.ids) {
      firstTurnsMs.push((await runPrompt(store.client, "hi", id)).ms);
      for (let n = 0; n < bench.getRounds(4, 3); n++) {
        const cpuMsBefore = readCpuMs(child);
        const turnResult = runPrompt(store.client, "hi", id);
        healthWaitsMs.push(Math.max(...(await probeHealth(baseUrl, turnResult))));
        gantry.samples.push((await turnResult).ms);
        gantry.cpuSamplesMs.push(readCpuMs(child) - cpuMsBefore);
      }
    }
    const { peakMb } = readMemory(child);
    await closeStore(store);
    const floor = { samples: await measureFloor(bench, store) };
    const notes = [
      `the first on a session that the process has not had ${median(firstTurnsMs).toFixed(0)} ms (${Math.min(...firstTurnsMs).toFixed(0)}-${Math.max(...firstTurnsMs).toFixed(0)})`,
      `peak ${peakMb.toFixed(0)} MB; health meanwhile ${median(healthWaitsMs).toFixed(0)} ms`,
    ];
    const cpuMs = mean(gantry.cpuSamplesMs);
    return [{ row: "newest-50000", comparedValue: median(gantry.samples), gantry: { ...gantry, cpuMs }, floor, notes }];
  },
};

/** Reference: reads the session from the file and requests the model directly. */
async function measureFloor(bench: Bench, { file, ids: [id = ""] }: PreparedStore): Promise<number[]> {
  const { node, product } = bench.options;
  const args = [product, file, bench.modelUrl, id, String(bench.getRounds(15, 6))];
  const child = startProcess([node, resolveBenchFile("floor-session.mjs"), ...args], {
    env: bench.createEnvironment(""),
    stderr: "inherit",
  });
  const durationsMs = JSON.parse(await waitForMatch(child, /^(\[.*\])$/m)) as number[];
  await endProcess(child);
  return durationsMs.slice(2);
}

/** The JSON driver compared with SQLite. */
export const jsonDriver: Scenario = {
  rows: ["json-runs", "json-slope"],
  async run(bench) {
    const jobCount = bench.getRounds(640, 320);
    const stores = await Promise.all(
      (["json", "sqlite"] as const).map(async (driver) => {
        const server = await bench.startServer(bench.createHome({ driver }));
        return { server, client: new HttpClient(server.baseUrl), load: createLoadSamples() };
      }),
    );
    const [jsonLoad, sqliteLoad] = stores.map(({ load }) => load);
    if (bench.isRowRequested("json-runs")) {
      // The first round runs cold code and is not counted.
      for (const { server, client } of stores)
        await measureFreshRuns(server, client, jobCount / 2, createLoadSamples());
      await runInterleaved(stores, bench.getRounds(4, 2), ({ server, client, load }) =>
        measureFreshRuns(server, client, jobCount, load),
      );
    }
    for (const { server, client } of stores) {
      client.close();
      await endProcess(server.child);
    }
    const measurements = [];
    if (jsonLoad && sqliteLoad && bench.isRowRequested("json-runs"))
      measurements.push({
        row: "json-runs",
        comparedValue: median(jsonLoad.rates) / median(sqliteLoad.rates),
        gantry: { samples: jsonLoad.rates, cpuMs: jsonLoad.cpuMs / jsonLoad.samples.length },
        floor: { samples: sqliteLoad.rates, cpuMs: sqliteLoad.cpuMs / sqliteLoad.samples.length },
        notes: [
          `p99 ${quantile(jsonLoad.samples, 0.99).toFixed(0)} ms, SQLite's ${quantile(sqliteLoad.samples, 0.99).toFixed(0)} ms`,
        ],
      });
    if (bench.isRowRequested("json-slope")) {
      const { slope: comparedValue, longDurationsMs, shortDurationsMs } = await measureSlope(bench, "json");
      measurements.push({
        row: "json-slope",
        comparedValue,
        gantry: { samples: [comparedValue] },
        notes: [formatSlope(longDurationsMs, shortDurationsMs)],
      });
    }
    return measurements;
  },
};
