// Watchers leave nothing allocated, cost nothing while nothing happens, and share reads and events with each other.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, StoreError, type WatchEvent } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { ScriptedProvider, type ScriptedChunk } from "gantry/testing";
import { parseCursor } from "../../../src/watch/cursor.js";
import { StreamPosition } from "../../../src/watch/stream-position.js";
import { Presence } from "../../../src/watch/presence.js";
import { SessionTail, type Page, type TailWriter } from "../../../src/watch/tail.js";
import { notifierOf } from "../../../src/sessions/polling-notifier.js";
import { aMessage, aSession, change, aGrowingMessage } from "../../../src/testing/session-driver/rule.js";
import { fakeTime, turns, untilTurn } from "../../helpers/fake-time.js";
import { gate } from "../../helpers/gate.js";
import { until } from "../../helpers/lab.js";
import { STORES, sqliteStore } from "../../helpers/stores.js";
import { comparable, WatchedPage } from "../../helpers/watched-page.js";

/** A driver that records its calls and counts its listeners. */
function counted(driver: SessionDriver): { driver: SessionDriver; calls: string[]; listeners: () => number } {
  let listeners = 0;
  const calls: string[] = [];
  const notifier = notifierOf(driver);
  const subscribe: typeof notifier.subscribe = (root, listener) => {
    listeners += 1;
    const end = notifier.subscribe(root, listener);
    return () => {
      listeners -= 1;
      end();
    };
  };
  const listening = { publish: (root: string) => notifier.publish(root), subscribe };
  const handler: ProxyHandler<SessionDriver> = {
    get: (target, name) => {
      if (name === "notifier") return listening;
      const value = Reflect.get(target, name) as unknown;
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        calls.push(String(name));
        return Reflect.apply(value, target, args) as unknown;
      };
    },
  };
  return { driver: new Proxy(driver, handler), calls, listeners: () => listeners };
}

/** Number of chunks in the model's answer. */
const WORDS = 9;

describe("watchers", { concurrency: true }, () => {
  for (const [name, make] of STORES) {
    it(`${name}: leave no listener, wherever they stop`, async (t) => {
      const { driver, listeners } = counted((await make(t))());
      const agent = new Agent({ driver, providers: [new ScriptedProvider(["one"])] });
      t.after(() => agent.close());
      const { id } = await agent.sessions.create();
      // Avoids a generated title later.
      await agent.sessions.update(id, { title: "one" });
      await (
        await agent.run({ message: "hi", sessionId: id })
      ).result;
      const ways: Record<string, (events: AsyncIterator<WatchEvent>, over: AbortController) => Promise<unknown>> = {
        "between two events": async (events) => events.return?.(),
        "by an error": (events) => assert.rejects(async () => events.throw?.(new Error("no more"))),
        "by a signal between two events": async (events, over) => {
          over.abort();
          assert.equal(listeners(), 0);
          while (!(await events.next()).done);
        },
        "by a signal while it waits": async (events, over) => {
          await events.next();
          await events.next();
          const waiting = events.next();
          await turns();
          assert.equal(listeners(), 1);
          over.abort();
          assert.equal((await waiting).done, true);
        },
      };
      for (const [way, stop] of Object.entries(ways)) {
        const over = new AbortController();
        const events = agent.sessions.watch(id, { signal: over.signal })[Symbol.asyncIterator]();
        await events.next();
        await stop(events, over);
        assert.equal(listeners(), 0, way);
        assert.equal(getEventListeners(over.signal, "abort").length, 0, way);
      }
    });

    it(`${name}: receive a deletion by another process, and end when the store closes`, async (t) => {
      const open = await make(t);
      const agents = [open(), open()].map((driver) => new Agent({ driver, providers: [new ScriptedProvider([])] }));
      t.after(() => Promise.all(agents.map((agent) => agent.close())));
      const [localAgent, remoteAgent] = agents as [Agent, Agent];
      const [gone, remainingSession] = [await localAgent.sessions.create(), await localAgent.sessions.create()];
      const types: string[] = [];
      const watched = [gone, remainingSession].map(async ({ id }) => {
        for await (const { type } of localAgent.sessions.watch(id)) {
          types.push(type);
          if (types.length === 2) await remoteAgent.sessions.delete(gone.id);
          if (type === "deleted") void localAgent.close();
        }
      });
      await Promise.all(watched);
      assert.deepEqual(types, ["state", "state", "deleted"]);
    });
  }

  it("end when the store closes during a read", async () => {
    let closed: Promise<void> | undefined;
    class Closing extends MemoryDriver {
      override async messages(): Promise<never> {
        closed ??= agent.close();
        await turns();
        throw new StoreError("session store: not open");
      }
    }
    const agent = new Agent({ driver: new Closing(), providers: [new ScriptedProvider([])] });
    const { id } = await agent.sessions.create();
    const types: string[] = [];
    for await (const { type } of agent.sessions.watch(id)) types.push(type);
    await closed;
    assert.deepEqual(types, ["state"]);
  });

  it("SessionTail includes late reports of the previous writer, and is held until the last writer ends", async (t) => {
    const driver = new MemoryDriver();
    await driver.open();
    t.after(() => driver.close());
    await driver.create({ session: aSession("a") });
    const tail = new SessionTail("a", driver, new Presence(0), () => Promise.resolve(undefined));
    const seqs = async (from: number) => (await tail.readPage(from, 0)).messages.map(({ seq }) => seq);
    const store = async (hold: TailWriter | undefined, seq: number) => {
      const add = [aMessage("a", seq)];
      await driver.write("a", change({ add }));
      return () => hold?.reportChange({ add });
    };
    const before = tail.openWriter(0);
    (await store(before, 1))();
    assert.deepEqual(await seqs(1), [1]);
    const late = await store(before, 2);
    const next = tail.openWriter(0);
    (await store(next, 3))();
    assert.deepEqual(await seqs(3), [3]);
    late();
    assert.deepEqual([await seqs(1), await seqs(3)], [[1, 2, 3], [3]]);
    before.end();
    assert.equal(tail.hasLocalWriter, true);
    const notifyTail = await store(next, 4);
    const { version } = tail;
    notifyTail();
    assert.ok(tail.version > version);
    assert.deepEqual(await seqs(2), [2, 3, 4]);
    next.end();
    next.end();
    assert.equal(tail.hasLocalWriter, false);
  });

  it("SessionTail omits messages that another process reverted before the writer ended", async (t) => {
    const driver = new MemoryDriver();
    await driver.open();
    await driver.create({ session: aSession("a") });
    const tail = new SessionTail("a", driver, new Presence(0), () => Promise.resolve(undefined));
    const add = [1, 2, 3].map((seq) => aMessage("a", seq));
    await driver.write("a", change({ add }));
    tail.openWriter(0).reportChange({ add });
    const agent = new Agent({ driver, providers: [new ScriptedProvider([])] });
    t.after(() => agent.close());
    await agent.sessions.revert("a", add[1]!.id);
    const { rewinds: cuts } = (await agent.sessions.get("a"))!;
    const seqs = async (knownRewinds: number) => (await tail.readPage(1, knownRewinds)).messages.map(({ seq }) => seq);
    assert.deepEqual([await seqs(0), cuts.length, await seqs(1)], [[1, 2, 3], 1, [1, 2]]);
  });

  it("SessionTail creates no event from a page that was read before a change", async (t) => {
    const driver = new MemoryDriver();
    await driver.open();
    t.after(() => driver.close());
    await driver.create({ session: aSession("a") });
    await driver.write("a", change({ add: [aGrowingMessage("a", 1)] }));
    const tail = new SessionTail("a", driver, new Presence(0), () => Promise.resolve(undefined));
    const first = await tail.readPage(1, 0);
    const { position: place } = tail.getChange(
      new StreamPosition("a", parseCursor("a", "")),
      first.messages[0]!,
      first,
    );
    const before = await tail.readPage(1, 0);
    const append = [{ messageId: "a-1", part: 0, type: "text" as const, text: "more" }];
    await driver.write("a", change({ append }));
    tail.reportMessageChange();
    const eventsOf = (page: Page) => tail.getChange(place, page.messages[0]!, page).events.map(({ type }) => type);
    assert.deepEqual([eventsOf(before), eventsOf(await tail.readPage(1, 0))], [[], ["delta"]]);
  });

  it("share reads and events at the same position, and see the same messages", async (t) => {
    const [, make] = sqliteStore;
    const { driver, calls } = counted((await make(t))());
    // Each chunk is stored and sent to all watchers before the next one.
    const next = Array.from({ length: WORDS }, () => gate());
    const chunks = next.flatMap((come, n): ScriptedChunk[] => [
      come.wait(),
      { type: "text", block: "0", text: `word${n} ${"and so on ".repeat(12)}` },
    ]);
    const provider = new ScriptedProvider([chunks]);
    const agent = new Agent({ driver, providers: [provider] });
    t.after(() => agent.close());
    const { id } = await agent.sessions.create();
    const over = new AbortController();
    const seen = new Map<string, WatchEvent>();
    let shared = 0;
    const pages = Array.from({ length: 20 }, () => new WatchedPage());
    const watched = pages.map(async (page) => {
      for await (const event of agent.sessions.watch(id, { signal: over.signal })) {
        page.apply(event);
        if (!("cursor" in event)) continue;
        if (seen.get(event.cursor) === event) shared += 1;
        seen.set(event.cursor, event);
      }
    });
    const run = await agent.run({ message: "hi", sessionId: id });
    const countEvents = () => pages.reduce((sum, page) => sum + page.contentEvents, 0);
    await until(() => pages.every(({ messages }) => messages.length > 0));
    calls.length = 0;
    const [eventsBefore, sharedBefore] = [countEvents(), shared];
    for (const [n, come] of next.entries()) {
      come.open();
      const text = `word${n} `;
      const hasWord = ({ messages }: WatchedPage) =>
        messages.at(-1)?.parts.some((part) => part.type === "text" && part.text.includes(text));
      await until(() => pages.every(hasWord));
    }
    await run.result;
    await until(() =>
      pages.every(({ messages }) => messages.length === 2 && messages.every(({ finished }) => finished)),
    );
    const expectedMessages = (await agent.sessions.messages(id)).map(comparable);
    over.abort();
    await Promise.all(watched);
    for (const page of pages) assert.deepEqual(page.messages, expectedMessages);
    const [newEvents, together] = [countEvents() - eventsBefore, shared - sharedBefore];
    assert.ok(newEvents >= 20 * WORDS, `${newEvents} events`);
    // One of 20 watchers creates the event, the others share it. For some the last chunk can arrive together with the
    // end.
    assert.ok(together > newEvents / 2, `${together} of ${newEvents} events were made before`);
    const batches = calls.filter((call) => call === "write").length;
    const headCalls = calls.filter((call) => call === "head").length;
    assert.ok(batches > WORDS, `${batches} batches were stored`);
    assert.ok(headCalls < WORDS / 2, `the store was asked ${headCalls} times how the session stands`);
  });
});

describe("watchers of idle sessions", () => {
  for (const [name, make] of STORES)
    it(`${name}: cause no calls of the store`, async (t) => {
      const { pass } = fakeTime(t);
      const { driver, calls } = counted((await make(t))());
      const agent = new Agent({ driver, providers: [new ScriptedProvider([])] });
      t.after(() => agent.close());
      const over = new AbortController();
      let began = 0;
      const sessions = await Promise.all(Array.from({ length: 5 }, () => agent.sessions.create()));
      const watched = sessions.map(async ({ id }) => {
        for await (const _ of agent.sessions.watch(id, { signal: over.signal })) began += 1;
      });
      await untilTurn(() => began === sessions.length);
      // The first polls of the store are due. After them, three rounds of 2 s must pass without a call.
      for (let round = 0, quiet = 0; quiet < 3; round += 1) {
        const before = calls.length;
        for (let step = 0; step < 20; step += 1) {
          pass(100);
          await turns(3);
        }
        quiet = calls.length === before ? quiet + 1 : 0;
        assert.ok(round < 20, `asked again and again: ${calls.slice(before).join()}`);
      }
      over.abort();
      await Promise.all(watched);
    });
});
