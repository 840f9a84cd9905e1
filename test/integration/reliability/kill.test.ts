// Kills a server with SIGKILL at random moments of its streams. TRIALS and SEED extend and repeat the test.
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import Sqlite from "better-sqlite3";
import { retain, readPragma } from "../../../adapters/sqlite-driver/retained-objects.js";
import type { SessionDriver } from "gantry/plugin";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import type { FakeModelServer } from "../../helpers/fake-model-server.js";
import { ask, lab, labConfig, stored, stream, until, type Streamed } from "../../helpers/lab.js";
import { randomOf, seedOf } from "../../helpers/random.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { SERVER_STORES, sessionOn } from "../../helpers/server-stores.js";
import { tempDir } from "../../helpers/temp.js";

const TRIALS = Number(process.env["TRIALS"] ?? 1);
const STREAMS = 3;
/** Maximum numbers that a client reads between the first stored number (or the first that it reads) and the kill. */
const MAX_NUMBERS = 250;

/** One number per piece, so that a lost or repeated piece is visible. */
const NUMBERS = Array.from({ length: 2_000 }, (_, n) => `${n};`);

/** Opens the store of a server in this process. */
async function openStore(driver: string, session: Readonly<Record<string, unknown>>, home: string) {
  const { url, schema } = session as { url: string; schema: string };
  const open: Record<string, () => Promise<SessionDriver>> = {
    sqlite: () => Promise.resolve(new SqliteDriver({ path: join(home, "sessions.db") })),
    postgres: async () => {
      const { PostgresDriver } = await import("gantry/adapters/postgres-driver");
      return new PostgresDriver({ url, schema, durability: "full" });
    },
  };
  const store = await open[driver]!();
  await store.open();
  return store;
}

/** Count of numbers in the stored answer of a session. */
async function storedNumbers(store: SessionDriver, sessionId: string): Promise<number> {
  const [, answer] = await store.messages(sessionId);
  const text = answer?.parts.map((part) => (part.type === "text" ? part.text : "")).join("") ?? "";
  return numbersIn(text);
}

const CHECKS: Record<string, (home: string) => Promise<void>> = {
  sqlite: (home) => {
    const db = retain(new Sqlite(join(home, "sessions.db")));
    try {
      assert.equal(readPragma(db, "integrity_check"), "ok");
    } finally {
      db.close();
    }
    return Promise.resolve();
  },
};

interface Trial {
  streams: Streamed[];
  answered: { sessionId: string; output: string }[];
  /** Count of numbers of each stream that were stored before the kill. */
  stored: number[];
}

/** Text of a stream that the client has received. */
const textOf = ({ pieces }: Streamed): string => pieces.map(({ text }) => text).join("");
const numbersIn = (text: string): number => text.split(";").length - 1;

/**
 * Runs streams, and short runs beside them, until the server is killed after `numbers` further numbers. `early`: the
 * kill can happen before any answer is stored.
 */
async function runAndKill(
  server: GantryServer,
  models: FakeModelServer,
  store: SessionDriver,
  { numbers, early }: { numbers: number; early: boolean },
): Promise<Trial> {
  models.fallback = ({ body }) =>
    JSON.stringify(body).includes("numbers-from-0")
      ? // Time: the pace causes several batches between the first piece and the kill.
        { say: [{ text: NUMBERS }, { stall: true }], pace: 8 }
      : { say: [{ text: "Short." }] };
  const answered: Trial["answered"] = [];
  const streams = await Promise.all(
    Array.from({ length: STREAMS }, (_, n) => stream(server, { message: `numbers-from-0, ${n}` })),
  );
  const short = async (): Promise<void> => {
    for (let n = 0; ; n++) {
      const answer = await ask(server, { message: `short ${n}` });
      assert.equal(answer.status, 200, answer.error);
      answered.push(answer);
    }
  };
  const shortRuns = short().catch((error: unknown) => {
    if (error instanceof assert.AssertionError) throw error;
  });
  await until(() => answered.length > 0);
  const count = () => Promise.all(streams.map(({ sessionId }) => storedNumbers(store, sessionId)));
  // Text is stored in batches during the stream. The answers of these streams never end.
  await Promise.all(streams.map((streamed) => streamed.text(1)));
  if (!early) await until(async () => (await count()).every((stored) => stored > 0));
  const read = () => numbersIn(textOf(streams[0]!));
  const last = Math.min(NUMBERS.length, read() + numbers);
  await until(() => read() >= last);
  const stored = await count();
  await server.stop("SIGKILL");
  await Promise.all([shortRuns, ...streams.map(({ ended }) => ended)]);
  return { streams, answered, stored };
}

/** Checks what the next process finds. Returns the number of lost pieces per stream. */
async function checkAfter(server: GantryServer, models: FakeModelServer, trial: Trial): Promise<number[]> {
  for (const { sessionId, output } of trial.answered) {
    const messages = await stored(server, sessionId);
    assert.deepEqual(messages.at(-1), { ...messages.at(-1), role: "assistant", content: output }, "what was answered");
  }
  const lost: number[] = [];
  models.fallback = { say: [{ text: "On." }] };
  for (const [n, streamed] of trial.streams.entries()) {
    const messages = await stored(server, streamed.sessionId);
    const receivedCount = numbersIn(textOf(streamed));
    const storedPieces = (messages[1]?.content ?? "").split(";").slice(0, -1);
    assert.deepEqual(
      storedPieces,
      NUMBERS.slice(0, storedPieces.length).map((piece) => piece.slice(0, -1)),
      "in order, each once",
    );
    const storedBeforeKill = trial.stored[n]!;
    assert.ok(
      storedPieces.length >= storedBeforeKill,
      `${storedPieces.length} of ${storedBeforeKill} that were stored before the kill`,
    );
    lost.push(Math.max(0, receivedCount - storedPieces.length));
    assert.equal(messages[1]?.finished, messages[1] && false, "half an answer does not look like a whole one");
    const next = await ask(server, { message: "go on", session_id: streamed.sessionId });
    assert.deepEqual([next.status, next.output], [200, "On."], next.error);
    const after = await stored(server, streamed.sessionId);
    const unfinishedIds = after.filter(({ finished }) => finished === false).map(({ id }) => id);
    assert.deepEqual(unfinishedIds, messages[1] ? [messages[1].id] : [], "later neither");
    const roles = after.map(({ role }) => role);
    const expected =
      storedPieces.length > 0 || messages.length > 1
        ? ["user", "assistant", "user", "assistant"]
        : ["user", "user", "assistant"];
    assert.deepEqual(roles, expected);
  }
  assert.deepEqual(models.violations, []);
  return lost;
}

describe("a server killed with SIGKILL during its streams", { concurrency: true }, () => {
  for (const driver of SERVER_STORES) {
    it(`${driver}: keeps answered runs and the stored stream text, and each session accepts a new prompt`, async (t) => {
      const seed = seedOf();
      t.diagnostic(`SEED=${seed} TRIALS=${TRIALS}`);
      const random = randomOf(seed);
      const models = await lab(t);
      const home = await tempDir(t);
      const session = await sessionOn(driver);
      const options = { config: labConfig(models, { session }), home: home.path };
      const lost: number[] = [];
      let server = await startServer(t, options);
      for (let trial = 0; trial < TRIALS; trial++) {
        const store = await openStore(driver, session, home.path);
        const early = trial % 2 === 1;
        const numbers = Math.floor(random() * (early ? MAX_NUMBERS / 5 : MAX_NUMBERS));
        const outcome = await runAndKill(server, models, store, { numbers, early });
        await store.close();
        await CHECKS[driver]?.(home.path);
        server = await startServer(t, options);
        lost.push(...(await checkAfter(server, models, outcome)));
      }
      assert.doesNotMatch(server.stderr, / error /);
      assert.deepEqual(await server.stop(), { code: 0, signal: null });
      await CHECKS[driver]?.(home.path);
      t.diagnostic(`pieces of text lost by each stream: ${lost.join(" ")}`);
    });
  }
});
