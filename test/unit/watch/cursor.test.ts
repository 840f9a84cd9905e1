// A reader reconnects to a store that lost its newest data, or that was restored from a copy and then changed.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent } from "gantry";
import type { ChainData, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedChunk, type ScriptedStep } from "gantry/testing";
import { createGate, type Gate } from "../../helpers/gate.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { STORES, sqliteStore, memoryStore, type StoreKind } from "../../helpers/stores.js";
import { joinTexts, WatchedPage } from "../../helpers/watched-page.js";

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
  replaceSession(dump: ChainData | undefined): Promise<void>;
  /** Updates the page and asserts that it equals the stored session. */
  check(): Promise<void>;
}

async function openFixture(
  t: { after(run: () => Promise<unknown>): void },
  createStore: StoreKind[1],
  steps: readonly ScriptedStep[] = [],
): Promise<WatchFixture> {
  const driver = (await createStore(t as Parameters<typeof createStore>[0]))();
  const agent = new Agent({ driver, providers: [new ScriptedProvider(steps, { fallback: LONG_TEXT })] });
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
      const position = after === "" ? { lastSeen: page.cursor } : { after };
      for await (const event of agent.sessions.watch(id, { ...position, follow: false })) page.apply(event);
    },
    replaceSession: async (dump) => {
      assert.ok(dump);
      await driver.delete([id]);
      await driver.load(dump);
    },
    check: async () => {
      await fixture.poll();
      assert.deepEqual(page.messages, (await agent.sessions.messages(id)).map(joinTexts));
    },
  };
  return fixture;
}

/** Creates the chunks of an answer. Each chunk waits for its gate. */
const createGatedChunks = (gates: readonly Gate[]): ScriptedChunk[] =>
  gates.flatMap((chunkGate, n) => [
    chunkGate.wait(),
    { type: "text", block: "0", text: `word ${n} ${"and more ".repeat(12)}` },
  ]);

describe("a reader that reconnects", { concurrency: true }, () => {
  for (const [name, createStore] of STORES) {
    it(`${name}: receives the stored messages after the store lost its newest messages or replaced them`, async (t) => {
      const { driver, id, page, send, poll, replaceSession, check } = await openFixture(t, createStore);
      await send("one");
      const earlierDump = await driver.dump(id);
      await send("two");
      await poll();
      assert.equal(page.messages.length, 4);
      await replaceSession(earlierDump);
      await check();
      assert.equal(page.messages.length, 2);
      await send("two");
      await poll();
      const earlierCursor = page.cursor;
      await replaceSession(earlierDump);
      await send(`not two, and longer: ${LONG_TEXT}`);
      await send("three");
      // A different message now has the sequence number of the cursor.
      await assert.rejects(poll(earlierCursor), { code: "invalid_input", field: "after" });
      await check();
      assert.equal(page.messages.length, 6);
    });

    it(`${name}: receives a growing message as stored after the store lost its last text or its end`, async (t) => {
      const { agent, driver, id, page, send, poll, replaceSession, check } = await openFixture(t, createStore);
      await send("one");
      await poll();
      const fullDump = await driver.dump(id);
      const [, answer] = await agent.sessions.messages(id);
      assert.ok(fullDump && answer);
      for (const keptCharacters of [LONG_TEXT.length, 40, 0]) {
        const partialDump = structuredClone(fullDump);
        const storedAnswer = partialDump.sessions[0]?.messages.find(({ message }) => message.id === answer.id);
        assert.ok(storedAnswer);
        storedAnswer.message = {
          ...answer,
          finished: false,
          parts: [{ type: "text", text: LONG_TEXT.slice(0, keptCharacters) }],
        };
        await replaceSession(partialDump);
        await check();
        assert.equal(page.messages.at(-1)?.finished, false);
      }
      await replaceSession(fullDump);
      // The restored text is also sent.
      await check();
      assert.equal(page.messages.at(-1)?.finished, true);
    });

    it(`${name}: receives the stored text after it read a different start of the same message`, async (t) => {
      const { agent, driver, id, page, send, poll, replaceSession, check } = await openFixture(t, createStore);
      await send("one");
      const fullDump = await driver.dump(id);
      const [, answer] = await agent.sessions.messages(id);
      assert.ok(fullDump && answer);
      const partialDump = structuredClone(fullDump);
      const storedAnswer = partialDump.sessions[0]?.messages.find(({ message }) => message.id === answer.id);
      assert.ok(storedAnswer);
      storedAnswer.message = {
        ...answer,
        finished: false,
        parts: [{ type: "text", text: `But ${LONG_TEXT.slice(0, 40)}` }],
      };
      await replaceSession(partialDump);
      await poll();
      await replaceSession(fullDump);
      await check();
      assert.equal(page.messages.length, 2);
    });

    it(`${name}: receives the stored messages after the store lost reverts and stored other reverts`, async (t) => {
      const { agent, driver, id, page, send, poll, replaceSession, check } = await openFixture(t, createStore);
      for (const text of ["one", "two", "three"]) await send(text);
      const earlierDump = await driver.dump(id);
      const messages = await agent.sessions.messages(id);
      await agent.sessions.revert(id, messages[3]!.id);
      await poll();
      assert.equal(page.messages.length, 4);
      await replaceSession(earlierDump);
      await agent.sessions.revert(id, messages[1]!.id);
      // The count of reverts equals the count in the reader's cursor.
      await check();
      await send("four");
      await poll();
      await replaceSession(earlierDump);
      await send("five");
      await send("six");
      const newMessages = await agent.sessions.messages(id);
      await agent.sessions.revert(id, newMessages.at(-1)!.id);
      await check();
      await agent.sessions.revert(id, newMessages.at(-3)!.id);
      await check();
    });
  }

  it("receives no older state from a process that read the session earlier", async (t) => {
    const [, createStore] = sqliteStore;
    const openDriver = await createStore(t);
    const agents = [openDriver(), openDriver()].map(
      (driver) => new Agent({ driver, providers: [new ScriptedProvider([])] }),
    );
    t.after(() => Promise.all(agents.map((agent) => agent.close())));
    const [localAgent, remoteAgent] = agents as [Agent, Agent];
    const { id } = await localAgent.sessions.create();
    for (const message of ["one", "two"]) await (await localAgent.run({ message, sessionId: id })).result;
    const page = new WatchedPage();
    for await (const event of localAgent.sessions.watch(id, { follow: false })) page.apply(event);
    // A watcher in the other process reads the state and the four messages.
    const remoteEvents = remoteAgent.sessions.watch(id)[Symbol.asyncIterator]();
    for (let remainingEvents = 5; remainingEvents > 0; remainingEvents -= 1) await remoteEvents.next();
    const messages = await localAgent.sessions.messages(id);
    await localAgent.sessions.revert(id, messages[1]!.id);
    for (const agent of [localAgent, remoteAgent])
      for await (const event of agent.sessions.watch(id, { lastSeen: page.cursor, follow: false })) page.apply(event);
    assert.deepEqual(page.messages, (await remoteAgent.sessions.messages(id)).map(joinTexts));
    assert.equal(page.state?.session.rewinds.length, 1);
    await remoteEvents.return?.();
  });

  it("receives each remaining character of a growing answer once", async (t) => {
    const gates = Array.from({ length: 8 }, createGate);
    const { agent, id, page, check } = await openFixture(t, memoryStore[1], [
      createGatedChunks(gates),
      callTools(["none", {}]),
    ]);
    const run = await agent.run({ message: "hi", sessionId: id });
    let connectionCount = 0;
    // Each connection receives one more chunk.
    while (page.messages.length < 2 || page.messages.at(-1)?.finished === false) {
      gates[connectionCount]?.open();
      for await (const event of agent.sessions.watch(id, { after: page.cursor })) {
        page.apply(event);
        if (event.type === "message" ? event.message.role === "assistant" : event.type !== "state") break;
      }
      connectionCount += 1;
    }
    await run.result;
    assert.ok(connectionCount >= gates.length, `${connectionCount} connections`);
    await check();
  });

  it("receives no message twice when it alternates between the writing process and a process with newer data", async (t) => {
    const [, createStore] = sqliteStore;
    const openDriver = await createStore(t);
    const driver = openDriver();
    let isRunOver = false;
    // Simulates a slow disk: other readers receive the data before the write returns.
    const writeResolvers: (() => void)[] = [];
    const slowDriver = new Proxy(driver, {
      get: (target, name) => {
        const value = Reflect.get(target, name) as unknown;
        if (typeof value !== "function") return value;
        return async (...args: unknown[]): Promise<unknown> => {
          const result: unknown = await Reflect.apply(value, target, args);
          if (name === "write" && !isRunOver) await new Promise<void>((resolve) => writeResolvers.push(resolve));
          return result;
        };
      },
    });
    const gates = Array.from({ length: 12 }, createGate);
    const steps = [
      [...createGatedChunks(gates.slice(0, 8)), ...callTools(["none", {}])],
      createGatedChunks(gates.slice(8)),
    ];
    const agents = [
      new Agent({ driver: slowDriver, providers: [new ScriptedProvider(steps)] }),
      new Agent({ driver: openDriver(), providers: [new ScriptedProvider([])] }),
    ] as const;
    t.after(() => Promise.all(agents.map((agent) => agent.close())));
    const { id } = await agents[0].sessions.create();
    const runStart = agents[0].run({ message: "hi", sessionId: id });
    const runResult = runStart.then((run) => run.result).finally(() => (isRunOver = true));
    const page = new WatchedPage();
    const receivedSeqs = new Set<number>();
    let writeCount = 0;
    const poll = async (agent: Agent) => {
      for await (const event of agent.sessions.watch(id, { lastSeen: page.cursor, follow: false })) {
        if (event.type === "message")
          assert.ok(!receivedSeqs.has(event.message.seq), `message ${event.message.seq} again`);
        if (event.type === "message") receivedSeqs.add(event.message.seq);
        page.apply(event);
      }
    };
    while (!isRunOver) {
      await waitUntil(() => writeResolvers.length > 0 || isRunOver);
      // Both agents read before and after the writing process knows that its data is stored.
      for (const agent of [agents[1], agents[0]]) await poll(agent);
      const pendingWrites = writeResolvers.splice(0);
      writeCount += pendingWrites.length;
      for (const resolve of pendingWrites) resolve();
      gates.shift()?.open();
      for (const agent of [agents[0], agents[1]]) await poll(agent);
    }
    for (const resolve of writeResolvers) resolve();
    await runResult;
    assert.ok(writeCount > 12, `${writeCount} writes`);
    await poll(agents[1]);
    assert.deepEqual(page.messages, (await agents[1].sessions.messages(id)).map(joinTexts));
  });
});
