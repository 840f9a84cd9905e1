// Watchers release their listeners, do not read the store of an idle session, and share reads and events.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, StoreError, type WatchEvent } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { ScriptedProvider, type ScriptedChunk } from "gantry/testing";
import { parseCursor } from "../../../src/watch/cursor.js";
import { StreamPosition, type PositionChange } from "../../../src/watch/stream-position.js";
import { Presence } from "../../../src/watch/presence.js";
import type { Page } from "../../../src/watch/message-pages.js";
import { SessionTail, type TailWriter } from "../../../src/watch/session-tail.js";
import { notifierOf } from "../../../src/sessions/polling-notifier.js";
import { aGrowingMessage, aMessage, aSession, change } from "../../../src/testing/session-driver/records.js";
import { mockTime, waitTurns, waitForConditionInTurns } from "../../helpers/fake-time.js";
import { createGate } from "../../helpers/gate.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { STORES, sqliteStore } from "../../helpers/stores.js";
import { joinTexts, WatchedPage } from "../../helpers/watched-page.js";

/** Wraps a driver. Records its calls and counts its listeners. */
function recordCalls(driver: SessionDriver): { driver: SessionDriver; calls: string[]; countListeners: () => number } {
  let listenerCount = 0;
  const calls: string[] = [];
  const notifier = notifierOf(driver);
  const subscribe: typeof notifier.subscribe = (root, listener) => {
    listenerCount += 1;
    const unsubscribe = notifier.subscribe(root, listener);
    return () => {
      listenerCount -= 1;
      unsubscribe();
    };
  };
  const countingNotifier = { publish: (root: string) => notifier.publish(root), subscribe };
  const handler: ProxyHandler<SessionDriver> = {
    get: (target, name) => {
      if (name === "notifier") return countingNotifier;
      const value = Reflect.get(target, name) as unknown;
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        calls.push(String(name));
        return Reflect.apply(value, target, args) as unknown;
      };
    },
  };
  return { driver: new Proxy(driver, handler), calls, countListeners: () => listenerCount };
}

/** Number of chunks in the model's answer. */
const CHUNK_COUNT = 9;

describe("watchers", { concurrency: true }, () => {
  for (const [name, createStore] of STORES) {
    it(`${name}: release their listeners however they stop`, async (t) => {
      const { driver, countListeners } = recordCalls((await createStore(t))());
      const agent = new Agent({ driver, providers: [new ScriptedProvider(["one"])] });
      t.after(() => agent.close());
      const { id } = await agent.sessions.create();
      // A set title prevents a later write of a generated title.
      await agent.sessions.update(id, { title: "one" });
      await (
        await agent.run({ message: "hi", sessionId: id })
      ).result;
      const stopActions: Record<
        string,
        (events: AsyncIterator<WatchEvent>, watchController: AbortController) => Promise<unknown>
      > = {
        "between two events": async (events) => events.return?.(),
        "by an error": (events) => assert.rejects(async () => events.throw?.(new Error("no more"))),
        "by a signal between two events": async (events, watchController) => {
          watchController.abort();
          assert.equal(countListeners(), 0);
          while (!(await events.next()).done);
        },
        "by a signal while the watcher waits": async (events, watchController) => {
          await events.next();
          await events.next();
          const nextEvent = events.next();
          await waitTurns();
          assert.equal(countListeners(), 1);
          watchController.abort();
          assert.equal((await nextEvent).done, true);
        },
      };
      for (const [actionName, stop] of Object.entries(stopActions)) {
        const watchController = new AbortController();
        const events = agent.sessions.watch(id, { signal: watchController.signal })[Symbol.asyncIterator]();
        await events.next();
        await stop(events, watchController);
        assert.equal(countListeners(), 0, actionName);
        assert.equal(getEventListeners(watchController.signal, "abort").length, 0, actionName);
      }
    });

    it(`${name}: receive a deletion by another process, and end when the store closes`, async (t) => {
      const openDriver = await createStore(t);
      const agents = [openDriver(), openDriver()].map(
        (driver) => new Agent({ driver, providers: [new ScriptedProvider([])] }),
      );
      t.after(() => Promise.all(agents.map((agent) => agent.close())));
      const [localAgent, remoteAgent] = agents as [Agent, Agent];
      const [deletedSession, remainingSession] = [
        await localAgent.sessions.create(),
        await localAgent.sessions.create(),
      ];
      const types: string[] = [];
      const watches = [deletedSession, remainingSession].map(async ({ id }) => {
        for await (const { type } of localAgent.sessions.watch(id)) {
          types.push(type);
          if (types.length === 2) await remoteAgent.sessions.delete(deletedSession.id);
          if (type === "deleted") void localAgent.close();
        }
      });
      await Promise.all(watches);
      assert.deepEqual(types, ["state", "state", "deleted"]);
    });
  }

  it("end when the store closes during a read", async () => {
    let closePromise: Promise<void> | undefined;
    class ClosingDriver extends MemoryDriver {
      override async messages(): Promise<never> {
        closePromise ??= agent.close();
        await waitTurns();
        throw new StoreError("session store: not open");
      }
    }
    const agent = new Agent({ driver: new ClosingDriver(), providers: [new ScriptedProvider([])] });
    const { id } = await agent.sessions.create();
    const types: string[] = [];
    for await (const { type } of agent.sessions.watch(id)) types.push(type);
    await closePromise;
    assert.deepEqual(types, ["state"]);
  });

  it("SessionTail includes late reports of the previous writer, and has a local writer until the last ends", async (t) => {
    const driver = new MemoryDriver();
    await driver.open();
    t.after(() => driver.close());
    await driver.create({ session: aSession("a") });
    const tail = new SessionTail("a", driver, new Presence(0), () => Promise.resolve(undefined));
    const readSeqs = async (firstSeq: number) => (await tail.readPage(firstSeq, 0)).messages.map(({ seq }) => seq);
    // Stores a message. The returned function reports the change to the tail.
    const storeMessage = async (writer: TailWriter | undefined, seq: number) => {
      const add = [aMessage("a", seq)];
      await driver.write("a", change({ add }));
      return () => writer?.reportChange({ add });
    };
    const firstWriter = tail.openWriter(0);
    (await storeMessage(firstWriter, 1))();
    assert.deepEqual(await readSeqs(1), [1]);
    const reportSecondMessage = await storeMessage(firstWriter, 2);
    const secondWriter = tail.openWriter(0);
    (await storeMessage(secondWriter, 3))();
    assert.deepEqual(await readSeqs(3), [3]);
    reportSecondMessage();
    assert.deepEqual([await readSeqs(1), await readSeqs(3)], [[1, 2, 3], [3]]);
    firstWriter.end();
    assert.equal(tail.hasLocalWriter, true);
    const reportFourthMessage = await storeMessage(secondWriter, 4);
    const { version } = tail;
    reportFourthMessage();
    assert.ok(tail.version > version);
    assert.deepEqual(await readSeqs(2), [2, 3, 4]);
    secondWriter.end();
    secondWriter.end();
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
    const { rewinds } = (await agent.sessions.get("a"))!;
    const readSeqs = async (rewindCount: number) =>
      (await tail.readPage(1, rewindCount)).messages.map(({ seq }) => seq);
    assert.deepEqual([await readSeqs(0), rewinds.length, await readSeqs(1)], [[1, 2, 3], 1, [1, 2]]);
  });

  it("SessionTail creates no event from a page that was read before a change", async (t) => {
    const driver = new MemoryDriver();
    await driver.open();
    t.after(() => driver.close());
    await driver.create({ session: aSession("a") });
    await driver.write("a", change({ add: [aGrowingMessage("a", 1)] }));
    const tail = new SessionTail("a", driver, new Presence(0), () => Promise.resolve(undefined));
    const firstPage = await tail.readPage(1, 0);
    const { position } = tail.getChange(
      new StreamPosition("a", parseCursor("a", "")),
      firstPage.messages[0]!,
      firstPage,
    );
    const outdatedPage = await tail.readPage(1, 0);
    const append = [{ messageId: "a-1", part: 0, type: "text" as const, text: "more" }];
    await driver.write("a", change({ append }));
    tail.reportMessageChange();
    const getEventTypes = (page: Page) =>
      tail.getChange(position, page.messages[0]!, page).events.map(({ type }) => type);
    assert.deepEqual([getEventTypes(outdatedPage), getEventTypes(await tail.readPage(1, 0))], [[], ["delta"]]);
  });

  it("do not get an event of an older page, which could lack the end of a message", async () => {
    const driver = new MemoryDriver();
    await driver.open();
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1), aMessage("a", 2)] });
    await driver.write("a", change({ add: [aGrowingMessage("a", 3)] }));
    const tail = new SessionTail("a", driver, new Presence(0), () => Promise.resolve(undefined));
    const read = async (position: StreamPosition) => {
      const page = await tail.readPage(Math.max(1, position.cursor.seq), 0);
      const changes: PositionChange[] = [];
      for (const message of page.messages)
        changes.push(tail.getChange(changes.at(-1)?.position ?? position, message, page));
      return changes;
    };
    const [, secondChange] = await read(new StreamPosition("a", parseCursor("a", "")));
    // Another process ends the message and adds one. Its notification has not arrived.
    const finish = [aMessage("a", 3, { role: "assistant", parts: [{ type: "text", text: "whole" }] })];
    await driver.write("a", change({ finish, add: [aMessage("a", 4)] }));
    const changes = await read(secondChange!.position);
    const messages = changes.flatMap(({ events }) => events.map((event) => "message" in event && event.message));
    assert.deepEqual(
      messages.map((message) => message && message.seq),
      [3, 4],
    );
    assert.deepEqual(messages[0] && messages[0].parts, finish[0]?.parts);
  });

  it("share reads and events at the same position, and receive the same messages", async (t) => {
    const [, createStore] = sqliteStore;
    const { driver, calls } = recordCalls((await createStore(t))());
    // Each chunk is stored and sent to all watchers before the next chunk.
    const chunkGates = Array.from({ length: CHUNK_COUNT }, () => createGate());
    const chunks = chunkGates.flatMap((chunkGate, n): ScriptedChunk[] => [
      chunkGate.wait(),
      { type: "text", block: "0", text: `word${n} ${"and so on ".repeat(12)}` },
    ]);
    const provider = new ScriptedProvider([chunks]);
    const agent = new Agent({ driver, providers: [provider] });
    t.after(() => agent.close());
    const { id } = await agent.sessions.create();
    const watchController = new AbortController();
    const eventsByCursor = new Map<string, WatchEvent>();
    let sharedCount = 0;
    const pages = Array.from({ length: 20 }, () => new WatchedPage());
    const watches = pages.map(async (page) => {
      for await (const event of agent.sessions.watch(id, { signal: watchController.signal })) {
        page.apply(event);
        if (!("cursor" in event)) continue;
        if (eventsByCursor.get(event.cursor) === event) sharedCount += 1;
        eventsByCursor.set(event.cursor, event);
      }
    });
    const run = await agent.run({ message: "hi", sessionId: id });
    const countEvents = () => pages.reduce((sum, page) => sum + page.cursorEventCount, 0);
    await waitUntil(() => pages.every(({ messages }) => messages.length > 0));
    calls.length = 0;
    const [eventCountBefore, sharedCountBefore] = [countEvents(), sharedCount];
    for (const [n, chunkGate] of chunkGates.entries()) {
      chunkGate.open();
      const text = `word${n} `;
      const hasWord = ({ messages }: WatchedPage) =>
        messages.at(-1)?.parts.some((part) => part.type === "text" && part.text.includes(text));
      await waitUntil(() => pages.every(hasWord));
    }
    await run.result;
    await waitUntil(() =>
      pages.every(({ messages }) => messages.length === 2 && messages.every(({ finished }) => finished)),
    );
    const expectedMessages = (await agent.sessions.messages(id)).map(joinTexts);
    watchController.abort();
    await Promise.all(watches);
    for (const page of pages) assert.deepEqual(page.messages, expectedMessages);
    const [newEventCount, sharedEventCount] = [countEvents() - eventCountBefore, sharedCount - sharedCountBefore];
    assert.ok(newEventCount >= 20 * CHUNK_COUNT, `${newEventCount} events`);
    // One of 20 watchers creates an event, and the other watchers share the event. Some watchers can receive the last
    // chunk together with the end.
    assert.ok(sharedEventCount > newEventCount / 2, `${sharedEventCount} of ${newEventCount} events are shared`);
    const writeCallCount = calls.filter((call) => call === "write").length;
    const headCallCount = calls.filter((call) => call === "head").length;
    assert.ok(writeCallCount > CHUNK_COUNT, `${writeCallCount} batches are stored`);
    assert.ok(headCallCount < CHUNK_COUNT / 2, `${headCallCount} reads of the session state`);
  });
});

describe("watchers of idle sessions", () => {
  for (const [name, createStore] of STORES)
    it(`${name}: cause no store calls`, async (t) => {
      const { advance } = mockTime(t);
      const { driver, calls } = recordCalls((await createStore(t))());
      const agent = new Agent({ driver, providers: [new ScriptedProvider([])] });
      t.after(() => agent.close());
      const watchController = new AbortController();
      let startedWatchCount = 0;
      const sessions = await Promise.all(Array.from({ length: 5 }, () => agent.sessions.create()));
      const watches = sessions.map(async ({ id }) => {
        for await (const _ of agent.sessions.watch(id, { signal: watchController.signal })) startedWatchCount += 1;
      });
      await waitForConditionInTurns(() => startedWatchCount === sessions.length);
      // The first polls of the store are due now. Then three rounds of 2 s must pass without a call.
      for (let round = 0, quietRounds = 0; quietRounds < 3; round += 1) {
        const callCount = calls.length;
        for (let step = 0; step < 20; step += 1) {
          advance(100);
          await waitTurns(3);
        }
        quietRounds = calls.length === callCount ? quietRounds + 1 : 0;
        assert.ok(round < 20, `repeated store calls: ${calls.slice(callCount).join()}`);
      }
      watchController.abort();
      await Promise.all(watches);
    });
});
