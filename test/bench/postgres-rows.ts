// Rows that compare PostgreSQL with SQLite in the same run: one client, and many at a time.
import { interleaved, type Bench, type Line, type Scenario, type Server } from "./bench.js";
import { HttpClient } from "./http-client.js";
import { CONCURRENT_CLIENTS, atOnce, load, run, type LoadSamples } from "./http-rows.js";
import { BenchDatabase, lacksPostgres } from "./postgres-server.js";
import { cpuOf, end, memoryOf } from "./processes.js";
import { median, quantile } from "./statistics.js";

/** Row id, number of clients, and whether each client has a stored session. */
const KINDS = [
  { row: "pg-runs-1", workers: 1, stored: false },
  { row: "pg-turns-1", workers: 1, stored: true },
  { row: "pg-runs-64", workers: CONCURRENT_CLIENTS, stored: false },
  { row: "pg-turns-64", workers: CONCURRENT_CLIENTS, stored: true },
] as const;
type Kind = (typeof KINDS)[number];

/** A server on one of the two stores. */
interface Subject {
  server: Server;
  client: HttpClient;
  sessions: string[];
  loads: Map<string, LoadSamples & { storeCpuMs: number }>;
  storeCpu(): number;
}

async function subject(bench: Bench, home: string, storeCpu = (): number => 0): Promise<Subject> {
  const server = await bench.serve(home);
  const client = new HttpClient(server.base);
  const sessions = await Promise.all(
    Array.from({ length: CONCURRENT_CLIENTS }, async () => (await run(client, "hi")).id),
  );
  return { server, client, sessions, loads: new Map(), storeCpu };
}

async function measure({ server, client, sessions, loads, storeCpu }: Subject, kind: Kind, jobs: number) {
  const all = loads.get(kind.row) ?? { ...load(), storeCpuMs: 0 };
  loads.set(kind.row, all);
  const [cpuBefore, stores] = [cpuOf(server.child), storeCpu()];
  const work = (worker: number) => run(client, "hi", kind.stored ? sessions[worker] : undefined);
  const { perSecond, samples } = await atOnce(jobs, work, kind.workers);
  all.cpuMs += cpuOf(server.child) - cpuBefore;
  all.storeCpuMs += storeCpu() - stores;
  all.rates.push(perSecond);
  all.samples.push(...samples);
}

/** Fresh runs and turns on stored sessions, with 1 and 64 clients. */
export const postgresRuns: Scenario = {
  rows: KINDS.map(({ row }) => row),
  lacks: lacksPostgres,
  async run(bench) {
    await using database = await BenchDatabase.create();
    const subjects = [
      await subject(bench, bench.home(database.session()), () => database.cpu()),
      await subject(bench, bench.home({ driver: "sqlite" })),
    ];
    const kinds = KINDS.filter(({ row }) => bench.wants(row));
    const jobsOf = ({ workers }: Kind): number => (workers === 1 ? bench.rounds(150, 100) : bench.rounds(1280, 640));
    const pairs = kinds.flatMap((kind) => subjects.map((each) => ({ each, kind })));
    // The first round runs cold code and is not counted.
    for (const { each, kind } of pairs) await measure(each, kind, jobsOf(kind));
    for (const { loads } of subjects) loads.clear();
    await interleaved(pairs, bench.rounds(7, 3), ({ each, kind }) => measure(each, kind, jobsOf(kind)));
    const peaks = subjects.map(({ server }) => memoryOf(server.child).peak.toFixed(0));
    for (const { client, server } of subjects) {
      client.close();
      await end(server.child);
    }
    const [postgresLoads, beside] = subjects.map(({ loads }) => loads);
    const lines = kinds.map(({ row }) => lineOf(row, postgresLoads?.get(row), beside?.get(row)));
    const memory = `the process had ${peaks[0]} MB at most, with SQLite ${peaks[1]} MB`;
    return lines.map((line, index) =>
      index === lines.length - 1 ? { ...line, notes: [...(line.notes ?? []), memory] } : line,
    );
  },
};

function lineOf(
  row: string,
  postgresLoad: Subject["loads"] extends Map<string, infer L> ? L | undefined : never,
  sqlite = postgresLoad,
) {
  if (!postgresLoad || !sqlite) throw new Error(`${row} was not measured`);
  const each = (ms: number, { samples }: LoadSamples): number => ms / samples.length;
  const p99 = ({ samples }: LoadSamples): string => quantile(samples, 0.99).toFixed(1);
  const line: Line = {
    row,
    judged: median(postgresLoad.rates) / median(sqlite.rates),
    gantry: { samples: postgresLoad.rates, cpuMs: each(postgresLoad.cpuMs, postgresLoad) },
    floor: { samples: sqlite.rates, cpuMs: each(sqlite.cpuMs, sqlite) },
    notes: [
      `PostgreSQL's own CPU ${each(postgresLoad.storeCpuMs, postgresLoad).toFixed(2)} ms; p99 ${p99(postgresLoad)} ms, SQLite's ${p99(sqlite)} ms`,
    ],
  };
  return line;
}
