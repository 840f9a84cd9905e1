import assert from "node:assert/strict";
import { it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import {
  aMessage,
  anAsk,
  anInstruction,
  answerAsk,
  aResolution,
  aRun,
  aSession,
  change,
  aGrowingMessage,
  sendInstruction,
  acquireLease,
  releaseLease,
  joinParts,
  withdrawInstruction,
} from "../../../src/testing/session-driver/rule.js";
import { NO_POSTGRES, postgresSchema } from "../../helpers/postgres.js";
import { randomOf } from "../../helpers/random.js";
import { postgresOptions } from "../../helpers/stores.js";
import { TcpProxy } from "../../helpers/tcp-proxy.js";
import type { Hooks } from "../../helpers/temp.js";
import { pause } from "../../helpers/lab.js";

const real = { skip: NO_POSTGRES };
const CUTS = 200;
const CHAINS = 6;
/** Number of client messages before the login is complete. The next message is a statement. */
const INTRODUCTION = 3;
/**
 * Minimum number of statements between two cuts. With a time limit alone, no statement would succeed on a slow machine.
 */
const BETWEEN = 2;

/** A driver that connects through a proxy, and a driver that connects directly. */
async function drivers(hooks: Hooks): Promise<{ proxy: TcpProxy; cut: PostgresDriver; direct: PostgresDriver }> {
  const ends: (() => Promise<void> | void)[] = [];
  const later: Hooks = { after: (end) => void ends.push(end) };
  const place = await postgresSchema(later);
  const proxy = await TcpProxy.before(later, place.url);
  const direct = new PostgresDriver(postgresOptions(place));
  const cut = new PostgresDriver(postgresOptions({ ...place, url: proxy.url(place.url) }));
  hooks.after(async () => {
    await cut.close();
    await direct.close();
    for (const end of ends) await end();
  });
  await direct.open();
  await cut.open();
  return { proxy, cut, direct };
}

const ONE = { promptTokens: 1, completionTokens: 2, totalTokens: 3, cost: 0.25 };

it("PostgresDriver loses no change and applies none twice while its connections are cut", real, async (t) => {
  const { proxy, cut: driver, direct } = await drivers(t);
  const random = randomOf(Number(process.env.SEED ?? 12));
  let done = false;
  const cutting = (async () => {
    while (!done) {
      // Sometimes cuts a connection during its login. A cut of the only such connection would look like an unreachable
      // server.
      const early = random() >= 0.95 && proxy.countActive(INTRODUCTION) > 0;
      proxy.cutOne(random() < 0.5 ? "question" : "answer", random, early ? 0 : INTRODUCTION);
      const nextCutAt = proxy.forwardedPieces + BETWEEN;
      // Time: the seed decides at which statements the cuts happen.
      do await pause(random() * 8);
      while (!done && proxy.forwardedPieces < nextCutAt);
    }
  })();

  /** Changes one chain and asserts its final state. */
  const work = async (id: string) => {
    await driver.create({ session: aSession(id, { alias: `alias of ${id}` }) });
    const acknowledged = { turns: 0, steered: [] as string[], deleted: 0, fences: [] as number[] };
    while (proxy.cuts < CUTS) {
      const turn = acknowledged.turns++;
      const fence = (await acquireLease(driver, id, `holder ${turn}`)).fence;
      acknowledged.fences.push(fence);
      const [completeSeq, grown] = [turn * 2 + 1, turn * 2 + 2];
      const run = aRun(`run ${turn} of ${id}`, id, { idempotencyKey: `key ${turn} of ${id}` });
      await driver.write(id, {
        fence,
        sync: true,
        usage: ONE,
        add: [aMessage(id, completeSeq), aGrowingMessage(id, grown)],
        runs: [run],
      });
      for (let n = 0; n < 3; n++) {
        const append = [{ messageId: `${id}-${grown}`, part: 0, type: "text" as const, text: `${n};` }];
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
      const ended = { ...run, state: "finished" as const, endedAt: run.startedAt };
      const followed = acknowledged.steered.splice(0);
      if (turn % 2 === 0) {
        const result = await driver.write(id, {
          fence,
          sync: true,
          runs: [ended],
          consumedInstructions: followed,
          release: true,
        });
        assert.deepEqual(result.consumedInstructions, followed);
        assert.deepEqual(
          result.instructions.map((instruction) => instruction.id),
          [steer],
        );
      } else {
        await driver.write(id, { fence, sync: true, runs: [ended], consumedInstructions: followed });
        await releaseLease(driver, { rootId: id, fence });
      }
      acknowledged.steered.push(steer);
      const short = `${id} for turn ${turn}`;
      await driver.create({ session: aSession(short), messages: [aMessage(short, 1)] });
      await driver.write(short, change({ usage: ONE }));
      if (turn % 3 > 0) {
        await driver.delete([short]);
        acknowledged.deleted++;
      }
    }
    return acknowledged;
  };

  const ids = Array.from({ length: CHAINS }, (_, n) => `chain ${n}`);
  try {
    const ends = await Promise.all(ids.map(async (id) => [id, await work(id)] as const));
    done = true;
    await cutting;
    let sessions = 0;
    for (const [id, { turns, steered, deleted, fences }] of ends) {
      sessions += 1 + turns - deleted;
      assert.deepEqual(
        fences,
        [...new Set(fences)].sort((a, b) => a - b),
      );
      const messages = await direct.messages(id);
      assert.deepEqual(
        messages.map(({ seq }) => seq),
        Array.from({ length: turns * 2 }, (_, n) => n + 1),
      );
      for (const message of messages.filter(({ role }) => role === "assistant"))
        assert.equal(joinParts(message), "0;1;2;");
      const session = await direct.get(id);
      assert.deepEqual(session?.usage, {
        promptTokens: turns,
        completionTokens: 2 * turns,
        totalTokens: 3 * turns,
        cost: turns / 4,
      });
      const runs = await direct.runs({ sessionId: id, limit: 10_000 });
      assert.deepEqual(
        runs.map(({ run, holder }) => [run.state, holder]),
        Array.from({ length: turns }, () => ["finished", null]),
      );
      const asks = await direct.asks({ sessionId: id, limit: 10_000 });
      assert.deepEqual(
        asks.map(({ answeredBy }) => answeredBy).sort(),
        Array.from({ length: turns }, (_, n) => `first ${n}`).sort(),
      );
      assert.deepEqual(
        (await direct.instructions(id)).map((instruction) => instruction.id),
        steered,
      );
      for (let turn = 0; turn < turns; turn++) {
        const short = await direct.get(`${id} for turn ${turn}`);
        assert.equal(short?.usage.promptTokens, turn % 3 > 0 ? undefined : 1);
      }
    }
    assert.equal((await direct.list({ limit: 1 })).total, sessions);
    assert.ok(proxy.cuts >= CUTS);
  } finally {
    done = true;
    await cutting;
  }
});
