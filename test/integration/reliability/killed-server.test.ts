// Kills a server with SIGKILL at random moments of its streams. TRIALS and SEED extend and repeat the test.
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import Sqlite from "better-sqlite3";
import { retain, readPragma } from "../../../adapters/sqlite-driver/retained-objects.js";
import type { SessionDriver } from "gantry/plugin";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import type { FakeModelServer } from "../../helpers/fake-model-server.js";
import {
  runPrompt,
  startModelServer,
  createServerConfig,
  fetchMessages,
  startStreamedRun,
  waitUntil,
  type StreamedRun,
} from "../../helpers/server-runs.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { SERVER_STORES, createSessionConfig } from "../../helpers/server-stores.js";
import { tempDir } from "../../helpers/temp-dir.js";

const TRIAL_COUNT = Number(process.env["TRIALS"] ?? 1);
const STREAM_COUNT = 3;
/** Maximum count of numbers that a client reads from the first stored (or first received) number to the kill. */
const MAX_NUMBERS = 250;

/** One number per piece, so that a lost or repeated piece is visible. */
const NUMBER_PIECES = Array.from({ length: 2_000 }, (_, n) => `${n};`);

/** Opens the store of a server in this process. */
async function openStore(driver: string, session: Readonly<Record<string, unknown>>, home: string) {
  const { url, schema } = session as { url: string; schema: string };
  const storeOpeners: Record<string, () => Promise<SessionDriver>> = {
    sqlite: () => Promise.resolve(new SqliteDriver({ path: join(home, "sessions.db") })),
    postgres: async () => {
      const { PostgresDriver } = await import("gantry/adapters/postgres-driver");
      return new PostgresDriver({ url, schema, durability: "full" });
    },
  };
  const store = await storeOpeners[driver]!();
  await store.open();
  return store;
}

/** Returns the count of numbers in the stored answer of a session. */
async function countStoredNumbers(store: SessionDriver, sessionId: string): Promise<number> {
  const [, answer] = await store.messages(sessionId);
  const text = answer?.parts.map((part) => (part.type === "text" ? part.text : "")).join("") ?? "";
  return countNumbers(text);
}

/** Checks of the stored files after a kill, by driver. A driver without an entry has no check. */
const STORE_CHECKS: Record<string, (home: string) => Promise<void>> = {
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
  streams: StreamedRun[];
  answeredRuns: { sessionId: string; output: string }[];
  /** Count of numbers of each stream that were stored before the kill. */
  storedCounts: number[];
}

/** Returns the text of a stream that the client has received. */
const readText = ({ pieces }: StreamedRun): string => pieces.map(({ text }) => text).join("");
const countNumbers = (text: string): number => text.split(";").length - 1;

/**
 * Starts streams and short runs at the same time. Kills the server when the client has received `furtherCount` more
 * numbers. `isEarly`: the kill can happen before any answer is stored.
 */
async function runAndKill(
  server: GantryServer,
  modelServer: FakeModelServer,
  store: SessionDriver,
  { furtherCount, isEarly }: { furtherCount: number; isEarly: boolean },
): Promise<Trial> {
  modelServer.fallback = ({ body }) =>
    JSON.stringify(body).includes("numbers-from-0")
      ? // Time: the pace causes several batches between the first piece and the kill.
        { say: [{ text: NUMBER_PIECES }, { stall: true }], pace: 8 }
      : { say: [{ text: "Short." }] };
  const answeredRuns: Trial["answeredRuns"] = [];
  const streams = await Promise.all(
    Array.from({ length: STREAM_COUNT }, (_, n) => startStreamedRun(server, { message: `numbers-from-0, ${n}` })),
  );
  const sendShortRuns = async (): Promise<void> => {
    for (let n = 0; ; n++) {
      const answer = await runPrompt(server, { message: `short ${n}` });
      assert.equal(answer.status, 200, answer.error);
      answeredRuns.push(answer);
    }
  };
  const shortRuns = sendShortRuns().catch((error: unknown) => {
    if (error instanceof assert.AssertionError) throw error;
  });
  await waitUntil(() => answeredRuns.length > 0);
  const countStored = () => Promise.all(streams.map(({ sessionId }) => countStoredNumbers(store, sessionId)));
  // Text is stored in batches during the stream. The answers of these streams do not end before the kill.
  await Promise.all(streams.map((openStream) => openStream.waitForCharacters(1)));
  if (!isEarly) await waitUntil(async () => (await countStored()).every((storedCount) => storedCount > 0));
  const countReceived = () => countNumbers(readText(streams[0]!));
  const lastCount = Math.min(NUMBER_PIECES.length, countReceived() + furtherCount);
  await waitUntil(() => countReceived() >= lastCount);
  const storedCounts = await countStored();
  await server.stop("SIGKILL");
  await Promise.all([shortRuns, ...streams.map(({ ended }) => ended)]);
  return { streams, answeredRuns, storedCounts };
}

/** Checks the stored state after the restart. Returns the number of lost pieces per stream. */
async function checkStoredState(server: GantryServer, modelServer: FakeModelServer, trial: Trial): Promise<number[]> {
  for (const { sessionId, output } of trial.answeredRuns) {
    const messages = await fetchMessages(server, sessionId);
    assert.deepEqual(
      messages.at(-1),
      { ...messages.at(-1), role: "assistant", content: output },
      "each received answer is stored",
    );
  }
  const lostCounts: number[] = [];
  modelServer.fallback = { say: [{ text: "On." }] };
  for (const [n, trialStream] of trial.streams.entries()) {
    const messages = await fetchMessages(server, trialStream.sessionId);
    const receivedCount = countNumbers(readText(trialStream));
    const storedPieces = (messages[1]?.content ?? "").split(";").slice(0, -1);
    assert.deepEqual(
      storedPieces,
      NUMBER_PIECES.slice(0, storedPieces.length).map((piece) => piece.slice(0, -1)),
      "the pieces are stored in order, each once",
    );
    const storedBeforeKillCount = trial.storedCounts[n]!;
    assert.ok(
      storedPieces.length >= storedBeforeKillCount,
      `${storedPieces.length} of ${storedBeforeKillCount} that were stored before the kill`,
    );
    lostCounts.push(Math.max(0, receivedCount - storedPieces.length));
    assert.equal(messages[1]?.finished, messages[1] && false, "a partial answer is stored as unfinished");
    const nextAnswer = await runPrompt(server, { message: "go on", session_id: trialStream.sessionId });
    assert.deepEqual([nextAnswer.status, nextAnswer.output], [200, "On."], nextAnswer.error);
    const laterMessages = await fetchMessages(server, trialStream.sessionId);
    const unfinishedIds = laterMessages.filter(({ finished }) => finished === false).map(({ id }) => id);
    assert.deepEqual(
      unfinishedIds,
      messages[1] ? [messages[1].id] : [],
      "the partial answer stays unfinished after the next run",
    );
    const roles = laterMessages.map(({ role }) => role);
    const expectedRoles =
      storedPieces.length > 0 || messages.length > 1
        ? ["user", "assistant", "user", "assistant"]
        : ["user", "user", "assistant"];
    assert.deepEqual(roles, expectedRoles);
  }
  assert.deepEqual(modelServer.violations, []);
  return lostCounts;
}

describe("a server killed with SIGKILL during its streams", { concurrency: true }, () => {
  for (const driver of SERVER_STORES) {
    it(`${driver}: keeps answered runs and the stored stream text, and each session accepts a new prompt`, async (t) => {
      const seed = readSeed();
      t.diagnostic(`SEED=${seed} TRIALS=${TRIAL_COUNT}`);
      const random = createRandom(seed);
      const modelServer = await startModelServer(t);
      const home = await tempDir(t);
      const session = await createSessionConfig(driver);
      const options = { config: createServerConfig(modelServer, { session }), home: home.path };
      const allLostCounts: number[] = [];
      let server = await startServer(t, options);
      for (let trial = 0; trial < TRIAL_COUNT; trial++) {
        const store = await openStore(driver, session, home.path);
        const isEarly = trial % 2 === 1;
        const furtherCount = Math.floor(random() * (isEarly ? MAX_NUMBERS / 5 : MAX_NUMBERS));
        const outcome = await runAndKill(server, modelServer, store, { furtherCount, isEarly });
        await store.close();
        await STORE_CHECKS[driver]?.(home.path);
        server = await startServer(t, options);
        allLostCounts.push(...(await checkStoredState(server, modelServer, outcome)));
      }
      assert.doesNotMatch(server.stderr, / error /);
      assert.deepEqual(await server.stop(), { code: 0, signal: null });
      await STORE_CHECKS[driver]?.(home.path);
      t.diagnostic(`pieces of text lost by each stream: ${allLostCounts.join(" ")}`);
    });
  }
});
