// `npm run bench:size -- [sessions]`: bytes of sessions, messages and runs in PostgreSQL's tables, indexes and log.
// Writes `sessions` sessions of 8 to 16 messages, then adds a turn to each session with the same writes as the kernel.
// Not part of the tests.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { Message, RunRecord, Session } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { runAsAdmin } from "../helpers/postgres.js";
import { ROOT } from "./bench.js";
import { BenchDatabase } from "./postgres-server.js";

const SESSION_COUNT = Number(process.argv[2] ?? 100_000);
const MAX_CONCURRENT_SESSIONS = 24;
/** Smaller tables and indexes are not printed. */
const MIN_PRINTED_BYTES = 64 * 1024;
const HOLDER = { id: "size", host: "bench", boot: "b", pid: 1, started: "1" };
/** Characters of a prompt, a call's arguments, a tool's result and an answer. */
const TEXT_CHARACTERS = { prompt: 200, call: 120, result: 2000, answer: 800 };

/** Prose and code of this repository, which compress like the texts that agents read and write. */
const TEXT = ["docs", "src/run", "src/tools", "src/watch"]
  .flatMap((folder) => readdirSync(path.join(ROOT, folder)).map((name) => path.join(ROOT, folder, name)))
  .filter((name) => /\.(md|ts)$/.test(name))
  .map((name) => readFileSync(name, "utf8"))
  .join("\n");
let textOffset = 0;
function takeText(length: number): string {
  // A prime step, so that texts at consecutive calls differ.
  textOffset = (textOffset + 48_271) % (TEXT.length - length);
  return TEXT.slice(textOffset, textOffset + length);
}

const createId = (kind: number, n: number): string =>
  `019376f0-${kind.toString(16).padStart(4, "0")}-7000-8000-${n.toString(16).padStart(12, "0")}`;
const formatTime = (seconds: number): string => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const USAGE = { promptTokens: 4000, completionTokens: 200, totalTokens: 4200, cost: 0.0042 };

function createSession(n: number): Session {
  const id = createId(1, n);
  const identity = {
    id,
    alias: "",
    title: takeText(40),
    hasFinalTitle: true,
    provider: "openai",
    model: "gpt-5",
    reasoningEffort: "",
  };
  const location = {
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
    createdAt: formatTime(n),
    updatedAt: formatTime(n),
    usage: USAGE,
  };
  return { ...identity, ...location, ...otherFields } as Session;
}

/** Creates the messages of one turn: a prompt, a call, its result, an answer. */
function createTurn(sessionId: string, firstSeq: number, n: number): Message[] {
  const createMessage = (seq: number, role: Message["role"], fields: Partial<Message>): Message => ({
    ...{ id: createId(seq + 16, n), sessionId, seq, role, parts: [], toolCallId: "", name: "", failed: false },
    ...{ createdAt: formatTime(n + seq), finished: true, ...fields },
  });
  const call = { type: "tool_call" as const, id: "call_0123456789abcdef01234567", name: "read" };
  return [
    createMessage(firstSeq, "user", { parts: [{ type: "text", text: takeText(TEXT_CHARACTERS.prompt) }] }),
    createMessage(firstSeq + 1, "assistant", {
      parts: [{ ...call, arguments: JSON.stringify({ path: takeText(TEXT_CHARACTERS.call) }) }],
    } as Partial<Message>),
    createMessage(firstSeq + 2, "tool", {
      parts: [{ type: "text", text: takeText(TEXT_CHARACTERS.result) }],
      toolCallId: call.id,
      name: "read",
    }),
    createMessage(firstSeq + 3, "assistant", { parts: [{ type: "text", text: takeText(TEXT_CHARACTERS.answer) }] }),
  ];
}

function createRun(sessionId: string, n: number, isEnded: boolean): RunRecord {
  const identity = {
    id: createId(2, n),
    sessionId,
    idempotencyKey: "",
    after: 0,
    fingerprint: "",
    provider: "openai",
    model: "gpt-5",
  };
  const times = { startedAt: formatTime(n), endedAt: isEnded ? formatTime(n + 5) : "", usage: USAGE, iterations: 2 };
  const outcome = {
    state: isEnded ? "finished" : "running",
    endedBy: isEnded ? "model" : "",
    error: null,
    queueLease: null,
  };
  return { ...identity, ...times, ...outcome, retry: null, answer: null } as RunRecord;
}

async function runConcurrently(count: number, runJob: (n: number) => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  let nextIndex = 0;
  const worker = async (): Promise<void> => {
    while (nextIndex < count) await runJob(nextIndex++);
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT_SESSIONS }, worker));
  return (performance.now() - startMs) / 1000;
}

const getTurnCount = (n: number): number => 3 + (n % 3);

/** Creates a session with all messages except the last turn. */
async function writeStoredSession(driver: SessionDriver, n: number): Promise<void> {
  const session = createSession(n);
  const messages = Array.from({ length: getTurnCount(n) - 1 }, (_, turnIndex) =>
    createTurn(session.id, 1 + turnIndex * 4, n),
  ).flat();
  await driver.create({ session, messages, sync: false, run: createRun(session.id, n * 2, true) });
}

/** Adds the last turn with the writes of a run: the prompt, the call, its result, the answer. */
async function addTurn(driver: SessionDriver, n: number): Promise<void> {
  const id = createId(1, n);
  const firstSeq = 1 + (getTurnCount(n) - 1) * 4;
  const [prompt, call, result, answer] = createTurn(id, firstSeq, n) as [Message, Message, Message, Message];
  const lease = await driver.lease(id, { ...HOLDER, id: `${HOLDER.id}-${n}` }, 30_000, { head: { messages: true } });
  if ("heldBy" in lease) throw new Error(`${id} is held`);
  const { fence } = lease;
  const activeRun = createRun(id, n * 2 + 1, false);
  const endedRun = createRun(id, n * 2 + 1, true);
  await driver.write(id, {
    fence,
    sync: true,
    add: [prompt],
    runs: [activeRun],
    set: { updatedAt: formatTime(1e6 + n) },
  });
  await driver.write(id, { fence, sync: true, add: [call], runs: [activeRun], usage: USAGE });
  await driver.write(id, { fence, sync: true, add: [result] });
  const set = { updatedAt: formatTime(1e6 + n + 5) };
  await driver.write(id, { fence, sync: true, add: [answer], runs: [endedRun], usage: USAGE, set, release: true });
}

await using database = await BenchDatabase.create({ shared_buffers: "512MB", max_wal_size: "4GB" });
const { schema, url } = database;

const driver = new PostgresDriver(database.createDriverOptions(MAX_CONCURRENT_SESSIONS) as never);
await driver.open();

const print = (line: string): boolean => process.stdout.write(`${line}\n`);
const readLogBytes = async (): Promise<number> =>
  Number((await runAsAdmin(url, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 AS at"))[0]?.at);

async function printSizes(rowCounts: Record<string, number>): Promise<void> {
  const rows = await runAsAdmin(
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
    if (Number(bytes) + Number(toast ?? 0) < MIN_PRINTED_BYTES) continue;
    const mb = ((Number(bytes) + Number(toast ?? 0)) / 1e6).toFixed(1).padStart(8);
    const isTable = String(name) === String(of);
    const rowCount = rowCounts[String(of)];
    const notes = [
      rowCount ? `${((Number(bytes) + Number(toast ?? 0)) / rowCount).toFixed(0)} B each` : "",
      isTable && Number(live) ? `${live} rows, ${dead} dead` : "",
      isTable && Number(toast) ? `of these TOAST ${(Number(toast) / 1e6).toFixed(1)} MB` : "",
      isTable && hot !== null && hot !== undefined ? `HOT ${(Number(hot) * 100).toFixed(0)} %` : "",
      isTable && Number(vacuums) ? `${vacuums} autovacuums` : "",
    ];
    print(`${mb} MB  ${isTable ? "" : "  "}${name}  ${notes.filter(Boolean).join("; ")}`);
  }
  print(`${(total / 1e6).toFixed(1).padStart(8)} MB  in total, ${(total / SESSION_COUNT).toFixed(0)} B a session`);
}

const countRows = async (): Promise<Record<string, number>> => {
  const [row] = await runAsAdmin(
    url,
    `SELECT (SELECT count(*) FROM ${schema}.messages)::float8 AS messages, (SELECT count(*) FROM ${schema}.runs)::float8 AS runs`,
  );
  return {
    sessions: SESSION_COUNT,
    names: SESSION_COUNT,
    chains: SESSION_COUNT,
    messages: Number(row?.messages),
    runs: Number(row?.runs),
  };
};

for (const [title, processSession] of [
  ["written", writeStoredSession],
  ["extended by one turn", addTurn],
] as const) {
  const [logBytesBefore, cpuMsBefore] = [await readLogBytes(), database.readCpuMs()];
  const seconds = await runConcurrently(SESSION_COUNT, (n) => processSession(driver, n));
  const bytes = (await readLogBytes()) - logBytesBefore;
  const cpuMsEach = ((database.readCpuMs() - cpuMsBefore) / SESSION_COUNT).toFixed(2);
  print(
    `\n${SESSION_COUNT} sessions ${title}: ${(SESSION_COUNT / seconds).toFixed(0)} a second, log ${(bytes / SESSION_COUNT).toFixed(0)} B each, server's CPU ${cpuMsEach} ms each`,
  );
  await printSizes(await countRows());
}
const bodySizes = await runAsAdmin(
  url,
  `SELECT avg(octet_length(body))::float8 AS body, sum(octet_length(body))::float8 AS total FROM ${schema}.messages`,
);
print(
  `\na message's body as JSON: ${Number(bodySizes[0]?.body).toFixed(0)} B on average; all ${(Number(bodySizes[0]?.total) / 1e6).toFixed(1)} MB`,
);
await driver.close();
