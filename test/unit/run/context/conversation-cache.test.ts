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

interface TestProcess {
  agent: Agent;
  provider: ScriptedProvider;
  /** For each prompt of a stored session, whether its messages were read from the store. */
  read: boolean[];
  driver: SessionDriver;
}

/** An agent that acts like a separate process. */
function make(
  t: Hooks,
  driver: SessionDriver,
  steps: ConstructorParameters<typeof ScriptedProvider>[0] = [],
): TestProcess {
  const read: boolean[] = [];
  const lease = driver.lease.bind(driver);
  driver.lease = async (id, holder, ttlMs, options) => {
    const leaseResult = await lease(id, holder, ttlMs, options);
    if (options?.head && "head" in leaseResult && leaseResult.head) read.push(leaseResult.head.messages.length > 0);
    return leaseResult;
  };
  const provider = new ScriptedProvider(steps);
  const agent = new Agent({ providers: [provider], driver, tools: [noop] });
  t.after(() => agent.close());
  return { agent, provider, read, driver };
}

async function prompt({ agent }: TestProcess, message: string, sessionId?: string): Promise<string> {
  const run = await agent.run({ message, ...(sessionId === undefined ? {} : { sessionId }) });
  await run.result;
  return run.sessionId;
}

/** The texts of the messages in the model's last request. */
function lastTexts({ provider }: TestProcess): string[] {
  const messages = provider.requests.at(-1)?.messages ?? [];
  return messages.map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : part.type)).join(""));
}

for (const [name, makeStore] of STORES) {
  describe(`the conversation of a later run (${name})`, () => {
    it("contains all earlier messages, also those that another process added", async (t) => {
      const open = await makeStore(t);
      const [firstProcess, secondProcess] = [
        make(t, open(), [say("1"), say("2"), say("5")]),
        make(t, open(), [say("3"), say("4")]),
      ];
      const id = await prompt(firstProcess, "a");
      await prompt(firstProcess, "b", id);
      assert.deepEqual(lastTexts(firstProcess), ["a", "1", "b"]);
      await prompt(secondProcess, "c", id);
      assert.deepEqual(lastTexts(secondProcess), ["a", "1", "b", "2", "c"]);
      await prompt(secondProcess, "d", id);
      await prompt(firstProcess, "e", id);
      assert.deepEqual(lastTexts(firstProcess), ["a", "1", "b", "2", "c", "3", "d", "4", "e"]);
    });

    it("omits the messages that a revert has hidden, and contains them after a restore", async (t) => {
      const open = await makeStore(t);
      const firstProcess = make(t, open(), [say("1"), say("2"), say("3"), say("4")]);
      const id = await prompt(firstProcess, "a");
      await prompt(firstProcess, "b", id);
      const [, first] = await firstProcess.agent.sessions.messages(id);
      const snapshot = await firstProcess.agent.sessions.revert(id, first?.id ?? "");
      await prompt(firstProcess, "c", id);
      assert.deepEqual(lastTexts(firstProcess), ["a", "1", "c"]);
      await firstProcess.agent.sessions.restore(id, snapshot.id);
      await prompt(firstProcess, "d", id);
      assert.deepEqual(lastTexts(firstProcess), ["a", "1", "b", "2", "d"]);
    });

    it("contains tool calls and results, and the prompt of a failed run", async (t) => {
      const open = await makeStore(t);
      const firstProcess = make(t, open(), [callTools(["noop", {}]), say("1"), new Error("broken"), say("3")]);
      const id = await prompt(firstProcess, "a");
      await assert.rejects(prompt(firstProcess, "b", id));
      await prompt(firstProcess, "c", id);
      assert.deepEqual(lastTexts(firstProcess).length, 6);
      assert.deepEqual(lastTexts(firstProcess).slice(-3), ["1", "b", "c"]);
    });

    it("contains the messages of an imported chain that replaced the deleted session", async (t) => {
      const open = await makeStore(t);
      const [firstProcess, secondDriver] = [make(t, open(), [say("1"), say("2"), say("3")]), open()];
      const id = await prompt(firstProcess, "a");
      await secondDriver.open();
      const chain = await secondDriver.dump(id);
      assert.ok(chain);
      await prompt(firstProcess, "b", id);
      await secondDriver.delete([id]);
      await secondDriver.load(chain);
      await prompt(firstProcess, "c", id);
      assert.deepEqual(lastTexts(firstProcess), ["a", "1", "c"]);
    });
  });
}

describe("the conversation cache", () => {
  it("avoids reads of SQLite unless another process held the lease or wrote to the session", async (t) => {
    const [, makeStore] = sqliteStore;
    const open = await makeStore(t);
    const [firstProcess, secondProcess] = [make(t, open()), make(t, open())];
    const id = await prompt(firstProcess, "a");
    await prompt(firstProcess, "b", id);
    await prompt(firstProcess, "c", id);
    assert.deepEqual(firstProcess.read, [false, false]);
    await prompt(secondProcess, "d", id);
    await prompt(firstProcess, "e", id);
    assert.deepEqual(firstProcess.read, [false, false, true]);
    await prompt(firstProcess, "f", id);
    // This write has no lease. No run writes without one.
    const stray = await firstProcess.driver.messages(id, { before: Infinity, limit: 1 });
    const last = stray[0];
    assert.ok(last);
    const strayMessage = {
      ...last,
      id: "stray",
      seq: last.seq + 10,
      parts: [{ type: "text" as const, text: "stray" }],
    };
    await secondProcess.driver.write(id, { fence: null, sync: true, add: [strayMessage] });
    await prompt(firstProcess, "g", id);
    assert.deepEqual(firstProcess.read, [false, false, true, false, true]);
    assert.ok(lastTexts(firstProcess).includes("stray"));
  });

  it("returns a conversation once and for its own lease only, and removes the oldest beyond the size limit", () => {
    const cache = new ConversationCache(10_000);
    const conversationOf = (text: string) => {
      const conversation = new Conversation(newSession({}, { projectDir: "/", mode: "auto" }), []);
      const message = { role: "user" as const, toolCallId: "", name: "", failed: false };
      conversation.add(conversation.compose({ ...message, parts: [{ type: "text", text }] }));
      return conversation;
    };
    const [a, b] = [conversationOf("a"), conversationOf("b".repeat(6_000))];
    cache.keep("a", 1, a);
    assert.equal(cache.take("a", 2), undefined, "another held the lease since");
    assert.equal(cache.take("a", 1), undefined, "and so it is of no use any more");
    cache.keep("a", 1, a);
    assert.equal(cache.take("a", undefined), undefined, "the store does not know");
    cache.keep("a", 3, a);
    assert.equal(cache.take("a", 3), a);
    assert.equal(cache.take("a", 3), undefined, "taken");
    cache.keep("a", 4, a);
    cache.keep("b", 5, b);
    cache.keep("c", 6, conversationOf("c".repeat(6_000)));
    assert.equal(cache.take("b", 5), undefined, "the oldest go first");
    cache.keep("big", 7, conversationOf("d".repeat(20_000)));
    assert.equal(cache.take("big", 7), undefined);
    assert.ok(cache.take("c", 6), "what is too large by itself pushes nothing out");
    cache.keep("a", 8, a);
    cache.clear();
    assert.equal(cache.take("a", 8), undefined);
  });
});
