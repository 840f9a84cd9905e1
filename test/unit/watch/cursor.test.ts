// A reader reconnects to a store that has changed: its end is lost, or it was restored from a copy and then continued.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent } from "gantry";
import type { ChainData, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedChunk, type ScriptedStep } from "gantry/testing";
import { gate, type Gate } from "../../helpers/gate.js";
import { until } from "../../helpers/lab.js";
import { STORES, sqliteStore, memoryStore, type StoreKind } from "../../helpers/stores.js";
import { comparable, WatchedPage } from "../../helpers/watched-page.js";

const LONG_TEXT = "What was said, and is quite long. ".repeat(10);

interface WatchFixture {
  agent: Agent;
  driver: SessionDriver;
  id: string;
  page: WatchedPage;
  send(message: string): Promise<void>;
  /** Updates the page with all stored events. */
  poll(after?: string): Promise<void>;
  /** Replaces the session with an earlier copy. */
  replaceSession(to: ChainData | undefined): Promise<void>;
  /** Updates the page and asserts that it equals the stored session. */
  check(): Promise<void>;
}

async function openFixture(
  t: { after(run: () => Promise<unknown>): void },
  make: StoreKind[1],
  script: readonly ScriptedStep[] = [],
): Promise<WatchFixture> {
  const driver = (await make(t as Parameters<typeof make>[0]))();
  const agent = new Agent({ driver, providers: [new ScriptedProvider(script, { fallback: LONG_TEXT })] });
  t.after(() => agent.close());
  const { id } = await agent.sessions.create();
  const page = new WatchedPage();
  const fixture: WatchFixture = {
    agent,
    driver,
    id,
    page,
    send: async (message) => void (await (await agent.run({ message, sessionId: id })).result.catch(() => undefined)),
    poll: async (after = "") => {
      const from = after === "" ? { lastSeen: page.cursor } : { after };
      for await (const event of agent.sessions.watch(id, { ...from, follow: false })) page.apply(event);
    },
    replaceSession: async (to) => {
      assert.ok(to);
      await driver.delete([id]);
      await driver.load(to);
    },
    check: async () => {
      await fixture.poll();
      assert.deepEqual(page.messages, (await agent.sessions.messages(id)).map(comparable));
    },
  };
  return fixture;
}

/** Chunks of an answer, each of which waits for its gate. */
const gated = (gates: readonly Gate[]): ScriptedChunk[] =>
  gates.flatMap((come, n) => [come.wait(), { type: "text", block: "0", text: `word ${n} ${"and more ".repeat(12)}` }]);

describe("a reader that reconnects", { concurrency: true }, () => {
  for (const [name, make] of STORES) {
    it(`${name}: sees the stored messages after the store lost its end, and after other messages replaced it`, async (t) => {
      const { driver, id, page, send, poll, replaceSession, check } = await openFixture(t, make);
      await send("one");
      const before = await driver.dump(id);
      await send("two");
      await poll();
      assert.equal(page.messages.length, 4);
      await replaceSession(before);
      await check();
      assert.equal(page.messages.length, 2);
      await send("two");
      await poll();
      const seen = page.cursor;
      await replaceSession(before);
      await send(`not two, and longer: ${LONG_TEXT}`);
      await send("three");
      // Another message has the same sequence number.
      await assert.rejects(poll(seen), { code: "invalid_input", field: "after" });
      await check();
      assert.equal(page.messages.length, 6);
    });

    it(`${name}: sees a growing message as stored after the store lost the end or the finish of it`, async (t) => {
      const { agent, driver, id, page, send, poll, replaceSession, check } = await openFixture(t, make);
      await send("one");
      await poll();
      const fullDump = await driver.dump(id);
      const [, last] = await agent.sessions.messages(id);
      assert.ok(fullDump && last);
      for (const keep of [LONG_TEXT.length, 40, 0]) {
        const half = structuredClone(fullDump);
        const stored = half.sessions[0]?.messages.find(({ message }) => message.id === last.id);
        assert.ok(stored);
        stored.message = { ...last, finished: false, parts: [{ type: "text", text: LONG_TEXT.slice(0, keep) }] };
        await replaceSession(half);
        await check();
        assert.equal(page.messages.at(-1)?.finished, false);
      }
      await replaceSession(fullDump);
      // Restored text is sent too.
      await check();
      assert.equal(page.messages.at(-1)?.finished, true);
    });

    it(`${name}: sees the stored text after it read the start of a message that ended differently`, async (t) => {
      const { agent, driver, id, page, send, poll, replaceSession, check } = await openFixture(t, make);
      await send("one");
      const fullDump = await driver.dump(id);
      const [, last] = await agent.sessions.messages(id);
      assert.ok(fullDump && last);
      const half = structuredClone(fullDump);
      const stored = half.sessions[0]?.messages.find(({ message }) => message.id === last.id);
      assert.ok(stored);
      stored.message = { ...last, finished: false, parts: [{ type: "text", text: `But ${LONG_TEXT.slice(0, 40)}` }] };
      await replaceSession(half);
      await poll();
      await replaceSession(fullDump);
      await check();
      assert.equal(page.messages.length, 2);
    });

    it(`${name}: sees the stored messages after reverts were lost and other reverts followed`, async (t) => {
      const { agent, driver, id, page, send, poll, replaceSession, check } = await openFixture(t, make);
      for (const text of ["one", "two", "three"]) await send(text);
      const before = await driver.dump(id);
      const messages = await agent.sessions.messages(id);
      await agent.sessions.revert(id, messages[3]!.id);
      await poll();
      assert.equal(page.messages.length, 4);
      await replaceSession(before);
      await agent.sessions.revert(id, messages[1]!.id);
      // The number of reverts equals the number that the reader knows.
      await check();
      await send("four");
      await poll();
      await replaceSession(before);
      await send("five");
      await send("six");
      const now = await agent.sessions.messages(id);
      await agent.sessions.revert(id, now.at(-1)!.id);
      await check();
      await agent.sessions.revert(id, now.at(-3)!.id);
      await check();
    });
  }

  it("sees no older state from a process that read the session earlier", async (t) => {
    const [, make] = sqliteStore;
    const open = await make(t);
    const agents = [open(), open()].map((driver) => new Agent({ driver, providers: [new ScriptedProvider([])] }));
    t.after(() => Promise.all(agents.map((agent) => agent.close())));
    const [localAgent, remoteAgent] = agents as [Agent, Agent];
    const { id } = await localAgent.sessions.create();
    for (const message of ["one", "two"]) await (await localAgent.run({ message, sessionId: id })).result;
    const page = new WatchedPage();
    for await (const event of localAgent.sessions.watch(id, { follow: false })) page.apply(event);
    // A watcher in the other process has just read the state.
    const remoteEvents = remoteAgent.sessions.watch(id)[Symbol.asyncIterator]();
    for (let remainingEvents = 5; remainingEvents > 0; remainingEvents -= 1) await remoteEvents.next();
    const messages = await localAgent.sessions.messages(id);
    await localAgent.sessions.revert(id, messages[1]!.id);
    for (const agent of [localAgent, remoteAgent])
      for await (const event of agent.sessions.watch(id, { lastSeen: page.cursor, follow: false })) page.apply(event);
    assert.deepEqual(page.messages, (await remoteAgent.sessions.messages(id)).map(comparable));
    assert.equal(page.state?.session.rewinds.length, 1);
    await remoteEvents.return?.();
  });

  it("receives the rest of a growing answer, each character once", async (t) => {
    const gates = Array.from({ length: 8 }, gate);
    const { agent, id, page, check } = await openFixture(t, memoryStore[1], [gated(gates), callTools(["none", {}])]);
    const run = await agent.run({ message: "hi", sessionId: id });
    let drops = 0;
    // Each connection receives one more chunk.
    while (page.messages.length < 2 || page.messages.at(-1)?.finished === false) {
      gates[drops]?.open();
      for await (const event of agent.sessions.watch(id, { after: page.cursor })) {
        page.apply(event);
        if (event.type === "message" ? event.message.role === "assistant" : event.type !== "state") break;
      }
      drops += 1;
    }
    await run.result;
    assert.ok(drops >= gates.length, `${drops} connections`);
    await check();
  });

  it("receives no message twice when it alternates between the writing process and a process that is ahead", async (t) => {
    const [, make] = sqliteStore;
    const open = await make(t);
    const driver = open();
    let over = false;
    // A slow disk: other readers see the data before the write returns.
    const written: (() => void)[] = [];
    const slow = new Proxy(driver, {
      get: (target, name) => {
        const value = Reflect.get(target, name) as unknown;
        if (typeof value !== "function") return value;
        return async (...args: unknown[]): Promise<unknown> => {
          const done: unknown = await Reflect.apply(value, target, args);
          if (name === "write" && !over) await new Promise<void>((resolve) => written.push(resolve));
          return done;
        };
      },
    });
    const gates = Array.from({ length: 12 }, gate);
    const script = [[...gated(gates.slice(0, 8)), ...callTools(["none", {}])], gated(gates.slice(8))];
    const agents = [
      new Agent({ driver: slow, providers: [new ScriptedProvider(script)] }),
      new Agent({ driver: open(), providers: [new ScriptedProvider([])] }),
    ] as const;
    t.after(() => Promise.all(agents.map((agent) => agent.close())));
    const { id } = await agents[0].sessions.create();
    const starting = agents[0].run({ message: "hi", sessionId: id });
    const running = starting.then((run) => run.result).finally(() => (over = true));
    const page = new WatchedPage();
    const seen = new Set<number>();
    let writes = 0;
    const poll = async (agent: Agent) => {
      for await (const event of agent.sessions.watch(id, { lastSeen: page.cursor, follow: false })) {
        if (event.type === "message") assert.ok(!seen.has(event.message.seq), `message ${event.message.seq} again`);
        if (event.type === "message") seen.add(event.message.seq);
        page.apply(event);
      }
    };
    while (!over) {
      await until(() => written.length > 0 || over);
      // Both agents read before and after the writing process knows that its data is stored.
      for (const agent of [agents[1], agents[0]]) await poll(agent);
      const pendingWrites = written.splice(0);
      writes += pendingWrites.length;
      for (const resolve of pendingWrites) resolve();
      gates.shift()?.open();
      for (const agent of [agents[0], agents[1]]) await poll(agent);
    }
    for (const resolve of written) resolve();
    await running;
    assert.ok(writes > 12, `${writes} writes`);
    await poll(agents[1]);
    assert.deepEqual(page.messages, (await agents[1].sessions.messages(id)).map(comparable));
  });
});
