// Rows for the traffic of a turn with PostgreSQL, for different lengths of history.
import type { RowMeasurement, Scenario } from "./bench.js";
import { HttpClient } from "./http-client.js";
import { runPrompt } from "./http-rows.js";
import { CountingProxy, HINT, type Traffic } from "./pg-wire.js";
import { BenchDatabase, getPostgresSkipReason } from "./postgres-server.js";
import { endProcess } from "./processes.js";
import { median } from "./statistics.js";
import { fillStore } from "./store-rows.js";

/** Numbers of messages that a session has before the turn. */
const HISTORY_LENGTHS = [1, 100, 10_000] as const;
/** Bytes of one of these messages in a chat completions request, with the comma after it. */
const REQUEST_MESSAGE_BYTES = Buffer.byteLength(
  '{"role":"assistant","content":"What is said as number 5000 of this conversation."},',
);

/** An answer at the speed of real models. */
const SLOW_ANSWER = { tokens: 200, seconds: 4, prompt: "[tokens=200 every=20]" };

/** Statement that a connection sends at most every 2 s, to ask whether the server accepts more connections. */
const CAPACITY_QUERY = "SELECT pg_backend_pid()";

/**
 * Statements that do not count as waits of a turn: hints, which nothing waits for, pages of messages for the model, and
 * the connections' own statements.
 */
const UNCOUNTED_STATEMENTS: readonly string[] = [HINT, "messages", CAPACITY_QUERY];

/** `waitCount`: round trips without those of `UNCOUNTED_STATEMENTS`. */
type TrafficSummary = Pick<Traffic, "roundTrips" | "sentBytes" | "receivedBytes"> & {
  waitCount: number;
  statements: string;
};

/** Summarizes the counted turns: the median of each figure, and the most frequent statements. */
function summarizeTurns(turns: readonly Traffic[]): TrafficSummary {
  const medianOf = (readFigure: (turn: Traffic) => number): number => median(turns.map(readFigure));
  const texts = turns.map(({ statements }) => formatStatements(statements)).sort();
  const countsByText = new Map(texts.map((text) => [text, texts.filter((otherText) => otherText === text).length]));
  const [[statements = ""] = []] = [...countsByText].sort(([, a], [, b]) => b - a);
  return {
    roundTrips: medianOf((turn) => turn.roundTrips),
    waitCount: medianOf(
      (turn) => turn.roundTrips - turn.statements.filter((name) => UNCOUNTED_STATEMENTS.includes(name)).length,
    ),
    sentBytes: medianOf((turn) => turn.sentBytes),
    receivedBytes: medianOf((turn) => turn.receivedBytes),
    statements,
  };
}

/** Formats statements, for example `get, lease, write, write; 2 x hint`. */
function formatStatements(statements: readonly string[]): string {
  const uncountedCounts = new Map<string, number>();
  for (const name of statements)
    if (UNCOUNTED_STATEMENTS.includes(name)) uncountedCounts.set(name, (uncountedCounts.get(name) ?? 0) + 1);
  const uncountedTexts = [...uncountedCounts].map(([name, count]) => `${count} x ${name}`);
  const countedStatements = statements.filter((name) => !uncountedCounts.has(name));
  return [
    countedStatements.length > 12 ? `${countedStatements.length} others` : countedStatements.join(", "),
    ...uncountedTexts,
  ].join("; ");
}

const sumBytes = ({ sentBytes, receivedBytes }: TrafficSummary): number => sentBytes + receivedBytes;

/** Waits 200 ms, in which earlier work and deferred work of a turn complete. */
const waitForDeferredWork = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 200));

async function measureTraffic(proxy: CountingProxy, operation: () => Promise<unknown>): Promise<Traffic> {
  await waitForDeferredWork();
  proxy.takeTraffic();
  await operation();
  await waitForDeferredWork();
  return proxy.takeTraffic();
}

/**
 * Statements, round trips and bytes of a turn: on a session that the measured server used last (warm), and on a session
 * that another server used last (cold).
 */
export const postgresTraffic: Scenario = {
  rows: ["pg-trips", "pg-trips-cold", "pg-bytes", "pg-bytes-cold"],
  getSkipReason: getPostgresSkipReason,
  async run(bench) {
    await using database = await BenchDatabase.create();
    const proxy = await CountingProxy.start(database.address);
    const project = bench.createProject();
    const groups = HISTORY_LENGTHS.map((messages) => `1x${messages}`);
    const ids = await fillStore(bench, "postgres", database.createDriverOptions(), project, groups);
    const measuredServer = await bench.startServer(bench.createHome(database.createSessionConfig(proxy.port)), project);
    const otherServer = await bench.startServer(bench.createHome(database.createSessionConfig()), project);
    const clients = { measured: new HttpClient(measuredServer.baseUrl), other: new HttpClient(otherServer.baseUrl) };
    const rounds = bench.getRounds(7, 3);
    const warmSummaries: TrafficSummary[] = [];
    const coldSummaries: TrafficSummary[] = [];
    for (const id of ids) {
      const turns: Record<"warm" | "cold", Traffic[]> = { warm: [], cold: [] };
      await runPrompt(clients.measured, "hi", id);
      for (let n = 0; n < rounds; n++) {
        turns.warm.push(await measureTraffic(proxy, () => runPrompt(clients.measured, "hi", id)));
        await runPrompt(clients.other, "hi", id);
        turns.cold.push(await measureTraffic(proxy, () => runPrompt(clients.measured, "hi", id)));
      }
      warmSummaries.push(summarizeTurns(turns.warm));
      coldSummaries.push(summarizeTurns(turns.cold));
    }
    const freshRuns: Traffic[] = [];
    const streamedRuns: Traffic[] = [];
    const [shortSessionId = ""] = ids;
    for (let n = 0; n < rounds; n++) {
      freshRuns.push(await measureTraffic(proxy, () => runPrompt(clients.measured, "hi")));
      if (n < 3)
        streamedRuns.push(
          await measureTraffic(proxy, () => runPrompt(clients.measured, SLOW_ANSWER.prompt, shortSessionId)),
        );
    }
    for (const client of Object.values(clients)) client.close();
    for (const { child } of [measuredServer, otherServer]) await endProcess(child);
    await proxy.close();
    return createMeasurements(warmSummaries, coldSummaries, summarizeTurns(freshRuns), summarizeTurns(streamedRuns));
  },
};

function createMeasurements(
  warmSummaries: readonly TrafficSummary[],
  coldSummaries: readonly TrafficSummary[],
  freshSummary: TrafficSummary,
  slowSummary: TrafficSummary,
): RowMeasurement[] {
  const listWaitCounts = (summaries: readonly TrafficSummary[]): number[] =>
    summaries.map(({ waitCount }) => waitCount);
  const [shortHistoryBytes, longHistoryBytes] = [coldSummaries.at(0), coldSummaries.at(-1)].map((summary) =>
    summary ? sumBytes(summary) : NaN,
  );
  const bytesPerMessage =
    ((longHistoryBytes ?? NaN) - (shortHistoryBytes ?? NaN)) /
    ((HISTORY_LENGTHS.at(-1) ?? 0) - (HISTORY_LENGTHS.at(0) ?? 0));
  const bytes = warmSummaries.map(sumBytes);
  const formatNotes = (summaries: readonly TrafficSummary[]): string[] =>
    summaries.map(
      ({ sentBytes, receivedBytes, roundTrips, statements }, index) =>
        `on ${HISTORY_LENGTHS[index]?.toLocaleString("en-US")}: ${roundTrips} round trips, ${sentBytes.toLocaleString("en-US")} bytes there, ` +
        `${receivedBytes.toLocaleString("en-US")} back: ${statements}`,
    );
  return [
    {
      row: "pg-trips",
      comparedValue: Math.max(...listWaitCounts(warmSummaries)),
      gantry: { samples: listWaitCounts(warmSummaries) },
      notes: [
        ...formatNotes(warmSummaries),
        `a fresh run, with the title: ${freshSummary.roundTrips} round trips, ${sumBytes(freshSummary).toLocaleString("en-US")} bytes: ${freshSummary.statements}`,
        `an answer of ${SLOW_ANSWER.tokens} tokens in ${SLOW_ANSWER.seconds} s: ${slowSummary.roundTrips} round trips, ${sumBytes(slowSummary).toLocaleString("en-US")} bytes: ${slowSummary.statements}`,
      ],
    },
    {
      row: "pg-trips-cold",
      comparedValue: Math.max(...listWaitCounts(coldSummaries)),
      gantry: { samples: listWaitCounts(coldSummaries) },
      notes: formatNotes(coldSummaries),
    },
    {
      row: "pg-bytes",
      comparedValue: (bytes.at(-1) ?? NaN) / (bytes.at(0) ?? NaN),
      gantry: { samples: bytes.slice(-1) },
      floor: { samples: bytes.slice(0, 1) },
    },
    {
      row: "pg-bytes-cold",
      comparedValue: bytesPerMessage / REQUEST_MESSAGE_BYTES,
      gantry: { samples: [bytesPerMessage] },
      floor: { samples: [REQUEST_MESSAGE_BYTES] },
    },
  ];
}
