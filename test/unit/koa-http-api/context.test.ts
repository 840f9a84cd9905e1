import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, defineTool, type AgentOptions, type SessionContext } from "gantry";
import { GantryClient } from "gantry/client";
import { WindowProvider } from "../../helpers/context-window-provider.js";
import { startApi } from "../../helpers/http-api.js";
import { tempDir } from "../../helpers/temp-dir.js";

const tools = builtinTools({ bash: { sandbox: "off" } });

/** The tokens of a part. */
function tokensOf({ parts }: Pick<SessionContext, "parts">, name: string): number {
  return parts.find((part) => part.name === name)?.tokens ?? NaN;
}

/** Asserts that an estimate differs from the real tokens by at most `share` of them. */
function assertNear(estimate: number, tokens: number, share = 0.03): void {
  assert.ok(Math.abs(estimate - tokens) <= tokens * share, `${estimate} instead of ${tokens}`);
}

describe("GET /api/sessions/{id}/context", () => {
  it("estimates the prompt of a session without a run, and takes the provider's count after a run", async (t) => {
    const project = await tempDir(t, { "AGENTS.md": "Use tabs. ".repeat(300), "a.txt": "line\n".repeat(500) });
    const provider = new WindowProvider({
      window: 50_000,
      bytesPerToken: 3,
      answer: (_, call) => (call === 1 ? [["read", { path: "a.txt" }]] : "read"),
    });
    const { url, agent, driver } = await startApi(t, {
      agent: { providers: [provider], tools, projectDir: project.path, unattended: "wait" },
    });
    const client = new GantryClient({ url });
    const { id } = await agent.sessions.create();
    const emptyContext = await client.sessions.context(id);
    assert.deepEqual([emptyContext.window, emptyContext.compaction_at, emptyContext.estimated], [50_000, 40_000, true]);
    assert.equal(tokensOf(emptyContext, "messages") + tokensOf(emptyContext, "tool_outputs"), 0);
    assertNear(tokensOf(emptyContext, "instructions"), 1_100, 0.1);

    await client.run({ message: "read a.txt", session_id: id });
    const tokens = provider.countTokens(provider.lastRequest!);
    const context = await client.sessions.context(id);
    assert.equal(context.used, tokens + 20, "prompt and answer of the last call");
    assert.equal(
      context.used,
      context.parts.reduce((sum, part) => sum + part.tokens, 0),
    );
    assert.equal(context.estimated, false);
    assertNear(tokensOf(context, "tools"), tokensOf(emptyContext, "tools"), 0.08);
    assertNear(tokensOf(context, "tool_outputs"), (500 * 9) / 3, 0.25);
    const { system, tools: offeredTools } = provider.lastRequest!;
    const prefixTokens = provider.countTokens({ ...provider.lastRequest!, system, tools: offeredTools, messages: [] });
    assertNear(emptyContext.used, prefixTokens, 0.06);

    // Another process knows no count of the provider.
    const otherAgent = new Agent({ providers: [provider], driver, tools, projectDir: project.path });
    t.after(() => otherAgent.close());
    const otherContext = await otherAgent.sessions.context(id);
    assert.equal(otherContext.estimated, true);
    assertNear(otherContext.used, tokens + 20, 0.06);
    const callCount = provider.callCount;
    assert.equal(callCount, 2, "no context calls a model");
  });

  it("measures a running session, and estimates what came after the provider's count", async (t) => {
    const measured: { context: SessionContext; tokens: number }[] = [];
    const provider = new WindowProvider({
      window: 10_000,
      bytesPerToken: 4,
      answer: (_, call) => (call === 1 ? [["noop", {}]] : "done"),
    });
    const measure = async ({ sessionId }: { readonly sessionId: string }) => {
      const tokens = provider.lastRequest ? provider.countTokens(provider.lastRequest) : 0;
      measured.push({ context: await agent.sessions.context(sessionId), tokens });
    };
    const noop = defineTool({
      name: "noop",
      description: "Return a text",
      schema: { type: "object", properties: {} },
      run: async (_, context) => {
        await measure(context);
        return "x".repeat(3_000);
      },
    });
    const hooks: AgentOptions["hooks"] = {
      beforeModelCall: async (call) => {
        if (call.purpose === "answer") await measure(call);
      },
    };
    const { agent } = await startApi(t, { agent: { providers: [provider], tools: [noop], hooks } });
    const run = await agent.run({ message: "go" });
    await run.result;
    const [first, inTool, second] = measured;
    assert.equal(first?.context.estimated, true, "before the first answer");
    assert.deepEqual([inTool?.context.used, inTool?.context.estimated], [inTool!.tokens + 20, false]);
    assert.equal(second?.context.estimated, false);
    assertNear(second!.context.used, second!.tokens + 20 + 1_000, 0.02);
    assertNear(tokensOf(second!.context, "tool_outputs"), 1_000, 0.02);
    assert.equal((await agent.sessions.context(run.sessionId)).used, provider.countTokens(provider.lastRequest!) + 20);
  });

  it("forgets the provider's count after a rewind, a compaction and with another model", async (t) => {
    const provider = new WindowProvider({ window: 20_000, bytesPerToken: 6, answer: () => "answer ".repeat(200) });
    const { agent } = await startApi(t, { agent: { providers: [provider], tools: [] } });
    const firstRun = await agent.run({ message: "one" });
    await firstRun.result;
    const { sessionId: id } = firstRun;
    const firstContext = await agent.sessions.context(id);
    await (
      await agent.run({ message: "two", sessionId: id })
    ).result;
    const [, firstAnswer] = await agent.sessions.messages(id);
    assert.equal((await agent.sessions.context(id)).estimated, false);
    await agent.sessions.revert(id, firstAnswer!.id);
    const context = await agent.sessions.context(id);
    assert.equal(context.estimated, true);
    assert.ok(context.used > firstContext.used, "a low count of the provider is not used any more");
    await (
      await agent.run({ message: "two", sessionId: id })
    ).result;
    assert.equal((await agent.sessions.context(id)).estimated, false);
    await (
      await agent.run({ message: "", sessionId: id, compact: true })
    ).result;
    assert.equal((await agent.sessions.context(id)).estimated, true);
  });

  it("reports no limit without compaction, the configured window, and 404 for an unknown session", async (t) => {
    const { agent, send } = await startApi(t, {
      agent: { compaction: { enabled: false, contextWindow: 5_000 }, tools },
    });
    const { id } = await agent.sessions.create();
    const { window, compactionAt } = await agent.sessions.context(id);
    assert.deepEqual([window, compactionAt], [5_000, null]);
    assert.equal((await send("/api/sessions/none/context")).status, 404);
  });

  it("measures a small window as its requests are shortened", async (t) => {
    const provider = new WindowProvider({ window: 6_000, bytesPerToken: 3, answer: () => "ok" });
    const { agent } = await startApi(t, { agent: { providers: [provider], tools } });
    const { id } = await agent.sessions.create();
    const context = await agent.sessions.context(id);
    await (
      await agent.run({ message: "hi", sessionId: id })
    ).result;
    assertNear(context.used, provider.countTokens(provider.lastRequest!), 0.05);
  });
});
