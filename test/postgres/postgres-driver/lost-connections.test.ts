import assert from "node:assert/strict";
import { it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import {
  acquireLease,
  answerAsk,
  releaseLease,
  sendInstruction,
  withdrawInstruction,
} from "../../../src/testing/session-driver/driver-calls.js";
import {
  aGrowingMessage,
  aMessage,
  anAsk,
  anInstruction,
  aResolution,
  aRun,
  aSession,
  change,
  joinParts,
} from "../../../src/testing/session-driver/records.js";
import { NO_POSTGRES, createPostgresSchema } from "../../helpers/postgres.js";
import { createRandom } from "../../helpers/random.js";
import { postgresOptions } from "../../helpers/stores.js";
import { TcpProxy } from "../../helpers/tcp-proxy.js";
import type { Hooks } from "../../helpers/temp-dir.js";
import { pause } from "../../helpers/server-runs.js";

const needsPostgres = { skip: NO_POSTGRES };
const MIN_CUTS = 200;
const CHAIN_COUNT = 6;
/** Number of client messages before the login is complete. The next message is a statement. */
const LOGIN_MESSAGES = 3;
/**
 * Minimum number of client messages between two cuts. With a time limit alone, no statement would succeed on a slow machine.
 */
const MIN_MESSAGES_BETWEEN_CUTS = 2;

/** A driver that connects through a proxy, and a driver that connects directly. */
async function openDrivers(
  hooks: Hooks,
): Promise<{ proxy: TcpProxy; proxiedDriver: PostgresDriver; directDriver: PostgresDriver }> {
  const cleanups: (() => Promise<void> | void)[] = [];
  const storeHooks: Hooks = { after: (cleanup) => void cleanups.push(cleanup) };
  const address = await createPostgresSchema(storeHooks);
  const proxy = await TcpProxy.startBefore(storeHooks, address.url);
  const directDriver = new PostgresDriver(postgresOptions(address));
  const proxiedDriver = new PostgresDriver(postgresOptions({ ...address, url: proxy.toProxyUrl(address.url) }));
  hooks.after(async () => {
    await proxiedDriver.close();
    await directDriver.close();
    for (const cleanup of cleanups) await cleanup();
  });
  await directDriver.open();
  await proxiedDriver.open();
  return { proxy, proxiedDriver, directDriver };
}

const TURN_USAGE = { promptTokens: 1, completionTokens: 2, totalTokens: 3, cost: 0.25 };

it("PostgresDriver loses no change and applies none twice while its connections are cut", needsPostgres, async (t) => {
  const { proxy, proxiedDriver: driver, directDriver } = await openDrivers(t);
  const random = createRandom(Number(process.env.SEED ?? 12));
  let isDone = false;
  const cutLoop = (async () => {
    while (!isDone) {
      // Sometimes cuts a connection during its login, but only if another connection is logged in: otherwise the server
      // would look unreachable.
      const isDuringLogin = random() >= 0.95 && proxy.countActive(LOGIN_MESSAGES) > 0;
      proxy.cutOne(random() < 0.5 ? "question" : "answer", random, isDuringLogin ? 0 : LOGIN_MESSAGES);
      const nextCutPieceCount = proxy.forwardedPieces + MIN_MESSAGES_BETWEEN_CUTS;
      // Time: the seed decides at which statements the cuts happen.
      do await pause(random() * 8);
      while (!isDone && proxy.forwardedPieces < nextCutPieceCount);
    }
  })();

  /** Changes one chain and asserts its final state. */
  const runTurns = async (id: string) => {
    await driver.create({ session: aSession(id, { alias: `alias of ${id}` }) });
    const acknowledgedState = { turnCount: 0, steerIds: [] as string[], deletedCount: 0, fences: [] as number[] };
    while (proxy.cutCount < MIN_CUTS) {
      const turn = acknowledgedState.turnCount++;
      const fence = (await acquireLease(driver, id, `holder ${turn}`)).fence;
      acknowledgedState.fences.push(fence);
      const [completeSeq, growingSeq] = [turn * 2 + 1, turn * 2 + 2];
      const run = aRun(`run ${turn} of ${id}`, id, { idempotencyKey: `key ${turn} of ${id}` });
      await driver.write(id, {
        fence,
        sync: true,
        usage: TURN_USAGE,
        add: [aMessage(id, completeSeq), aGrowingMessage(id, growingSeq)],
        runs: [run],
      });
      for (let n = 0; n < 3; n++) {
        const append = [{ messageId: `${id}-${growingSeq}`, part: 0, type: "text" as const, text: `${n};` }];
        await driver.write(id, { fence, sync: false, append });
      }
      const steer = `steer ${turn} of ${id}`;
      await sendInstruction(driver, anInstruction(steer, id));
      await sendInstruction(driver, anInstruction(`taken back ${turn} of ${id}`, id));
      assert.equal(await withdrawInstruction(driver, id, `taken back ${turn} of ${id}`), true);
      assert.equal(await withdrawInstruction(driver, id, `never ${turn} of ${id}`), false);
      const ask = `ask ${turn} of ${id}`;
      await driver.write(id, { fence, sync: true, asks: [anAsk(ask, id)] });
      assert.equal((await answerAsk(driver, id, ask, aResolution("allow", `first ${turn}`)))?.isAccepted, true);
      assert.equal((await answerAsk(driver, id, ask, aResolution("reject")))?.isAccepted, false);
      const endedRun = { ...run, state: "finished" as const, endedAt: run.startedAt };
      const consumedIds = acknowledgedState.steerIds.splice(0);
      if (turn % 2 === 0) {
        const result = await driver.write(id, {
          fence,
          sync: true,
          runs: [endedRun],
          consumedInstructions: consumedIds,
          release: true,
        });
        assert.deepEqual(result.consumedInstructions, consumedIds);
        assert.deepEqual(
          result.instructions.map((instruction) => instruction.id),
          [steer],
        );
      } else {
        await driver.write(id, { fence, sync: true, runs: [endedRun], consumedInstructions: consumedIds });
        await releaseLease(driver, { rootId: id, fence });
      }
      acknowledgedState.steerIds.push(steer);
      const shortChainId = `${id} for turn ${turn}`;
      await driver.create({ session: aSession(shortChainId), messages: [aMessage(shortChainId, 1)] });
      await driver.write(shortChainId, change({ usage: TURN_USAGE }));
      if (turn % 3 > 0) {
        await driver.delete([shortChainId]);
        acknowledgedState.deletedCount++;
      }
    }
    return acknowledgedState;
  };

  const ids = Array.from({ length: CHAIN_COUNT }, (_, n) => `chain ${n}`);
  try {
    const finalStates = await Promise.all(ids.map(async (id) => [id, await runTurns(id)] as const));
    isDone = true;
    await cutLoop;
    let sessionCount = 0;
    for (const [id, { turnCount, steerIds, deletedCount, fences }] of finalStates) {
      sessionCount += 1 + turnCount - deletedCount;
      assert.deepEqual(
        fences,
        [...new Set(fences)].sort((a, b) => a - b),
      );
      const messages = await directDriver.messages(id);
      assert.deepEqual(
        messages.map(({ seq }) => seq),
        Array.from({ length: turnCount * 2 }, (_, n) => n + 1),
      );
      for (const message of messages.filter(({ role }) => role === "assistant"))
        assert.equal(joinParts(message), "0;1;2;");
      const session = await directDriver.get(id);
      assert.deepEqual(session?.usage, {
        promptTokens: turnCount,
        completionTokens: 2 * turnCount,
        totalTokens: 3 * turnCount,
        cost: turnCount / 4,
      });
      const runs = await directDriver.runs({ sessionId: id, limit: 10_000 });
      assert.deepEqual(
        runs.map(({ run, holder }) => [run.state, holder]),
        Array.from({ length: turnCount }, () => ["finished", null]),
      );
      const asks = await directDriver.asks({ sessionId: id, limit: 10_000 });
      assert.deepEqual(
        asks.map(({ answeredBy }) => answeredBy).sort(),
        Array.from({ length: turnCount }, (_, n) => `first ${n}`).sort(),
      );
      assert.deepEqual(
        (await directDriver.instructions(id)).map((instruction) => instruction.id),
        steerIds,
      );
      for (let turn = 0; turn < turnCount; turn++) {
        const shortSession = await directDriver.get(`${id} for turn ${turn}`);
        assert.equal(shortSession?.usage.promptTokens, turn % 3 > 0 ? undefined : 1);
      }
    }
    assert.equal((await directDriver.list({ limit: 1 })).total, sessionCount);
    assert.ok(proxy.cutCount >= MIN_CUTS);
  } finally {
    isDone = true;
    await cutLoop;
  }
});
