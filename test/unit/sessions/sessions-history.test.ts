import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, type BusEvents, type Message, type Run, type Tool } from "gantry";
import type { ModelProvider, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { EMPTY_MS, Housekeeping, removeEmpty } from "../../../src/sessions/housekeeping.js";
import { silentLogger } from "../../../src/base/log.js";
import { STORES } from "../../helpers/stores.js";
import { brokenRules, WindowProvider } from "../../helpers/window-provider.js";

const note: Tool<{ text: string }> = {
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

function make(t: TestContext, provider: ModelProvider, driver: SessionDriver): Agent {
  const agent = new Agent({ providers: [provider], driver, tools: [note] });
  t.after(() => agent.close());
  return agent;
}

const text = (message: Message | undefined): string =>
  (message?.parts ?? []).map((part) => ("text" in part ? part.text : "")).join("");

async function textsOf(agent: Agent, id: string): Promise<string[]> {
  return (await agent.sessions.messages(id)).map(text);
}

async function ask(agent: Agent, message: string, sessionId?: string): Promise<Run> {
  const run = await agent.run({ message, ...(sessionId === undefined ? {} : { sessionId }) });
  await run.result;
  return run;
}

/** A model that answers with `re <question>`. */
function echo(window = 128_000): WindowProvider {
  return new WindowProvider({
    window,
    answer: ({ messages }) => `re ${text(messages.at(-1) as Message).slice(0, 20)}`,
  });
}

/** The id of the message that starts with this text. */
async function idOf(agent: Agent, session: string, prefix: string): Promise<string> {
  const message = (await agent.sessions.messages(session)).find((candidate) => text(candidate).startsWith(prefix));
  assert.ok(message, prefix);
  return message.id;
}

/** A chain of at least three sessions, with one prompt per turn: `p1 ...`, `p2 ...`. */
async function chain(agent: Agent, turns: number): Promise<{ sessionId: string; followUps: string[] }> {
  const followUps: string[] = [];
  const off = agent.on("session.compacted", ({ to }) => void followUps.push(to));
  const { sessionId } = await ask(agent, `p1 ${"long ".repeat(200)}`);
  for (let turn = 2; turn <= turns; turn++) await ask(agent, `p${turn} ${"long ".repeat(200)}`, sessionId);
  off();
  return { sessionId, followUps };
}

for (const [name, makeStore] of STORES) {
  describe(`fork (${name})`, () => {
    it("copies the conversation up to a message into a new session", async (t) => {
      const store = await makeStore(t);
      const agent = make(t, echo(), store());
      const { sessionId } = await ask(agent, "one");
      await ask(agent, "two", sessionId);
      await ask(agent, "three", sessionId);
      await agent.sessions.update(sessionId, { title: "Mine", reasoningEffort: "low" });
      const events: unknown[] = [];
      agent.on("session.forked", (event) => events.push(event));
      const source = await agent.sessions.messages(sessionId);
      const forked = await agent.sessions.fork(sessionId, source[3]!.id);

      assert.deepEqual(events, [{ from: sessionId, to: forked.id }]);
      assert.deepEqual(await agent.sessions.get(forked.id), forked);
      const { title, hasFinalTitle: titled, parentId, provider, model, reasoningEffort, lastSeq, usage } = forked;
      assert.deepEqual([title, titled, parentId, provider, model], ["Mine", true, sessionId, "window", "m1"]);
      assert.deepEqual([reasoningEffort, lastSeq, usage.totalTokens, forked.alias], ["low", 4, 0, ""]);
      assert.deepEqual(forked.chain, { root: forked.id, index: 0 });
      const copied = await agent.sessions.messages(forked.id);
      assert.deepEqual(copied.map(text), ["one", "re one", "two", "re two"]);
      assert.deepEqual(
        copied.map(({ seq, sessionId: owner }) => [seq, owner]),
        [1, 2, 3, 4].map((seq) => [seq, forked.id]),
      );
      const ids = new Set([...source, ...copied].map((message) => message.id));
      assert.equal(ids.size, 6 + 4);
      for (const { id, seq, sessionId: _, ...copiedFields } of copied) {
        const { id: sourceId, seq: same, sessionId: __, ...original } = source[seq - 1]!;
        assert.notEqual(id, sourceId);
        assert.equal(seq, same);
        assert.deepEqual(copiedFields, original);
      }

      await ask(agent, "four", forked.id);
      assert.deepEqual((await textsOf(agent, forked.id)).slice(-2), ["four", "re four"]);
      assert.equal((await textsOf(agent, sessionId)).length, 6);
      await agent.sessions.delete(sessionId);
      assert.equal((await textsOf(agent, forked.id)).length, 6, "a fork survives its parent");
      assert.equal((await agent.sessions.list({ limit: 9 })).total, 1);
    });

    it("copies a chain into a single session, which its next run compacts", async (t) => {
      const store = await makeStore(t);
      const provider = echo(4_000);
      const agent = make(t, provider, store());
      const { sessionId, followUps } = await chain(agent, 24);
      assert.ok(followUps.length >= 2);
      const allTexts = await textsOf(agent, sessionId);
      const forked = await agent.sessions.fork(followUps[0]!, await idOf(agent, sessionId, "re p20"));
      assert.deepEqual(await textsOf(agent, forked.id), allTexts.slice(0, 40));
      assert.equal(forked.parentId, sessionId);
      let compacted = 0;
      agent.on("session.compacted", ({ rootId }) => (compacted += Number(rootId === forked.id)));
      await ask(agent, "next", forked.id);
      assert.equal(compacted, 1);
      assert.equal(provider.refused, 0);
      assert.deepEqual(provider.violations, []);
      assert.deepEqual((await textsOf(agent, forked.id)).slice(-2), ["next", "re next"]);
      assert.deepEqual(await textsOf(agent, sessionId), allTexts);
    });

    it("makes reused tool call ids unique, and completes a call without a result", async (t) => {
      const store = await makeStore(t);
      const provider = new ScriptedProvider([
        callTools(["note", { text: "a" }]),
        "first",
        callTools(["note", { text: "b" }]),
        "second",
      ]);
      const agent = make(t, provider, store());
      const { sessionId } = await ask(agent, "one");
      await ask(agent, "two", sessionId);
      const messages = await agent.sessions.messages(sessionId);
      assert.deepEqual(brokenRules(messages), []);
      // A run in a follow-up does not know the call ids of earlier sessions.
      const small = new ScriptedProvider(
        Array.from({ length: 12 }, () => [callTools(["note", { text: "x ".repeat(900) }]), "noted"]).flat(),
        { models: [{ id: "m", name: "m", ownedBy: "", contextWindow: 4_000 }] },
      );
      const { sessionId: long } = await ask(make(t, small, store()), "p1");
      for (let turn = 2; turn <= 12; turn++) await ask(make(t, small, store()), `p${turn}`, long);
      const allMessages = await agent.sessions.messages(long);
      assert.ok(brokenRules(allMessages).length > 0, "names are used again along the chain");
      const apart = await agent.sessions.messages((await agent.sessions.fork(long, allMessages.at(-1)!.id)).id);
      assert.equal(apart.length, 48);
      assert.deepEqual(brokenRules(apart), []);
      // Forks between the second call and its result.
      const forked = await agent.sessions.fork(sessionId, messages[5]!.id);
      await ask(agent, "three", forked.id);
      assert.deepEqual(brokenRules(provider.requests.at(-1)?.messages ?? []), []);
      assert.deepEqual((await textsOf(agent, forked.id)).slice(-3), ["[interrupted: outcome unknown]", "three", "ok"]);
    });
  });

  describe(`revert and restore (${name})`, () => {
    it("hide the messages after a point, and show them again", async (t) => {
      const store = await makeStore(t);
      const provider = echo();
      const agent = make(t, provider, store());
      const events: [keyof BusEvents, unknown][] = [];
      agent.on("session.reverted", (event) => events.push(["session.reverted", event]));
      const { sessionId } = await ask(agent, "one");
      await ask(agent, "two", sessionId);
      await ask(agent, "three", sessionId);
      const usage = (await agent.sessions.get(sessionId))?.usage;
      const first = await agent.sessions.revert(sessionId, await idOf(agent, sessionId, "re one"));
      assert.equal(first.after, 2);
      assert.deepEqual(events, [["session.reverted", { sessionId, snapshotId: first.id }]]);
      assert.deepEqual(await agent.sessions.snapshots(sessionId), [first]);
      assert.deepEqual(await textsOf(agent, sessionId), ["one", "re one"]);
      assert.deepEqual((await agent.sessions.get(sessionId))?.usage, usage, "what was used was used");

      await ask(agent, "other", sessionId);
      assert.deepEqual(
        (await agent.sessions.messages(sessionId)).map((message) => message.seq),
        [1, 2, 7, 8],
      );
      assert.deepEqual(
        provider.last?.messages.map((message) => text(message as Message)),
        ["one", "re one", "other"],
      );
      const aside = await agent.sessions.restore(sessionId, first.id);
      assert.ok(aside);
      assert.deepEqual(await textsOf(agent, sessionId), ["one", "re one", "two", "re two", "three", "re three"]);
      assert.deepEqual(await agent.sessions.snapshots(sessionId), [aside]);
      await ask(agent, "four", sessionId);
      assert.equal((await agent.sessions.messages(sessionId)).at(-1)?.seq, 10, "a seq is never used again");

      const again = await agent.sessions.restore(sessionId, aside.id);
      assert.deepEqual(await textsOf(agent, sessionId), ["one", "re one", "other", "re other"]);
      assert.ok(again);
      await agent.sessions.restore(sessionId, again.id);
      assert.equal((await textsOf(agent, sessionId)).length, 8);
    });

    it("restore a branch that a later revert shortened", async (t) => {
      const store = await makeStore(t);
      const agent = make(t, echo(), store());
      const { sessionId } = await ask(agent, "one");
      for (const message of ["two", "three"]) await ask(agent, message, sessionId);
      const deep = await agent.sessions.revert(sessionId, await idOf(agent, sessionId, "re two"));
      await ask(agent, "third way", sessionId);
      await agent.sessions.revert(sessionId, await idOf(agent, sessionId, "re one"));
      await ask(agent, "second way", sessionId);
      const aside = await agent.sessions.restore(sessionId, deep.id);
      assert.deepEqual(await textsOf(agent, sessionId), ["one", "re one", "two", "re two", "three", "re three"]);
      assert.ok(aside);
      await agent.sessions.restore(sessionId, aside.id);
      assert.deepEqual(await textsOf(agent, sessionId), ["one", "re one", "second way", "re second way"]);
    });

    it("revert into an earlier session of a chain, and restore the later sessions", async (t) => {
      const store = await makeStore(t);
      const provider = echo(4_000);
      const agent = make(t, provider, store());
      const { sessionId, followUps } = await chain(agent, 24);
      const allTexts = await textsOf(agent, sessionId);
      const seen = await agent.sessions.messages(sessionId, { view: "model" });
      const all = await agent.sessions.messages(sessionId);
      // The last message of the first session. After the revert no part of it is compacted again without need.
      const last = all.findLast((message) => message.sessionId === sessionId)!;
      const snapshot = await agent.sessions.revert(followUps.at(-1)!, last.id);
      assert.deepEqual(await textsOf(agent, sessionId), allTexts.slice(0, last.seq));
      assert.deepEqual(
        await agent.sessions.messages(sessionId, { view: "model" }),
        all.slice(0, last.seq),
        "the first session is the newest again",
      );
      const later: string[] = [];
      agent.on("session.compacted", ({ to }) => later.push(to));
      for (const message of ["q1", "q2", "q3"]) await ask(agent, `${message} ${"long ".repeat(200)}`, sessionId);
      assert.ok(later.length > 0, "a follow-up is made beside those that were cut");
      const laterTexts = await textsOf(agent, sessionId);
      assert.equal(laterTexts.length, last.seq + 6);

      const aside = await agent.sessions.restore(sessionId, snapshot.id);
      assert.ok(aside);
      assert.deepEqual(await textsOf(agent, sessionId), allTexts);
      assert.deepEqual(await agent.sessions.messages(sessionId, { view: "model" }), seen);
      await ask(agent, "next", sessionId);
      await agent.sessions.restore(sessionId, aside.id);
      assert.deepEqual(await textsOf(agent, sessionId), laterTexts);
      await ask(agent, "last", later[0]);
      assert.deepEqual((await textsOf(agent, sessionId)).slice(-2), ["last", "re last"]);
      assert.deepEqual(provider.violations, []);
      assert.equal(provider.refused, 0);
      const { sessions, total } = await agent.sessions.list({ limit: 5 });
      assert.deepEqual([total, sessions[0]?.id], [1, sessionId]);
      await agent.sessions.delete(followUps[0]!);
      assert.equal((await agent.sessions.list({ limit: 5 })).total, 0);
    });

    it("keep the chain's title and reasoning effort after a revert into an older follow-up", async (t) => {
      const store = await makeStore(t);
      const agent = make(t, echo(4_000), store());
      const { sessionId, followUps } = await chain(agent, 24);
      assert.ok(followUps.length >= 2);
      const all = await agent.sessions.messages(sessionId);
      const inFirst = all.find((message) => message.sessionId === followUps[0])!;
      await agent.sessions.update(sessionId, { title: "New name", reasoningEffort: "high" });
      await agent.sessions.revert(sessionId, inFirst.id);
      await ask(agent, "next", sessionId);
      const session = await agent.sessions.get(sessionId);
      assert.deepEqual([session?.title, session?.reasoningEffort], ["New name", "high"]);
      assert.equal((await agent.sessions.get(followUps[0]!))?.reasoningEffort, "high");
    });

    it("reject unknown ids, and a session with an active run", async (t) => {
      const store = await makeStore(t);
      const driver = store();
      let go = () => undefined as void;
      const gate = new Promise<string>((resolve) => (go = () => resolve("done")));
      const provider = new ScriptedProvider(["ok", () => gate]);
      const agent = make(t, provider, driver);
      const { sessionId } = await ask(agent, "one");
      const [message] = await agent.sessions.messages(sessionId);
      const snapshot = await agent.sessions.revert(sessionId, message!.id);
      for (const method of ["fork", "revert", "restore"] as const) {
        await assert.rejects(agent.sessions[method]("none", message!.id), { code: "session_not_found" });
        await assert.rejects(agent.sessions[method](sessionId, "none"), { code: "point_not_found" });
      }
      await assert.rejects(agent.sessions.snapshots("none"), { code: "session_not_found" });
      const run = await agent.run({ message: "two", sessionId });
      const secondAgent = make(t, new ScriptedProvider(), store());
      for (const eachAgent of [agent, secondAgent]) {
        await assert.rejects(eachAgent.sessions.fork(sessionId, message!.id), { code: "session_busy" });
        await assert.rejects(eachAgent.sessions.revert(sessionId, message!.id), { code: "session_busy" });
        await assert.rejects(eachAgent.sessions.restore(sessionId, snapshot.id), { code: "session_busy" });
      }
      go();
      await run.result;
      assert.equal((await secondAgent.sessions.snapshots(sessionId)).length, 1);
      await secondAgent.sessions.restore(sessionId, snapshot.id);
      assert.deepEqual(await textsOf(agent, sessionId), ["one", "ok"]);
    });

    it("lose no message and show only known branches in a random sequence of runs, reverts and restores", async (t) => {
      const store = await makeStore(t);
      const provider = echo(4_000);
      const agent = make(t, provider, store());
      const random = seeded(name.length);
      const { sessionId } = await ask(agent, "p0");
      const branches = new Set<string>();
      const snapshots = new Map<string, string>();
      const everything = new Set<string>();
      const now = async () => JSON.stringify(await textsOf(agent, sessionId));
      let lastSeq = 0;
      for (let step = 1; step <= 60; step++) {
        const before = await now();
        branches.add(before);
        const storedSnapshots = await agent.sessions.snapshots(sessionId);
        const dice = random();
        if (dice < 0.5 || step < 5) {
          await ask(agent, `p${step} ${"long ".repeat(150)}`, sessionId);
          const messages = await agent.sessions.messages(sessionId);
          const [prompt, answer] = messages.slice(-2);
          assert.ok(prompt!.seq > lastSeq, "a new seq");
          lastSeq = answer!.seq;
          for (const message of messages) everything.add(message.id);
          assert.equal(await now(), JSON.stringify([...(JSON.parse(before) as string[]), text(prompt), text(answer)]));
        } else if (dice < 0.75 || storedSnapshots.length === 0) {
          const messages = await agent.sessions.messages(sessionId);
          const at = Math.floor(random() * messages.length);
          const snapshot = await agent.sessions.revert(sessionId, messages[at]!.id);
          snapshots.set(snapshot.id, before);
          assert.equal(await now(), JSON.stringify(messages.slice(0, at + 1).map(text)));
        } else {
          const snapshot = storedSnapshots[Math.floor(random() * storedSnapshots.length)]!;
          const aside = await agent.sessions.restore(sessionId, snapshot.id);
          const after = await now();
          const expected = snapshots.get(snapshot.id);
          if (expected !== undefined) assert.equal(after, expected, `step ${step}`);
          assert.ok(branches.has(after), `step ${step}: a branch that was seen`);
          if (aside) snapshots.set(aside.id, before);
        }
        const view = await agent.sessions.messages(sessionId, { view: "model" });
        assert.equal(text(view.at(-1)), (JSON.parse(await now()) as string[]).at(-1), `step ${step}: the view's end`);
      }
      const driver = store();
      await driver.open();
      t.after(() => driver.close());
      const { sessions = [] } = (await driver.dump(sessionId)) ?? {};
      const storedIds = sessions.flatMap(({ messages }) => messages.map(({ message }) => message.id));
      assert.deepEqual(new Set(storedIds), everything);
      assert.deepEqual(provider.violations, []);
      assert.equal(provider.refused, 0);
      assert.equal((await agent.sessions.list({ limit: 5 })).total, 1);
    });
  });

  describe(`empty sessions (${name})`, () => {
    it("are deleted after seven days if they have an alias and no lease", async (t) => {
      const store = await makeStore(t);
      const driver = store();
      await driver.open();
      t.after(() => driver.close());
      const old = new Date(Date.now() - EMPTY_MS - 60_000).toISOString();
      const agent = make(t, echo(), store());
      const { sessionId: used } = await ask(agent, "one");
      const base = (await agent.sessions.get(used))!;
      const add = (id: string, fields: { alias: string; updatedAt: string }) =>
        driver.create({
          session: { ...base, id, chain: { root: id, index: 0 }, lastSeq: 0, createdAt: old, ...fields },
        });
      const many = Array.from({ length: 120 }, (_, i) => `old-${String(i).padStart(3, "0")}`);
      for (const id of many) await add(id, { alias: `acp-${id}`, updatedAt: old });
      await add("young", { alias: "acp-young", updatedAt: new Date().toISOString() });
      await add("by hand", { alias: "", updatedAt: old });
      await add("busy", { alias: "acp-busy", updatedAt: old });
      const holder = { id: "h", host: "elsewhere", boot: "", pid: 1, started: "" };
      await driver.lease("busy", holder, 60_000);

      const gone: string[] = [];
      const signal = new AbortController().signal;
      await removeEmpty(driver, Date.now() - EMPTY_MS, silentLogger, signal, (id) => gone.push(id));
      assert.deepEqual(gone.sort(), many);
      const remainingIds = (await driver.list({ limit: 500 })).sessions.map((session) => session.id);
      assert.deepEqual(remainingIds.sort(), ["busy", "by hand", used, "young"].sort());
    });

    it("are deleted by the background housekeeping", async (t) => {
      const store = await makeStore(t);
      const driver = store();
      await driver.open();
      t.after(() => driver.close());
      const agent = make(t, echo(), store());
      const session = await agent.sessions.create({ alias: "acp" });
      const old = new Date(Date.now() - EMPTY_MS - 60_000).toISOString();
      await driver.create({
        session: {
          ...session,
          id: "old",
          alias: "acp-old",
          chain: { root: "old", index: 0 },
          updatedAt: old,
        },
      });
      let deleted = (_id: string) => undefined as void;
      const first = new Promise<string>((resolve) => (deleted = resolve));
      const work = new Housekeeping({
        driver,
        logger: silentLogger,
        onDeleted: (id) => deleted(id),
        firstRunDelayMs: 0,
      });
      // The timer under test does not keep the process alive.
      const alive = setInterval(() => undefined, 1000);
      assert.equal(await first, "old");
      clearInterval(alive);
      await work.close();
      assert.equal((await driver.list({ limit: 5 })).total, 1);
    });
  });
}

/** Mulberry32: returns the same numbers for the same seed. */
function seeded(seed: number): () => number {
  let state = seed * 7919 + 1;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
