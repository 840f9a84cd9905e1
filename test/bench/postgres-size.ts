// `npm run bench:size -- [sessions]`: bytes of sessions, messages and runs in PostgreSQL's tables, indexes and log. It
// writes that many sessions of 12 to 20 messages, then adds a turn to each with the same writes as the kernel. Not part
// of the tests.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { Message, RunRecord, Session } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { asAdmin } from "../helpers/postgres.js";
import { ROOT } from "./bench.js";
import { BenchDatabase } from "./postgres-server.js";

const SESSIONS = Number(process.argv[2] ?? 100_000);
const MAX_CONCURRENT = 24;
const HOLDER = { id: "size", host: "bench", boot: "b", pid: 1, started: "1" };
/** Characters of a prompt, a call's arguments, a tool's result and an answer. */
const LENGTHS = { prompt: 200, call: 120, result: 2000, answer: 800 };

/** Prose and code of this repository, which compress like the texts that agents read and write. */
const TEXT = ["docs", "src/run", "src/tools", "src/watch"]
  .flatMap((folder) => readdirSync(path.join(ROOT, folder)).map((name) => path.join(ROOT, folder, name)))
  .filter((name) => /\.(md|ts)$/.test(name))
  .map((name) => readFileSync(name, "utf8"))
  .join("\n");
let place = 0;
function text(length: number): string {
  place = (place + 48_271) % (TEXT.length - length);
  return TEXT.slice(place, place + length);
}

const uuid = (kind: number, n: number): string =>
  `019376f0-${kind.toString(16).padStart(4, "0")}-7000-8000-${n.toString(16).padStart(12, "0")}`;
const at = (seconds: number): string => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const USAGE = { promptTokens: 4000, completionTokens: 200, totalTokens: 4200, cost: 0.0042 };

function session(n: number): Session {
  const id = uuid(1, n);
  const start = {
    id,
    alias: "",
    title: text(40),
    hasFinalTitle: true,
    provider: "openai",
    model: "gpt-5",
    reasoningEffort: "",
  };
  const where = {
    projectDir: `/srv/projects/team-${n % 500}`,
    parentId: "",
    spawnedBy: null,
    chain: { root: id, index: 0 },
    lastSeq: 0,
  };
  const otherFields = {
    mode: "auto",
    permissionGrants: [],
    rewinds: [],
    createdAt: at(n),
    updatedAt: at(n),
    usage: USAGE,
  };
  return { ...start, ...where, ...otherFields } as Session;
}

/** Messages of one turn: a prompt, a call, its result, an answer. */
function turn(sessionId: string, from: number, n: number): Message[] {
  const message = (seq: number, role: Message["role"], fields: Partial<Message>): Message => ({
    ...{ id: uuid(seq + 16, n), sessionId, seq, role, parts: [], toolCallId: "", name: "", failed: false },
    ...{ createdAt: at(n + seq), finished: true, ...fields },
  });
  const call = { type: "tool_call" as const, id: "call_0123456789abcdef01234567", name: "read" };
  return [
    message(from, "user", { parts: [{ type: "text", text: text(LENGTHS.prompt) }] }),
    message(from + 1, "assistant", {
      parts: [{ ...call, arguments: JSON.stringify({ path: text(LENGTHS.call) }) }],
    } as Partial<Message>),
    message(from + 2, "tool", {
      parts: [{ type: "text", text: text(LENGTHS.result) }],
      toolCallId: call.id,
      name: "read",
    }),
    message(from + 3, "assistant", { parts: [{ type: "text", text: text(LENGTHS.answer) }] }),
  ];
}

function run(sessionId: string, n: number, over: boolean): RunRecord {
  const identity = {
    id: uuid(2, n),
    sessionId,
    idempotencyKey: "",
    after: 0,
    fingerprint: "",
    provider: "openai",
    model: "gpt-5",
  };
  const times = { startedAt: at(n), endedAt: over ? at(n + 5) : "", usage: USAGE, iterations: 2 };
  const end = { state: over ? "finished" : "running", endedBy: over ? "model" : "", error: null, queueLease: null };
  return { ...identity, ...times, ...end, retry: null, answer: null } as RunRecord;
}

async function all(count: number, work: (n: number) => Promise<unknown>): Promise<number> {
  const since = performance.now();
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, worker));
  return (performance.now() - since) / 1000;
}

const turnsOf = (n: number): number => 3 + (n % 3);

/** Creates a session with all messages except the last turn. */
async function load(driver: SessionDriver, n: number): Promise<void> {
  const start = session(n);
  const messages = Array.from({ length: turnsOf(n) - 1 }, (_, each) => turn(start.id, 1 + each * 4, n)).flat();
  await driver.create({ session: start, messages, sync: false, run: run(start.id, n * 2, true) });
}

/** Adds the last turn with the writes of a run: the prompt, the call, its result, the answer. */
async function live(driver: SessionDriver, n: number): Promise<void> {
  const id = uuid(1, n);
  const from = 1 + (turnsOf(n) - 1) * 4;
  const [prompt, call, result, answer] = turn(id, from, n) as [Message, Message, Message, Message];
  const lease = await driver.lease(id, { ...HOLDER, id: `${HOLDER.id}-${n}` }, 30_000, { head: { messages: true } });
  if ("heldBy" in lease) throw new Error(`${id} is held`);
  const { fence } = lease;
  const begun = run(id, n * 2 + 1, false);
  const over = run(id, n * 2 + 1, true);
  await driver.write(id, { fence, sync: true, add: [prompt], runs: [begun], set: { updatedAt: at(1e6 + n) } });
  await driver.write(id, { fence, sync: true, add: [call], runs: [begun], usage: USAGE });
  await driver.write(id, { fence, sync: true, add: [result] });
  const set = { updatedAt: at(1e6 + n + 5) };
  await driver.write(id, { fence, sync: true, add: [answer], runs: [over], usage: USAGE, set, release: true });
}

await using database = await BenchDatabase.create({ shared_buffers: "512MB", max_wal_size: "4GB" });
const { schema, url } = database;

const driver = new PostgresDriver(database.options(MAX_CONCURRENT) as never);
await driver.open();

const print = (line: string): boolean => process.stdout.write(`${line}\n`);
const wal = async (): Promise<number> =>
  Number((await asAdmin(url, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 AS at"))[0]?.at);

async function sizes(per: Record<string, number>): Promise<void> {
  const rows = await asAdmin(
    url,
    `ANALYZE`,
    `SELECT c.relname AS name, t.relname AS of, pg_relation_size(c.oid)::float8 AS bytes,
       COALESCE(pg_total_relation_size(NULLIF(c.reltoastrelid, 0)), 0)::float8 AS toast, s.n_live_tup::float8 AS live, s.n_dead_tup::float8 AS dead,
       CASE WHEN s.n_tup_upd > 0 THEN s.n_tup_hot_upd::float8 / s.n_tup_upd END AS hot, s.autovacuum_count::int AS vacuums
     FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid JOIN pg_class t ON t.oid = COALESCE(i.indrelid, c.oid)
     LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
     WHERE c.relnamespace = '${schema}'::regnamespace AND c.relkind IN ('r', 'i') ORDER BY t.relname, i.indexrelid NULLS FIRST, c.relname`,
  );
  let total = 0;
  for (const { name, of, bytes, toast, live, dead, hot, vacuums } of rows as Record<string, number>[]) {
    total += Number(bytes) + Number(toast ?? 0);
    if (Number(bytes) + Number(toast ?? 0) < 64 * 1024) continue;
    const mb = ((Number(bytes) + Number(toast ?? 0)) / 1e6).toFixed(1).padStart(8);
    const isTable = String(name) === String(of);
    const each = per[String(of)];
    const figures = [
      each ? `${((Number(bytes) + Number(toast ?? 0)) / each).toFixed(0)} B each` : "",
      isTable && Number(live) ? `${live} rows, ${dead} dead` : "",
      isTable && Number(toast) ? `of it TOAST ${(Number(toast) / 1e6).toFixed(1)} MB` : "",
      isTable && hot !== null && hot !== undefined ? `HOT ${(Number(hot) * 100).toFixed(0)} %` : "",
      isTable && Number(vacuums) ? `${vacuums} autovacuums` : "",
    ];
    print(`${mb} MB  ${isTable ? "" : "  "}${name}  ${figures.filter(Boolean).join("; ")}`);
  }
  print(`${(total / 1e6).toFixed(1).padStart(8)} MB  in all, ${(total / SESSIONS).toFixed(0)} B a session`);
}

const counts = async (): Promise<Record<string, number>> => {
  const [row] = await asAdmin(
    url,
    `SELECT (SELECT count(*) FROM ${schema}.messages)::float8 AS messages, (SELECT count(*) FROM ${schema}.runs)::float8 AS runs`,
  );
  return {
    sessions: SESSIONS,
    names: SESSIONS,
    chains: SESSIONS,
    messages: Number(row?.messages),
    runs: Number(row?.runs),
  };
};

for (const [title, work] of [
  ["written", load],
  ["lived one turn more", live],
] as const) {
  const [from, cpu] = [await wal(), database.cpu()];
  const seconds = await all(SESSIONS, (n) => work(driver, n));
  const bytes = (await wal()) - from;
  const each = ((database.cpu() - cpu) / SESSIONS).toFixed(2);
  print(
    `\n${SESSIONS} sessions ${title}: ${(SESSIONS / seconds).toFixed(0)} a second, log ${(bytes / SESSIONS).toFixed(0)} B each, server's CPU ${each} ms each`,
  );
  await sizes(await counts());
}
const bodySizes = await asAdmin(
  url,
  `SELECT avg(octet_length(body))::float8 AS body, sum(octet_length(body))::float8 AS total FROM ${schema}.messages`,
);
print(
  `\na message's body as JSON: ${Number(bodySizes[0]?.body).toFixed(0)} B in the middle; all ${(Number(bodySizes[0]?.total) / 1e6).toFixed(1)} MB`,
);
await driver.close();
