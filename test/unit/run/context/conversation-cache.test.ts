import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { Conversation } from "../../../../src/conversation/conversation.js";
import { ConversationCache } from "../../../../src/run/context/conversation-cache.js";
import { newSession } from "../../../../src/sessions/new-session.js";
import { noop } from "../../../helpers/noop-tool.js";
import { STORES, sqliteStore } from "../../../helpers/stores.js";
import type { Hooks } from "../../../helpers/temp.js";

interface Made {
  agent: Agent;
  provider: ScriptedProvider;
  /** For each prompt on a stored session, whether its messages were read. */
  read: boolean[];
  driver: SessionDriver;
}

/** An agent as a process of its own would have it. */
function make(t: Hooks, driver: SessionDriver, steps: ConstructorParameters<typeof ScriptedProvider>[0] = []): Made {
  const read: boolean[] = [];
  const lease = driver.lease.bind(driver);
  driver.lease = async (id, holder, ttlMs, options) => {
    const told = await lease(id, holder, ttlMs, options);
    if (options?.head && "head" in told && told.head) read.push(told.head.messages.length > 0);
    return told;
  };
  const provider = new ScriptedProvider(steps);
  const agent = new Agent({ providers: [provider], driver, tools: [noop] });
  t.after(() => agent.close());
  return { agent, provider, read, driver };
}

async function prompt({ agent }: Made, message: string, sessionId?: string): Promise<string> {
  const run = await agent.run({ message, ...(sessionId === undefined ? {} : { sessionId }) });
  await run.result;
  return run.sessionId;
}

/** What the model was last told, a text a message. */
function told({ provider }: Made): string[] {
  const messages = provider.requests.at(-1)?.messages ?? [];
  return messages.map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : part.type)).join(""));
}

for (const [name, makeStore] of STORES) {
  describe(`a conversation of a run before (${name})`, () => {
    it("is told whole, also what another process said meanwhile", async (t) => {
      const open = await makeStore(t);
      const [one, two] = [make(t, open(), [say("1"), say("2"), say("5")]), make(t, open(), [say("3"), say("4")])];
      const id = await prompt(one, "a");
      await prompt(one, "b", id);
      assert.deepEqual(told(one), ["a", "1", "b"]);
      await prompt(two, "c", id);
      assert.deepEqual(told(two), ["a", "1", "b", "2", "c"]);
      await prompt(two, "d", id);
      await prompt(one, "e", id);
      assert.deepEqual(told(one), ["a", "1", "b", "2", "c", "3", "d", "4", "e"]);
    });

    it("is told without what a revert put aside, and with it after a restore", async (t) => {
      const open = await makeStore(t);
      const one = make(t, open(), [say("1"), say("2"), say("3"), say("4")]);
      const id = await prompt(one, "a");
      await prompt(one, "b", id);
      const [, first] = await one.agent.sessions.messages(id);
      const snapshot = await one.agent.sessions.revert(id, first?.id ?? "");
      await prompt(one, "c", id);
      assert.deepEqual(told(one), ["a", "1", "c"]);
      await one.agent.sessions.restore(id, snapshot.id);
      await prompt(one, "d", id);
      assert.deepEqual(told(one), ["a", "1", "b", "2", "d"]);
    });

    it("is told with its calls and results, and after a run that failed", async (t) => {
      const open = await makeStore(t);
      const one = make(t, open(), [callTools(["noop", {}]), say("1"), new Error("broken"), say("3")]);
      const id = await prompt(one, "a");
      await assert.rejects(prompt(one, "b", id));
      await prompt(one, "c", id);
      assert.deepEqual(told(one).length, 6);
      assert.deepEqual(told(one).slice(-3), ["1", "b", "c"]);
    });

    it("is told as what was imported in place of a deleted one", async (t) => {
      const open = await makeStore(t);
      const [one, other] = [make(t, open(), [say("1"), say("2"), say("3")]), open()];
      const id = await prompt(one, "a");
      await other.open();
      const chain = await other.dump(id);
      assert.ok(chain);
      await prompt(one, "b", id);
      await other.delete([id]);
      await other.load(chain);
      await prompt(one, "c", id);
      assert.deepEqual(told(one), ["a", "1", "c"]);
    });
  });
}

describe("a conversation that a process goes on with", () => {
  it("is not read again from SQLite, unless somebody else held the session", async (t) => {
    const [, makeStore] = sqliteStore;
    const open = await makeStore(t);
    const [one, two] = [make(t, open()), make(t, open())];
    const id = await prompt(one, "a");
    await prompt(one, "b", id);
    await prompt(one, "c", id);
    assert.deepEqual(one.read, [false, false]);
    await prompt(two, "d", id);
    await prompt(one, "e", id);
    assert.deepEqual(one.read, [false, false, true]);
    await prompt(one, "f", id);
    // Written by whoever holds no lease, as no run does.
    const stray = await one.driver.messages(id, { before: Infinity, limit: 1 });
    const last = stray[0];
    assert.ok(last);
    const lost = { ...last, id: "stray", seq: last.seq + 10, parts: [{ type: "text" as const, text: "stray" }] };
    await two.driver.write(id, { fence: null, sync: true, add: [lost] });
    await prompt(one, "g", id);
    assert.deepEqual(one.read, [false, false, true, false, true]);
    assert.ok(told(one).includes("stray"));
  });

  it("is kept for the lease it was written under, by one at a time, and within its bounds", () => {
    const kept = new ConversationCache(10_000);
    const of = (text: string) => {
      const conversation = new Conversation(newSession({}, { projectDir: "/", mode: "auto" }), []);
      const message = { role: "user" as const, toolCallId: "", name: "", failed: false };
      conversation.add(conversation.compose({ ...message, parts: [{ type: "text", text }] }));
      return conversation;
    };
    const [a, b] = [of("a"), of("b".repeat(6_000))];
    kept.keep("a", 1, a);
    assert.equal(kept.take("a", 2), undefined, "another held the lease since");
    assert.equal(kept.take("a", 1), undefined, "and so it is of no use any more");
    kept.keep("a", 1, a);
    assert.equal(kept.take("a", undefined), undefined, "the store does not know");
    kept.keep("a", 3, a);
    assert.equal(kept.take("a", 3), a);
    assert.equal(kept.take("a", 3), undefined, "taken");
    kept.keep("a", 4, a);
    kept.keep("b", 5, b);
    kept.keep("c", 6, of("c".repeat(6_000)));
    assert.equal(kept.take("b", 5), undefined, "the oldest go first");
    kept.keep("big", 7, of("d".repeat(20_000)));
    assert.equal(kept.take("big", 7), undefined);
    assert.ok(kept.take("c", 6), "what is too large by itself pushes nothing out");
    kept.keep("a", 8, a);
    kept.clear();
    assert.equal(kept.take("a", 8), undefined);
  });
});
