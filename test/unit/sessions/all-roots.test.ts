import assert from "node:assert/strict";
import { it } from "node:test";
import { Agent, MemoryDriver } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { ScriptedProvider } from "gantry/testing";
import { allRoots } from "../../../src/sessions/all-roots.js";

const SESSIONS = 1_700;
const never = new AbortController().signal;

async function filled(driver: SessionDriver): Promise<string[]> {
  const agent = new Agent({ providers: [new ScriptedProvider([])], driver });
  const ids: string[] = [];
  for (let n = 0; n < SESSIONS; n++) ids.push((await agent.sessions.create()).id);
  return ids;
}

/** The same driver, with an action before each page of a list. */
function between(
  driver: SessionDriver,
  act: (page: number) => Promise<void>,
): { store: SessionDriver; largest: () => number } {
  let [page, largest] = [0, 0];
  const store = new Proxy(driver, {
    get: (target, name) => {
      if (name !== "list") return Reflect.get(target, name, target) as unknown;
      return async (query: Parameters<SessionDriver["list"]>[0]) => {
        await act((page += 1));
        largest = Math.max(largest, query.limit);
        return target.list(query);
      };
    },
  });
  return { store, largest: () => largest };
}

it("finds every session once, in pages", async () => {
  const driver = new MemoryDriver();
  const ids = await filled(driver);
  const { store, largest } = between(driver, async () => undefined);
  assert.deepEqual([...(await allRoots(store, never))].sort(), ids.sort());
  assert.ok(largest() <= 500);
});

it("a session that changes while it is looked for is found all the same, and one that is deleted is no fault", async () => {
  const driver = new MemoryDriver();
  const ids = await filled(driver);
  const [gone = ""] = ids.splice(100, 1);
  // The oldest sessions move to the front, which has already been read.
  const { store } = between(driver, async (page) => {
    if (page === 2) await driver.delete([gone]);
    if (page === 2 || page === 5)
      for (const id of ids.slice(page * 10, page * 10 + 10))
        await driver.write(id, { fence: null, sync: false, set: { updatedAt: new Date().toISOString() } });
  });
  const rootIds = await allRoots(store, never);
  for (const id of ids) assert.ok(rootIds.has(id));
});

it("ends with its signal", async () => {
  const driver = new MemoryDriver();
  await filled(driver);
  const stop = new AbortController();
  const { store } = between(driver, async (page) => void (page === 2 && stop.abort(new Error("enough"))));
  await assert.rejects(allRoots(store, stop.signal), /enough/);
});
