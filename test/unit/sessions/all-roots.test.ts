import assert from "node:assert/strict";
import { it } from "node:test";
import { Agent, MemoryDriver } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { ScriptedProvider } from "gantry/testing";
import { allRoots } from "../../../src/sessions/all-roots.js";

const SESSIONS = 1_700;
const never = new AbortController().signal;

async function createSessions(driver: SessionDriver): Promise<string[]> {
  const agent = new Agent({ providers: [new ScriptedProvider([])], driver });
  const ids: string[] = [];
  for (let n = 0; n < SESSIONS; n++) ids.push((await agent.sessions.create()).id);
  return ids;
}

/** The same driver, with an action before each page of a list. */
function withPageHook(
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

it("allRoots finds every session once, in pages of at most 500", async () => {
  const driver = new MemoryDriver();
  const ids = await createSessions(driver);
  const { store, largest } = withPageHook(driver, async () => undefined);
  assert.deepEqual([...(await allRoots(store, never))].sort(), ids.sort());
  assert.ok(largest() <= 500);
});

it("allRoots finds sessions that change while it reads, and tolerates a deleted session", async () => {
  const driver = new MemoryDriver();
  const ids = await createSessions(driver);
  const [gone = ""] = ids.splice(100, 1);
  // The oldest sessions move to the front, which has already been read.
  const { store } = withPageHook(driver, async (page) => {
    if (page === 2) await driver.delete([gone]);
    if (page === 2 || page === 5)
      for (const id of ids.slice(page * 10, page * 10 + 10))
        await driver.write(id, { fence: null, sync: false, set: { updatedAt: new Date().toISOString() } });
  });
  const rootIds = await allRoots(store, never);
  for (const id of ids) assert.ok(rootIds.has(id));
});

it("allRoots rejects with the reason of an aborted signal", async () => {
  const driver = new MemoryDriver();
  await createSessions(driver);
  const stop = new AbortController();
  const { store } = withPageHook(driver, async (page) => void (page === 2 && stop.abort(new Error("enough"))));
  await assert.rejects(allRoots(store, stop.signal), /enough/);
});
