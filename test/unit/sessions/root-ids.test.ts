import assert from "node:assert/strict";
import { it } from "node:test";
import { Agent, MemoryDriver } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { ScriptedProvider } from "gantry/testing";
import { listRootIds } from "../../../src/sessions/root-ids.js";

const SESSION_COUNT = 1_700;
const neverAbortedSignal = new AbortController().signal;

async function createSessions(driver: SessionDriver): Promise<string[]> {
  const agent = new Agent({ providers: [new ScriptedProvider([])], driver });
  const ids: string[] = [];
  for (let n = 0; n < SESSION_COUNT; n++) ids.push((await agent.sessions.create()).id);
  return ids;
}

/** Returns the driver with an action before each page of a list, and the largest requested page size. */
function addPageHook(
  driver: SessionDriver,
  beforePage: (page: number) => Promise<void>,
): { hookedDriver: SessionDriver; getMaxLimit: () => number } {
  let [page, maxLimit] = [0, 0];
  const hookedDriver = new Proxy(driver, {
    get: (target, name) => {
      if (name !== "list") return Reflect.get(target, name, target) as unknown;
      return async (query: Parameters<SessionDriver["list"]>[0]) => {
        await beforePage((page += 1));
        maxLimit = Math.max(maxLimit, query.limit);
        return target.list(query);
      };
    },
  });
  return { hookedDriver, getMaxLimit: () => maxLimit };
}

it("listRootIds finds every session once, in pages of at most 500", async () => {
  const driver = new MemoryDriver();
  const ids = await createSessions(driver);
  const { hookedDriver, getMaxLimit } = addPageHook(driver, async () => undefined);
  assert.deepEqual([...(await listRootIds(hookedDriver, neverAbortedSignal))].sort(), ids.sort());
  assert.ok(getMaxLimit() <= 500);
});

it("listRootIds finds sessions that change while it reads, and tolerates a deleted session", async () => {
  const driver = new MemoryDriver();
  const ids = await createSessions(driver);
  const [deletedId = ""] = ids.splice(100, 1);
  // The oldest sessions move to the front, which has already been read.
  const { hookedDriver } = addPageHook(driver, async (page) => {
    if (page === 2) await driver.delete([deletedId]);
    if (page === 2 || page === 5)
      for (const id of ids.slice(page * 10, page * 10 + 10))
        await driver.write(id, { fence: null, sync: false, set: { updatedAt: new Date().toISOString() } });
  });
  const rootIds = await listRootIds(hookedDriver, neverAbortedSignal);
  for (const id of ids) assert.ok(rootIds.has(id));
});

it("listRootIds rejects with the reason of an aborted signal", async () => {
  const driver = new MemoryDriver();
  await createSessions(driver);
  const stopController = new AbortController();
  const { hookedDriver } = addPageHook(
    driver,
    async (page) => void (page === 2 && stopController.abort(new Error("enough"))),
  );
  await assert.rejects(listRootIds(hookedDriver, stopController.signal), /enough/);
});
