// Rows for the traffic of a turn with PostgreSQL, for different lengths of history.
import type { Line, Scenario } from "./bench.js";
import { HttpClient } from "./http-client.js";
import { run } from "./http-rows.js";
import { CountingProxy, HINT, type Traffic } from "./pg-wire.js";
import { BenchDatabase, lacksPostgres } from "./postgres-server.js";
import { end } from "./processes.js";
import { median } from "./statistics.js";
import { filled } from "./store-rows.js";

/** Numbers of messages that a session has before the turn. */
const HISTORIES = [1, 100, 10_000] as const;
/** Bytes of one of these messages in a chat completions request, with the comma after it. */
const SENT = Buffer.byteLength('{"role":"assistant","content":"What is said as number 5000 of this conversation."},');

/** An answer at the speed of real models. */
const SLOW = { tokens: 200, seconds: 4, prompt: "[tokens=200 every=20]" };

/** Statement that a connection sends at most every 2 s, to ask whether the server accepts more connections. */
const CAPACITY_QUERY = "SELECT pg_backend_pid()";

/**
 * Statements that do not count as waits of a turn: hints, which nothing waits for, pages of messages for the model, and
 * the connections' own statements.
 */
const BESIDE: readonly string[] = [HINT, "messages", CAPACITY_QUERY];

/** `waited`: round trips without the statements in `BESIDE`. */
type Counted = Pick<Traffic, "roundTrips" | "sent" | "received"> & { waited: number; statements: string };

/** Summary of the counted turns: the median of each figure, and the most frequent statements. */
function middle(turns: readonly Traffic[]): Counted {
  const figure = (of: (turn: Traffic) => number): number => median(turns.map(of));
  const statementTexts = turns.map(({ statements }) => inWords(statements)).sort();
  const often = new Map(
    statementTexts.map((each) => [each, statementTexts.filter((statementText) => statementText === each).length]),
  );
  const [[statements = ""] = []] = [...often].sort(([, a], [, b]) => b - a);
  return {
    roundTrips: figure((turn) => turn.roundTrips),
    waited: figure((turn) => turn.roundTrips - turn.statements.filter((name) => BESIDE.includes(name)).length),
    sent: figure((turn) => turn.sent),
    received: figure((turn) => turn.received),
    statements,
  };
}

/** Formats statements, for example `get, lease, write, write; 2 x hint`. */
function inWords(statements: readonly string[]): string {
  const counted = new Map<string, number>();
  for (const name of statements) if (BESIDE.includes(name)) counted.set(name, (counted.get(name) ?? 0) + 1);
  const beside = [...counted].map(([name, count]) => `${count} x ${name}`);
  const waited = statements.filter((name) => !counted.has(name));
  return [waited.length > 12 ? `${waited.length} others` : waited.join(", "), ...beside].join("; ");
}

const bytesOf = ({ sent, received }: Counted): number => sent + received;

/** Waits until earlier work and deferred work of a turn are complete. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 200));

async function counted(proxy: CountingProxy, work: () => Promise<unknown>): Promise<Traffic> {
  await settled();
  proxy.take();
  await work();
  await settled();
  return proxy.take();
}

/**
 * Statements, round trips and bytes of a turn: on a session that this process used last, and on one that another
 * process used last.
 */
export const postgresTraffic: Scenario = {
  rows: ["pg-trips", "pg-trips-cold", "pg-bytes", "pg-bytes-cold"],
  lacks: lacksPostgres,
  async run(bench) {
    await using database = await BenchDatabase.create();
    const proxy = await CountingProxy.start(database.address);
    const project = bench.project();
    const groups = HISTORIES.map((messages) => `1x${messages}`);
    const ids = await filled(bench, "postgres", database.options(), project, groups);
    const measuredServer = await bench.serve(bench.home(database.session(proxy.port)), project);
    const elsewhere = await bench.serve(bench.home(database.session()), project);
    const clients = { measured: new HttpClient(measuredServer.base), elsewhere: new HttpClient(elsewhere.base) };
    const rounds = bench.rounds(7, 3);
    const warm: Counted[] = [];
    const cold: Counted[] = [];
    for (const id of ids) {
      const turns: Record<"warm" | "cold", Traffic[]> = { warm: [], cold: [] };
      await run(clients.measured, "hi", id);
      for (let n = 0; n < rounds; n++) {
        turns.warm.push(await counted(proxy, () => run(clients.measured, "hi", id)));
        await run(clients.elsewhere, "hi", id);
        turns.cold.push(await counted(proxy, () => run(clients.measured, "hi", id)));
      }
      warm.push(middle(turns.warm));
      cold.push(middle(turns.cold));
    }
    const fresh: Traffic[] = [];
    const streamed: Traffic[] = [];
    const [short = ""] = ids;
    for (let n = 0; n < rounds; n++) {
      fresh.push(await counted(proxy, () => run(clients.measured, "hi")));
      if (n < 3) streamed.push(await counted(proxy, () => run(clients.measured, SLOW.prompt, short)));
    }
    for (const client of Object.values(clients)) client.close();
    for (const { child } of [measuredServer, elsewhere]) await end(child);
    await proxy.close();
    return linesOf(warm, cold, middle(fresh), middle(streamed));
  },
};

function linesOf(warm: readonly Counted[], cold: readonly Counted[], fresh: Counted, slow: Counted): Line[] {
  const trips = (all: readonly Counted[]): number[] => all.map(({ waited }) => waited);
  const [few, many] = [cold.at(0), cold.at(-1)].map((each) => (each ? bytesOf(each) : NaN));
  const perMessage = ((many ?? NaN) - (few ?? NaN)) / ((HISTORIES.at(-1) ?? 0) - (HISTORIES.at(0) ?? 0));
  const bytes = warm.map(bytesOf);
  const describe = (all: readonly Counted[]): string[] =>
    all.map(
      ({ sent, received, roundTrips, statements }, index) =>
        `on ${HISTORIES[index]?.toLocaleString("en-US")}: ${roundTrips} round trips, ${sent.toLocaleString("en-US")} bytes there, ` +
        `${received.toLocaleString("en-US")} back: ${statements}`,
    );
  return [
    {
      row: "pg-trips",
      judged: Math.max(...trips(warm)),
      gantry: { samples: trips(warm) },
      notes: [
        ...describe(warm),
        `a fresh run, with the title: ${fresh.roundTrips} round trips, ${bytesOf(fresh).toLocaleString("en-US")} bytes: ${fresh.statements}`,
        `an answer of ${SLOW.tokens} tokens in ${SLOW.seconds} s: ${slow.roundTrips} round trips, ${bytesOf(slow).toLocaleString("en-US")} bytes: ${slow.statements}`,
      ],
    },
    { row: "pg-trips-cold", judged: Math.max(...trips(cold)), gantry: { samples: trips(cold) }, notes: describe(cold) },
    {
      row: "pg-bytes",
      judged: (bytes.at(-1) ?? NaN) / (bytes.at(0) ?? NaN),
      gantry: { samples: bytes.slice(-1) },
      floor: { samples: bytes.slice(0, 1) },
    },
    { row: "pg-bytes-cold", judged: perMessage / SENT, gantry: { samples: [perMessage] }, floor: { samples: [SENT] } },
  ];
}
