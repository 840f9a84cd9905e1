import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { Conversation } from "../../../../src/conversation/conversation.js";
import { ConversationCache } from "../../../../src/run/context/conversation-cache.js";
import { createNewSession } from "../../../../src/sessions/new-session.js";
import { noopTool } from "../../../helpers/noop-tool.js";
import { STORES, sqliteStore } from "../../../helpers/stores.js";
import type { Hooks } from "../../../helpers/temp-dir.js";

interface TestProcess {
  agent: Agent;
  provider: ScriptedProvider;
  /** For each prompt of a stored session, whether its messages were read from the store. */
  hasReadMessages: boolean[];
  driver: SessionDriver;
}

/** An agent that acts like a separate process. */
function createProcess(
  t: Hooks,
  driver: SessionDriver,
  steps: ConstructorParameters<typeof ScriptedProvider>[0] = [],
): TestProcess {
  const hasReadMessages: boolean[] = [];
  const takeLease = driver.lease.bind(driver);
  driver.lease = async (id, holder, ttlMs, options) => {
    const leaseResult = await takeLease(id, holder, ttlMs, options);
    if (options?.head && "head" in leaseResult && leaseResult.head)
      hasReadMessages.push(leaseResult.head.messages.length > 0);
    return leaseResult;
  };
  const provider = new ScriptedProvider(steps);
  const agent = new Agent({ providers: [provider], driver, tools: [noopTool] });
  t.after(() => agent.close());
  return { agent, provider, hasReadMessages, driver };
}

async function sendPrompt({ agent }: TestProcess, message: string, sessionId?: string): Promise<string> {
  const run = await agent.run({ message, ...(sessionId === undefined ? {} : { sessionId }) });
  await run.result;
  return run.sessionId;
}

/** The texts of the messages in the model's last request. */
function readLastTexts({ provider }: TestProcess): string[] {
  const messages = provider.requests.at(-1)?.messages ?? [];
  return messages.map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : part.type)).join(""));
}

for (const [name, makeStore] of STORES) {
  describe(`the conversation of a later run (${name})`, () => {
    it("contains all earlier messages, also those that another process added", async (t) => {
      const openDriver = await makeStore(t);
      const [firstProcess, secondProcess] = [
        createProcess(t, openDriver(), [say("1"), say("2"), say("5")]),
        createProcess(t, openDriver(), [say("3"), say("4")]),
      ];
      const id = await sendPrompt(firstProcess, "a");
      await sendPrompt(firstProcess, "b", id);
      assert.deepEqual(readLastTexts(firstProcess), ["a", "1", "b"]);
      await sendPrompt(secondProcess, "c", id);
      assert.deepEqual(readLastTexts(secondProcess), ["a", "1", "b", "2", "c"]);
      await sendPrompt(secondProcess, "d", id);
      await sendPrompt(firstProcess, "e", id);
      assert.deepEqual(readLastTexts(firstProcess), ["a", "1", "b", "2", "c", "3", "d", "4", "e"]);
    });

    it("omits the messages that a revert has hidden, and contains them after a restore", async (t) => {
      const openDriver = await makeStore(t);
      const firstProcess = createProcess(t, openDriver(), [say("1"), say("2"), say("3"), say("4")]);
      const id = await sendPrompt(firstProcess, "a");
      await sendPrompt(firstProcess, "b", id);
      const [, firstAnswer] = await firstProcess.agent.sessions.messages(id);
      const snapshot = await firstProcess.agent.sessions.revert(id, firstAnswer?.id ?? "");
      await sendPrompt(firstProcess, "c", id);
      assert.deepEqual(readLastTexts(firstProcess), ["a", "1", "c"]);
      await firstProcess.agent.sessions.restore(id, snapshot.id);
      await sendPrompt(firstProcess, "d", id);
      assert.deepEqual(readLastTexts(firstProcess), ["a", "1", "b", "2", "d"]);
    });

    it("contains tool calls and results, and the prompt of a failed run", async (t) => {
      const openDriver = await makeStore(t);
      const firstProcess = createProcess(t, openDriver(), [
        callTools(["noop", {}]),
        say("1"),
        new Error("broken"),
        say("3"),
      ]);
      const id = await sendPrompt(firstProcess, "a");
      await assert.rejects(sendPrompt(firstProcess, "b", id));
      await sendPrompt(firstProcess, "c", id);
      assert.deepEqual(readLastTexts(firstProcess).length, 6);
      assert.deepEqual(readLastTexts(firstProcess).slice(-3), ["1", "b", "c"]);
    });

    it("contains the messages of an imported chain that replaced the deleted session", async (t) => {
      const openDriver = await makeStore(t);
      const [firstProcess, secondDriver] = [
        createProcess(t, openDriver(), [say("1"), say("2"), say("3")]),
        openDriver(),
      ];
      const id = await sendPrompt(firstProcess, "a");
      await secondDriver.open();
      const chain = await secondDriver.dump(id);
      assert.ok(chain);
      await sendPrompt(firstProcess, "b", id);
      await secondDriver.delete([id]);
      await secondDriver.load(chain);
      await sendPrompt(firstProcess, "c", id);
      assert.deepEqual(readLastTexts(firstProcess), ["a", "1", "c"]);
    });
  });
}

describe("the conversation cache", () => {
  it("avoids reads of SQLite unless another process held the lease or wrote to the session", async (t) => {
    const [, makeStore] = sqliteStore;
    const openDriver = await makeStore(t);
    const [firstProcess, secondProcess] = [createProcess(t, openDriver()), createProcess(t, openDriver())];
    const id = await sendPrompt(firstProcess, "a");
    await sendPrompt(firstProcess, "b", id);
    await sendPrompt(firstProcess, "c", id);
    assert.deepEqual(firstProcess.hasReadMessages, [false, false]);
    await sendPrompt(secondProcess, "d", id);
    await sendPrompt(firstProcess, "e", id);
    assert.deepEqual(firstProcess.hasReadMessages, [false, false, true]);
    await sendPrompt(firstProcess, "f", id);
    // This write has no lease, unlike each write of a run.
    const lastMessages = await firstProcess.driver.messages(id, { before: Infinity, limit: 1 });
    const lastMessage = lastMessages[0];
    assert.ok(lastMessage);
    const strayMessage = {
      ...lastMessage,
      id: "stray",
      seq: lastMessage.seq + 10,
      parts: [{ type: "text" as const, text: "stray" }],
    };
    await secondProcess.driver.write(id, { fence: null, sync: true, add: [strayMessage] });
    await sendPrompt(firstProcess, "g", id);
    assert.deepEqual(firstProcess.hasReadMessages, [false, false, true, false, true]);
    assert.ok(readLastTexts(firstProcess).includes("stray"));
  });

  it("returns a conversation once and for its own lease only, and removes the oldest beyond the size limit", () => {
    const cache = new ConversationCache(17_000);
    const createConversation = (text: string) => {
      const conversation = new Conversation(createNewSession({}, { projectDir: "/", mode: "auto" }), []);
      const message = { role: "user" as const, toolCallId: "", name: "", failed: false };
      conversation.add(conversation.compose({ ...message, parts: [{ type: "text", text }] }));
      return conversation;
    };
    const [conversationA, conversationB] = [createConversation("a"), createConversation("b".repeat(6_000))];
    cache.keep("a", 1, conversationA);
    assert.equal(cache.take("a", 2), undefined, "a conversation of an older lease is not returned");
    assert.equal(cache.take("a", 1), undefined, "a mismatched take removes the conversation");
    cache.keep("a", 1, conversationA);
    assert.equal(cache.take("a", undefined), undefined, "an unknown previous lease returns no conversation");
    cache.keep("a", 3, conversationA);
    assert.equal(cache.take("a", 3), conversationA);
    assert.equal(cache.take("a", 3), undefined, "a conversation is returned only once");
    cache.keep("a", 4, conversationA);
    cache.keep("b", 5, conversationB);
    cache.keep("c", 6, createConversation("c".repeat(6_000)));
    assert.equal(cache.take("b", 5), undefined, "the oldest conversation is removed first");
    cache.keep("big", 7, createConversation("d".repeat(20_000)));
    assert.equal(cache.take("big", 7), undefined);
    assert.ok(cache.take("c", 6), "a conversation above the size limit removes no other one");
    cache.keep("a", 8, conversationA);
    cache.clear();
    assert.equal(cache.take("a", 8), undefined);
  });
});
