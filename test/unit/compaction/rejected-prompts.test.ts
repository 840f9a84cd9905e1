import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, builtinTools, ProviderError, type AgentEvent, type AgentOptions } from "gantry";
import type { ModelRequest } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { noopTool } from "../../helpers/noop-tool.js";

const TOO_LONG = new ProviderError(
  "scripted",
  "context_length",
  "This model's maximum context length is 8192 tokens.",
  {
    status: 400,
  },
);

async function runRejectedPrompt(t: TestContext, options: Partial<AgentOptions>, provider: ScriptedProvider) {
  const agent = new Agent({ providers: [provider], ...options });
  t.after(() => agent.close());
  const run = await agent.run({ message: "Do it, with the numbers 1 2 3.\n".repeat(1600) });
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  const error = await run.result.then(
    () => undefined,
    (reason: unknown) => reason as ProviderError,
  );
  const requests = provider.requests.filter(({ tools }) => tools.length > 0);
  return { requests, events, error, retries: events.filter(({ type }) => type === "retry").length };
}

const countBytes = ({ system, messages, tools }: ModelRequest) => JSON.stringify({ system, messages, tools }).length;

describe("a prompt that the provider rejects as too long each time", () => {
  it("ends after at most 6 requests, each smaller and with tools, and the error reports the attempts", async (t) => {
    const provider = new ScriptedProvider([], { fallback: TOO_LONG });
    const { requests, error, retries } = await runRejectedPrompt(t, { tools: builtinTools() }, provider);
    const sizes = requests.map(countBytes);
    t.diagnostic(`${sizes.join(", ")} bytes, ${requests.map(({ tools }) => tools.length).join(", ")} tools`);
    assert.ok(requests.length > 1 && requests.length <= 6, `${requests.length} requests`);
    assert.ok(sizes.every((size, i) => i === 0 || size < sizes[i - 1]!));
    assert.equal(retries, requests.length - 1);
    const toolCounts = requests.map(({ tools }) => tools.length);
    assert.ok(toolCounts.at(-1)! >= 4, String(toolCounts));
    assert.equal(error?.kind, "context_length");
    assert.match(
      error.message,
      new RegExp(
        `^scripted: 400: ${requests.length} prompts were rejected as too long, from about \\d+ tokens with ` +
          `${toolCounts[0]} tools to \\d+ tokens with ${toolCounts.at(-1)} tools; .*: This model's maximum context`,
      ),
    );
  });

  it("ends at once with the provider's own error if compaction is disabled", async (t) => {
    const provider = new ScriptedProvider([], { fallback: TOO_LONG });
    const { requests, error } = await runRejectedPrompt(
      t,
      { tools: [noopTool], compaction: { enabled: false } },
      provider,
    );
    assert.equal(requests.length, 1);
    assert.equal(error?.message, "scripted: 400: This model's maximum context length is 8192 tokens.");
  });

  it("counts from the last answer: each accepted prompt allows all retries again", async (t) => {
    const steps = [TOO_LONG, callTools(["noop", { n: 1 }]), TOO_LONG, "done"];
    const provider = new ScriptedProvider(steps);
    const { error, events } = await runRejectedPrompt(t, { tools: [noopTool] }, provider);
    assert.equal(error, undefined);
    const attempts = events.flatMap((event) => (event.type === "retry" ? [event.attempt] : []));
    assert.deepEqual(attempts, [1, 1]);
  });
});
