import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, type BusEvents, type Message, type Run, type Tool } from "gantry";
import type { ModelProvider, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { MAX_EMPTY_SESSION_AGE_MS, Housekeeping, deleteEmptySessions } from "../../../src/sessions/housekeeping.js";
import { silentLogger } from "../../../src/base/log.js";
import { STORES } from "../../helpers/stores.js";
import { findHistoryFaults, WindowProvider } from "../../helpers/context-window-provider.js";

const noteTool: Tool<{ text: string }> = {
  name: "note",
  description: "Takes a note.",
  inputSchema: { type: "object", properties: { text: { type: "string" } } },
  kind: "other",
  parallel: false,
  needsPermission: false,
  parse: (input) => input as { text: string },
  describe: () => ({ title: "Note", locations: [] }),
  run: ({ text }) => Promise.resolve({ text: `noted ${text}` }),
};

function createAgent(t: TestContext, provider: ModelProvider, driver: SessionDriver): Agent {
  const agent = new Agent({ providers: [provider], driver, tools: [noteTool] });
  t.after(() => agent.close());
  return agent;
}

const toText = (message: Message | undefined): string =>
  (message?.parts ?? []).map((part) => ("text" in part ? part.text : "")).join("");

async function readTexts(agent: Agent, id: string): Promise<string[]> {
  return (await agent.sessions.messages(id)).map(toText);
}

async function sendPrompt(agent: Agent, message: string, sessionId?: string): Promise<Run> {
  const run = await agent.run({ message, ...(sessionId === undefined ? {} : { sessionId }) });
  await run.result;
  return run;
}

/** Creates a model that answers with `re <prompt>`. */
function createEchoProvider(windowTokens = 128_000): WindowProvider {
  return new WindowProvider({
    window: windowTokens,
    answer: ({ messages }) => `re ${toText(messages.at(-1) as Message).slice(0, 20)}`,
  });
}

/** Returns the id of the first message that starts with the prefix. */
async function findMessageId(agent: Agent, sessionId: string, prefix: string): Promise<string> {
  const message = (await agent.sessions.messages(sessionId)).find((candidate) => toText(candidate).startsWith(prefix));
  assert.ok(message, prefix);
  return message.id;
}

/** Creates a chain of follow-ups (for a small context window), with one prompt per turn: `p1 ...`, `p2 ...`. */
async function createChain(agent: Agent, turnCount: number): Promise<{ sessionId: string; followUps: string[] }> {
  const followUps: string[] = [];
  const unsubscribe = agent.on("session.compacted", ({ to }) => void followUps.push(to));
  const { sessionId } = await sendPrompt(agent, `p1 ${"long ".repeat(200)}`);
  for (let turn = 2; turn <= turnCount; turn++) await sendPrompt(agent, `p${turn} ${"long ".repeat(200)}`, sessionId);
  unsubscribe();
  return { sessionId, followUps };
}

for (const [name, makeStore] of STORES) {
  describe(`fork (${name})`, () => {
    it("copies the conversation up to a message into a new session", async (t) => {
      const openDriver = await makeStore(t);
      const agent = createAgent(t, createEchoProvider(), openDriver());
      const { sessionId } = await sendPrompt(agent, "one");
      await sendPrompt(agent, "two", sessionId);
      await sendPrompt(agent, "three", sessionId);
      await agent.sessions.update(sessionId, { title: "Mine", reasoningEffort: "low" });
      const events: unknown[] = [];
      agent.on("session.forked", (event) => events.push(event));
      const sourceMessages = await agent.sessions.messages(sessionId);
      const fork = await agent.sessions.fork(sessionId, sourceMessages[3]!.id);

      assert.deepEqual(events, [{ from: sessionId, to: fork.id }]);
      assert.deepEqual(await agent.sessions.get(fork.id), fork);
      const { title, hasFinalTitle: isTitled, parentId, provider, model, reasoningEffort, lastSeq, usage } = fork;
      assert.deepEqual([title, isTitled, parentId, provider, model], ["Mine", true, sessionId, "window", "m1"]);
      assert.deepEqual([reasoningEffort, lastSeq, usage.totalTokens, fork.alias], ["low", 4, 0, ""]);
      assert.deepEqual(fork.chain, { root: fork.id, index: 0 });
      const copiedMessages = await agent.sessions.messages(fork.id);
      assert.deepEqual(copiedMessages.map(toText), ["one", "re one", "two", "re two"]);
      assert.deepEqual(
        copiedMessages.map(({ seq, sessionId: copySessionId }) => [seq, copySessionId]),
        [1, 2, 3, 4].map((seq) => [seq, fork.id]),
      );
      const ids = new Set([...sourceMessages, ...copiedMessages].map((message) => message.id));
      assert.equal(ids.size, 6 + 4);
      for (const { id, seq, sessionId: _, ...copiedFields } of copiedMessages) {
        const { id: sourceId, seq: sourceSeq, sessionId: __, ...sourceFields } = sourceMessages[seq - 1]!;
        assert.notEqual(id, sourceId);
        assert.equal(seq, sourceSeq);
        assert.deepEqual(copiedFields, sourceFields);
      }

      await sendPrompt(agent, "four", fork.id);
      assert.deepEqual((await readTexts(agent, fork.id)).slice(-2), ["four", "re four"]);
      assert.equal((await readTexts(agent, sessionId)).length, 6);
      await agent.sessions.delete(sessionId);
      assert.equal((await readTexts(agent, fork.id)).length, 6, "a fork survives its parent");
      assert.equal((await agent.sessions.list({ limit: 9 })).total, 1);
    });

    it("copies a chain into a single session, which its next run compacts", async (t) => {
      const openDriver = await makeStore(t);
      const provider = createEchoProvider(4_000);
      const agent = createAgent(t, provider, openDriver());
      const { sessionId, followUps } = await createChain(agent, 24);
      assert.ok(followUps.length >= 2);
      const allTexts = await readTexts(agent, sessionId);
      const fork = await agent.sessions.fork(followUps[0]!, await findMessageId(agent, sessionId, "re p20"));
      assert.deepEqual(await readTexts(agent, fork.id), allTexts.slice(0, 40));
      assert.equal(fork.parentId, sessionId);
      let compactionCount = 0;
      agent.on("session.compacted", ({ rootId }) => (compactionCount += Number(rootId === fork.id)));
      await sendPrompt(agent, "next", fork.id);
      assert.equal(compactionCount, 1);
      assert.equal(provider.refusedCount, 0);
      assert.deepEqual(provider.violations, []);
      assert.deepEqual((await readTexts(agent, fork.id)).slice(-2), ["next", "re next"]);
      assert.deepEqual(await readTexts(agent, sessionId), allTexts);
    });

    it("makes reused tool call ids unique, and completes a call without a result", async (t) => {
      const openDriver = await makeStore(t);
      const provider = new ScriptedProvider([
        callTools(["note", { text: "a" }]),
        "first",
        callTools(["note", { text: "b" }]),
        "second",
      ]);
      const agent = createAgent(t, provider, openDriver());
      const { sessionId } = await sendPrompt(agent, "one");
      await sendPrompt(agent, "two", sessionId);
      const messages = await agent.sessions.messages(sessionId);
      assert.deepEqual(findHistoryFaults(messages), []);
      // A run in a follow-up does not know the call ids of earlier sessions.
      const smallProvider = new ScriptedProvider(
        Array.from({ length: 12 }, () => [callTools(["note", { text: "x ".repeat(900) }]), "noted"]).flat(),
        { models: [{ id: "m", name: "m", ownedBy: "", contextWindow: 4_000 }] },
      );
      const { sessionId: longSessionId } = await sendPrompt(createAgent(t, smallProvider, openDriver()), "p1");
      for (let turn = 2; turn <= 12; turn++)
        await sendPrompt(createAgent(t, smallProvider, openDriver()), `p${turn}`, longSessionId);
      const allMessages = await agent.sessions.messages(longSessionId);
      assert.ok(findHistoryFaults(allMessages).length > 0, "tool call ids repeat along the chain");
      const forkedMessages = await agent.sessions.messages(
        (await agent.sessions.fork(longSessionId, allMessages.at(-1)!.id)).id,
      );
      assert.equal(forkedMessages.length, 48);
      assert.deepEqual(findHistoryFaults(forkedMessages), []);
      // Forks between the second call and its result.
      const fork = await agent.sessions.fork(sessionId, messages[5]!.id);
      await sendPrompt(agent, "three", fork.id);
      assert.deepEqual(findHistoryFaults(provider.requests.at(-1)?.messages ?? []), []);
      assert.deepEqual((await readTexts(agent, fork.id)).slice(-3), ["[interrupted: outcome unknown]", "three", "ok"]);
    });
  });

  describe(`revert and restore (${name})`, () => {
    it("hide the messages after a point, and show them again", async (t) => {
      const openDriver = await makeStore(t);
      const provider = createEchoProvider();
      const agent = createAgent(t, provider, openDriver());
      const events: [keyof BusEvents, unknown][] = [];
      agent.on("session.reverted", (event) => events.push(["session.reverted", event]));
      const { sessionId } = await sendPrompt(agent, "one");
      await sendPrompt(agent, "two", sessionId);
      await sendPrompt(agent, "three", sessionId);
      const usage = (await agent.sessions.get(sessionId))?.usage;
      const firstSnapshot = await agent.sessions.revert(sessionId, await findMessageId(agent, sessionId, "re one"));
      assert.equal(firstSnapshot.after, 2);
      assert.deepEqual(events, [["session.reverted", { sessionId, snapshotId: firstSnapshot.id }]]);
      assert.deepEqual(await agent.sessions.snapshots(sessionId), [firstSnapshot]);
      assert.deepEqual(await readTexts(agent, sessionId), ["one", "re one"]);
      assert.deepEqual((await agent.sessions.get(sessionId))?.usage, usage, "a revert does not reduce the usage");

      await sendPrompt(agent, "other", sessionId);
      assert.deepEqual(
        (await agent.sessions.messages(sessionId)).map((message) => message.seq),
        [1, 2, 7, 8],
      );
      assert.deepEqual(
        provider.lastRequest?.messages.map((message) => toText(message as Message)),
        ["one", "re one", "other"],
      );
      const replacedBranch = await agent.sessions.restore(sessionId, firstSnapshot.id);
      assert.ok(replacedBranch);
      assert.deepEqual(await readTexts(agent, sessionId), ["one", "re one", "two", "re two", "three", "re three"]);
      assert.deepEqual(await agent.sessions.snapshots(sessionId), [replacedBranch]);
      await sendPrompt(agent, "four", sessionId);
      assert.equal((await agent.sessions.messages(sessionId)).at(-1)?.seq, 10, "sequence numbers are not reused");

      const secondReplacedBranch = await agent.sessions.restore(sessionId, replacedBranch.id);
      assert.deepEqual(await readTexts(agent, sessionId), ["one", "re one", "other", "re other"]);
      assert.ok(secondReplacedBranch);
      await agent.sessions.restore(sessionId, secondReplacedBranch.id);
      assert.equal((await readTexts(agent, sessionId)).length, 8);
    });

    it("restore a branch that a later revert shortened", async (t) => {
      const openDriver = await makeStore(t);
      const agent = createAgent(t, createEchoProvider(), openDriver());
      const { sessionId } = await sendPrompt(agent, "one");
      for (const message of ["two", "three"]) await sendPrompt(agent, message, sessionId);
      const firstSnapshot = await agent.sessions.revert(sessionId, await findMessageId(agent, sessionId, "re two"));
      await sendPrompt(agent, "third way", sessionId);
      await agent.sessions.revert(sessionId, await findMessageId(agent, sessionId, "re one"));
      await sendPrompt(agent, "second way", sessionId);
      const replacedBranch = await agent.sessions.restore(sessionId, firstSnapshot.id);
      assert.deepEqual(await readTexts(agent, sessionId), ["one", "re one", "two", "re two", "three", "re three"]);
      assert.ok(replacedBranch);
      await agent.sessions.restore(sessionId, replacedBranch.id);
      assert.deepEqual(await readTexts(agent, sessionId), ["one", "re one", "second way", "re second way"]);
    });

    it("revert into an earlier session of a chain, and restore the later sessions", async (t) => {
      const openDriver = await makeStore(t);
      const provider = createEchoProvider(4_000);
      const agent = createAgent(t, provider, openDriver());
      const { sessionId, followUps } = await createChain(agent, 24);
      const allTexts = await readTexts(agent, sessionId);
      const modelMessages = await agent.sessions.messages(sessionId, { view: "model" });
      const chainMessages = await agent.sessions.messages(sessionId);
      // The end of the first session, so that the revert needs no new compaction.
      const firstSessionEnd = chainMessages.findLast((message) => message.sessionId === sessionId)!;
      const snapshot = await agent.sessions.revert(followUps.at(-1)!, firstSessionEnd.id);
      assert.deepEqual(await readTexts(agent, sessionId), allTexts.slice(0, firstSessionEnd.seq));
      assert.deepEqual(
        await agent.sessions.messages(sessionId, { view: "model" }),
        chainMessages.slice(0, firstSessionEnd.seq),
        "the first session is the newest again",
      );
      const laterFollowUps: string[] = [];
      agent.on("session.compacted", ({ to }) => laterFollowUps.push(to));
      for (const message of ["q1", "q2", "q3"]) await sendPrompt(agent, `${message} ${"long ".repeat(200)}`, sessionId);
      assert.ok(laterFollowUps.length > 0, "a new follow-up is created in addition to the reverted ones");
      const laterTexts = await readTexts(agent, sessionId);
      assert.equal(laterTexts.length, firstSessionEnd.seq + 6);

      const replacedBranch = await agent.sessions.restore(sessionId, snapshot.id);
      assert.ok(replacedBranch);
      assert.deepEqual(await readTexts(agent, sessionId), allTexts);
      assert.deepEqual(await agent.sessions.messages(sessionId, { view: "model" }), modelMessages);
      await sendPrompt(agent, "next", sessionId);
      await agent.sessions.restore(sessionId, replacedBranch.id);
      assert.deepEqual(await readTexts(agent, sessionId), laterTexts);
      await sendPrompt(agent, "last", laterFollowUps[0]);
      assert.deepEqual((await readTexts(agent, sessionId)).slice(-2), ["last", "re last"]);
      assert.deepEqual(provider.violations, []);
      assert.equal(provider.refusedCount, 0);
      const { sessions, total } = await agent.sessions.list({ limit: 5 });
      assert.deepEqual([total, sessions[0]?.id], [1, sessionId]);
      await agent.sessions.delete(followUps[0]!);
      assert.equal((await agent.sessions.list({ limit: 5 })).total, 0);
    });

    it("keep the chain's title and reasoning effort after a revert into an older follow-up", async (t) => {
      const openDriver = await makeStore(t);
      const agent = createAgent(t, createEchoProvider(4_000), openDriver());
      const { sessionId, followUps } = await createChain(agent, 24);
      assert.ok(followUps.length >= 2);
      const chainMessages = await agent.sessions.messages(sessionId);
      const followUpMessage = chainMessages.find((message) => message.sessionId === followUps[0])!;
      await agent.sessions.update(sessionId, { title: "New name", reasoningEffort: "high" });
      await agent.sessions.revert(sessionId, followUpMessage.id);
      await sendPrompt(agent, "next", sessionId);
      const session = await agent.sessions.get(sessionId);
      assert.deepEqual([session?.title, session?.reasoningEffort], ["New name", "high"]);
      assert.equal((await agent.sessions.get(followUps[0]!))?.reasoningEffort, "high");
    });

    it("reject unknown ids, and a session with an active run", async (t) => {
      const openDriver = await makeStore(t);
      const driver = openDriver();
      let resolveAnswer = () => undefined as void;
      const pendingAnswer = new Promise<string>((resolve) => (resolveAnswer = () => resolve("done")));
      const provider = new ScriptedProvider(["ok", () => pendingAnswer]);
      const agent = createAgent(t, provider, driver);
      const { sessionId } = await sendPrompt(agent, "one");
      const [message] = await agent.sessions.messages(sessionId);
      const snapshot = await agent.sessions.revert(sessionId, message!.id);
      for (const method of ["fork", "revert", "restore"] as const) {
        await assert.rejects(agent.sessions[method]("none", message!.id), { code: "session_not_found" });
        await assert.rejects(agent.sessions[method](sessionId, "none"), { code: "point_not_found" });
      }
      await assert.rejects(agent.sessions.snapshots("none"), { code: "session_not_found" });
      const run = await agent.run({ message: "two", sessionId });
      const secondAgent = createAgent(t, new ScriptedProvider(), openDriver());
      for (const busyAgent of [agent, secondAgent]) {
        await assert.rejects(busyAgent.sessions.fork(sessionId, message!.id), { code: "session_busy" });
        await assert.rejects(busyAgent.sessions.revert(sessionId, message!.id), { code: "session_busy" });
        await assert.rejects(busyAgent.sessions.restore(sessionId, snapshot.id), { code: "session_busy" });
      }
      resolveAnswer();
      await run.result;
      assert.equal((await secondAgent.sessions.snapshots(sessionId)).length, 1);
      await secondAgent.sessions.restore(sessionId, snapshot.id);
      assert.deepEqual(await readTexts(agent, sessionId), ["one", "ok"]);
    });

    it("lose no message and show only known branches in a random sequence of runs, reverts and restores", async (t) => {
      const openDriver = await makeStore(t);
      const provider = createEchoProvider(4_000);
      const agent = createAgent(t, provider, openDriver());
      const random = createRandom(name.length);
      const { sessionId } = await sendPrompt(agent, "p0");
      const branches = new Set<string>();
      const branchesBySnapshotId = new Map<string, string>();
      const messageIds = new Set<string>();
      const readBranch = async () => JSON.stringify(await readTexts(agent, sessionId));
      let lastSeq = 0;
      for (let step = 1; step <= 60; step++) {
        const previousBranch = await readBranch();
        branches.add(previousBranch);
        const storedSnapshots = await agent.sessions.snapshots(sessionId);
        const choice = random();
        if (choice < 0.5 || step < 5) {
          await sendPrompt(agent, `p${step} ${"long ".repeat(150)}`, sessionId);
          const messages = await agent.sessions.messages(sessionId);
          const [prompt, answer] = messages.slice(-2);
          assert.ok(prompt!.seq > lastSeq, "the sequence number increases");
          lastSeq = answer!.seq;
          for (const message of messages) messageIds.add(message.id);
          assert.equal(
            await readBranch(),
            JSON.stringify([...(JSON.parse(previousBranch) as string[]), toText(prompt), toText(answer)]),
          );
        } else if (choice < 0.75 || storedSnapshots.length === 0) {
          const messages = await agent.sessions.messages(sessionId);
          const messageIndex = Math.floor(random() * messages.length);
          const snapshot = await agent.sessions.revert(sessionId, messages[messageIndex]!.id);
          branchesBySnapshotId.set(snapshot.id, previousBranch);
          assert.equal(await readBranch(), JSON.stringify(messages.slice(0, messageIndex + 1).map(toText)));
        } else {
          const snapshot = storedSnapshots[Math.floor(random() * storedSnapshots.length)]!;
          const replacedBranch = await agent.sessions.restore(sessionId, snapshot.id);
          const currentBranch = await readBranch();
          const expectedBranch = branchesBySnapshotId.get(snapshot.id);
          if (expectedBranch !== undefined) assert.equal(currentBranch, expectedBranch, `step ${step}`);
          assert.ok(branches.has(currentBranch), `step ${step}: the branch is known`);
          if (replacedBranch) branchesBySnapshotId.set(replacedBranch.id, previousBranch);
        }
        const view = await agent.sessions.messages(sessionId, { view: "model" });
        assert.equal(
          toText(view.at(-1)),
          (JSON.parse(await readBranch()) as string[]).at(-1),
          `step ${step}: the model view ends with the last message`,
        );
      }
      const driver = openDriver();
      await driver.open();
      t.after(() => driver.close());
      const { sessions = [] } = (await driver.dump(sessionId)) ?? {};
      const storedIds = sessions.flatMap(({ messages }) => messages.map(({ message }) => message.id));
      assert.deepEqual(new Set(storedIds), messageIds);
      assert.deepEqual(provider.violations, []);
      assert.equal(provider.refusedCount, 0);
      assert.equal((await agent.sessions.list({ limit: 5 })).total, 1);
    });
  });

  describe(`empty sessions (${name})`, () => {
    it("are deleted after seven days if they have an alias and no lease", async (t) => {
      const openDriver = await makeStore(t);
      const driver = openDriver();
      await driver.open();
      t.after(() => driver.close());
      const oldTimestamp = new Date(Date.now() - MAX_EMPTY_SESSION_AGE_MS - 60_000).toISOString();
      const agent = createAgent(t, createEchoProvider(), openDriver());
      const { sessionId: usedId } = await sendPrompt(agent, "one");
      const baseSession = (await agent.sessions.get(usedId))!;
      const addSession = (id: string, fields: { alias: string; updatedAt: string }) =>
        driver.create({
          session: {
            ...baseSession,
            id,
            chain: { root: id, index: 0 },
            lastSeq: 0,
            createdAt: oldTimestamp,
            ...fields,
          },
        });
      const emptyIds = Array.from({ length: 120 }, (_, i) => `old-${String(i).padStart(3, "0")}`);
      for (const id of emptyIds) await addSession(id, { alias: `acp-${id}`, updatedAt: oldTimestamp });
      await addSession("young", { alias: "acp-young", updatedAt: new Date().toISOString() });
      await addSession("by hand", { alias: "", updatedAt: oldTimestamp });
      await addSession("busy", { alias: "acp-busy", updatedAt: oldTimestamp });
      const holder = { id: "h", host: "elsewhere", boot: "", pid: 1, started: "" };
      await driver.lease("busy", holder, 60_000);

      const deletedIds: string[] = [];
      const signal = new AbortController().signal;
      await deleteEmptySessions(driver, Date.now() - MAX_EMPTY_SESSION_AGE_MS, silentLogger, signal, (id) =>
        deletedIds.push(id),
      );
      assert.deepEqual(deletedIds.sort(), emptyIds);
      const remainingIds = (await driver.list({ limit: 500 })).sessions.map((session) => session.id);
      assert.deepEqual(remainingIds.sort(), ["busy", "by hand", usedId, "young"].sort());
    });

    it("are deleted by the background housekeeping", async (t) => {
      const openDriver = await makeStore(t);
      const driver = openDriver();
      await driver.open();
      t.after(() => driver.close());
      const agent = createAgent(t, createEchoProvider(), openDriver());
      const session = await agent.sessions.create({ alias: "acp" });
      const oldTimestamp = new Date(Date.now() - MAX_EMPTY_SESSION_AGE_MS - 60_000).toISOString();
      await driver.create({
        session: {
          ...session,
          id: "old",
          alias: "acp-old",
          chain: { root: "old", index: 0 },
          updatedAt: oldTimestamp,
        },
      });
      let resolveDeletion = (_id: string) => undefined as void;
      const firstDeletedId = new Promise<string>((resolve) => (resolveDeletion = resolve));
      const housekeeping = new Housekeeping({
        driver,
        logger: silentLogger,
        onDeleted: (id) => resolveDeletion(id),
        firstCleanupDelayMs: 0,
      });
      // The timer under test does not keep the process alive.
      const keepAliveTimer = setInterval(() => undefined, 1000);
      assert.equal(await firstDeletedId, "old");
      clearInterval(keepAliveTimer);
      await housekeeping.close();
      assert.equal((await driver.list({ limit: 5 })).total, 1);
    });
  });
}

/** Mulberry32: returns the same numbers for the same seed. */
function createRandom(seed: number): () => number {
  let state = seed * 7919 + 1;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
