// Rows that compare PostgreSQL with SQLite in the same run: one client, and many at a time.
import { runInterleaved, type Bench, type RowMeasurement, type Scenario, type Server } from "./bench.js";
import { HttpClient } from "./http-client.js";
import { CONCURRENT_CLIENTS, runConcurrently, createLoadSamples, runPrompt, type LoadSamples } from "./http-rows.js";
import { BenchDatabase, getPostgresSkipReason } from "./postgres-server.js";
import { readCpuMs, endProcess, readMemory } from "./processes.js";
import { median, quantile } from "./statistics.js";

/** Row id, number of clients, and whether each client repeats turns on a stored session. */
const ROW_KINDS = [
  { row: "pg-runs-1", workerCount: 1, isStored: false },
  { row: "pg-turns-1", workerCount: 1, isStored: true },
  { row: "pg-runs-64", workerCount: CONCURRENT_CLIENTS, isStored: false },
  { row: "pg-turns-64", workerCount: CONCURRENT_CLIENTS, isStored: true },
] as const;
type RowKind = (typeof ROW_KINDS)[number];

/** A server on one of the two stores. */
interface StoreSubject {
  server: Server;
  client: HttpClient;
  sessionIds: string[];
  /** Measured loads by row id. */
  loadsByRow: Map<string, LoadSamples & { storeCpuMs: number }>;
  readStoreCpuMs(): number;
}

async function createSubject(bench: Bench, home: string, readStoreCpuMs = (): number => 0): Promise<StoreSubject> {
  const server = await bench.startServer(home);
  const client = new HttpClient(server.baseUrl);
  const sessionIds = await Promise.all(
    Array.from({ length: CONCURRENT_CLIENTS }, async () => (await runPrompt(client, "hi")).id),
  );
  return { server, client, sessionIds, loadsByRow: new Map(), readStoreCpuMs };
}

async function measureLoad(
  { server, client, sessionIds, loadsByRow, readStoreCpuMs }: StoreSubject,
  kind: RowKind,
  jobCount: number,
) {
  const load = loadsByRow.get(kind.row) ?? { ...createLoadSamples(), storeCpuMs: 0 };
  loadsByRow.set(kind.row, load);
  const [cpuMsBefore, storeCpuMsBefore] = [readCpuMs(server.child), readStoreCpuMs()];
  const runJob = (worker: number) => runPrompt(client, "hi", kind.isStored ? sessionIds[worker] : undefined);
  const { perSecond, samples } = await runConcurrently(jobCount, runJob, kind.workerCount);
  load.cpuMs += readCpuMs(server.child) - cpuMsBefore;
  load.storeCpuMs += readStoreCpuMs() - storeCpuMsBefore;
  load.rates.push(perSecond);
  load.samples.push(...samples);
}

/** Fresh runs and turns on stored sessions, with 1 and 64 clients. */
export const postgresRuns: Scenario = {
  rows: ROW_KINDS.map(({ row }) => row),
  getSkipReason: getPostgresSkipReason,
  async run(bench) {
    await using database = await BenchDatabase.create();
    const subjects = [
      await createSubject(bench, bench.createHome(database.createSessionConfig()), () => database.readCpuMs()),
      await createSubject(bench, bench.createHome({ driver: "sqlite" })),
    ];
    const kinds = ROW_KINDS.filter(({ row }) => bench.isRowRequested(row));
    const getJobCount = ({ workerCount }: RowKind): number =>
      workerCount === 1 ? bench.getRounds(150, 100) : bench.getRounds(1280, 640);
    const pairs = kinds.flatMap((kind) => subjects.map((subject) => ({ subject, kind })));
    // The first round runs cold code and is not counted.
    for (const { subject, kind } of pairs) await measureLoad(subject, kind, getJobCount(kind));
    for (const { loadsByRow } of subjects) loadsByRow.clear();
    await runInterleaved(pairs, bench.getRounds(7, 3), ({ subject, kind }) =>
      measureLoad(subject, kind, getJobCount(kind)),
    );
    const peaksMb = subjects.map(({ server }) => readMemory(server.child).peakMb.toFixed(0));
    for (const { client, server } of subjects) {
      client.close();
      await endProcess(server.child);
    }
    const [postgresLoads, sqliteLoads] = subjects.map(({ loadsByRow }) => loadsByRow);
    const measurements = kinds.map(({ row }) => createMeasurement(row, postgresLoads?.get(row), sqliteLoads?.get(row)));
    const memory = `the process had ${peaksMb[0]} MB at most, with SQLite ${peaksMb[1]} MB`;
    return measurements.map((measurement, index) =>
      index === measurements.length - 1
        ? { ...measurement, notes: [...(measurement.notes ?? []), memory] }
        : measurement,
    );
  },
};

function createMeasurement(
  row: string,
  postgresLoad: StoreSubject["loadsByRow"] extends Map<string, infer L> ? L | undefined : never,
  sqliteLoad = postgresLoad,
) {
  if (!postgresLoad || !sqliteLoad) throw new Error(`${row} was not measured`);
  const msPerRun = (ms: number, { samples }: LoadSamples): number => ms / samples.length;
  const formatP99 = ({ samples }: LoadSamples): string => quantile(samples, 0.99).toFixed(1);
  const measurement: RowMeasurement = {
    row,
    comparedValue: median(postgresLoad.rates) / median(sqliteLoad.rates),
    gantry: { samples: postgresLoad.rates, cpuMs: msPerRun(postgresLoad.cpuMs, postgresLoad) },
    floor: { samples: sqliteLoad.rates, cpuMs: msPerRun(sqliteLoad.cpuMs, sqliteLoad) },
    notes: [
      `PostgreSQL's own CPU ${msPerRun(postgresLoad.storeCpuMs, postgresLoad).toFixed(2)} ms; p99 ${formatP99(postgresLoad)} ms, SQLite's ${formatP99(sqliteLoad)} ms`,
    ],
  };
  return measurement;
}
