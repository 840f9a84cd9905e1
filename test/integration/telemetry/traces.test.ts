import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { callStep, textStep, type FakeRequest } from "../../helpers/fake-model-server.js";
import { createRecordingLogger, createReferenceStdioServer } from "../../helpers/mcp-servers.js";
import { postPrompt, serveWithTelemetry, startCollector, type ReceivedSpan } from "../../helpers/telemetry.js";
import { waitUntil } from "../../helpers/server-runs.js";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const CALLER_SPAN_ID = "b7ad6b7169203331";
const SECRET = "sk-proj-0123456789abcdefghijABCDEFGHIJ0123456789";

/** Answers of the model: a subagent that calls a tool of an MCP server, then the final answer. */
function answerAsAgents({ body, tools }: FakeRequest) {
  const text = JSON.stringify(body);
  if (tools.length === 0) return textStep("Title");
  if (!text.includes("You are a subagent"))
    return text.includes("The echo is")
      ? textStep("Done.")
      : callStep("task", { description: "Echo", prompt: `Echo ${SECRET}` });
  return text.includes("Echo: ping")
    ? textStep("The echo is ping.")
    : callStep("everything__echo", { message: "ping" });
}

async function serveTraced(t: TestContext, telemetry: Record<string, unknown> = {}) {
  const collector = await startCollector(t);
  const { args, command } = createReferenceStdioServer("everything");
  const server = await serveWithTelemetry(
    t,
    {
      otlp: { endpoint: collector.endpoint, headers: { "x-collector-key": "collector-secret" } },
      service_name: "lab",
      ...telemetry,
    },
    { config: { mcp_servers: { everything: { command, args } } }, models: { fallback: answerAsAgents } },
  );
  return { collector, ...server };
}

/** Waits for the span of the prompt's run: a stop does not wait for a slow collector without end. */
const waitForRunSpan = (collector: { spans: readonly ReceivedSpan[] }) =>
  waitUntil(() => collector.spans.filter(({ name }) => name.startsWith("invoke_agent")).length === 2);

/** The tree of spans below a parent in the order of their start, as indented names. Calls for titles are left out. */
function formatTree(spans: readonly ReceivedSpan[], parentId: string, depth = 0): string[] {
  return spans
    .filter(
      ({ parentSpanId, attributes }) => parentSpanId === parentId && attributes["gantry.model.purpose"] !== "title",
    )
    .sort((a, b) => Number(a.startedAt - b.startedAt))
    .flatMap(({ name, spanId }) => ["  ".repeat(depth) + name, ...formatTree(spans, spanId, depth + 1)]);
}

it("the trace of a run has its model calls, tools, subagent and MCP tool below the caller's span", async (t) => {
  const { collector, composition, url } = await serveTraced(t);
  await postPrompt(url, "Delegate", { traceparent: `00-${TRACE_ID}-${CALLER_SPAN_ID}-01` });
  await waitForRunSpan(collector);
  await composition.stop();
  const { spans } = collector;
  assert.deepEqual([...new Set(spans.map(({ traceId }) => traceId))], [TRACE_ID]);
  assert.deepEqual(formatTree(spans, CALLER_SPAN_ID), [
    "invoke_agent orchestrator",
    "  chat m1",
    "  execute_tool task",
    "    invoke_agent orchestrator",
    "      chat m1",
    "      execute_tool everything__echo",
    "      chat m1",
    "  chat m1",
  ]);
  const find = (name: string, index = 0) =>
    spans.filter((span) => span.name === name)[index] ?? assert.fail(`no span ${name}`);
  const taskSpan = find("execute_tool task");
  const subagentRun = spans.find(
    ({ name, parentSpanId }) => name.startsWith("invoke_agent") && parentSpanId === taskSpan.spanId,
  );
  assert.ok(subagentRun);
  const mcpSpan = find("execute_tool everything__echo");
  assert.equal(mcpSpan.parentSpanId, subagentRun.spanId);
  assert.equal(mcpSpan.attributes["mcp.method.name"], "tools/call");
  assert.equal(mcpSpan.attributes["gantry.mcp.server"], "everything");
  const chatSpan = spans.find(({ name, parentSpanId }) => name === "chat m1" && parentSpanId === subagentRun.spanId);
  const { attributes } = chatSpan ?? assert.fail("no model call of the subagent");
  assert.equal(attributes["gen_ai.operation.name"], "chat");
  assert.equal(attributes["gen_ai.provider.name"], "lab");
  assert.equal(attributes["gen_ai.request.model"], "m1");
  assert.deepEqual(attributes["gen_ai.response.finish_reasons"], ["tool_calls"]);
  assert.ok(Number(attributes["gen_ai.usage.input_tokens"]) > 0);
  assert.doesNotMatch(spans.map(({ attributes }) => JSON.stringify(attributes)).join("\n"), /Delegate|ping|sk-proj/);
  assert.deepEqual([...collector.services], ["lab"]);
  assert.ok(collector.metricNames.has("gen_ai.client.operation.duration"));
  assert.ok(collector.requestHeaders.every((headers) => headers["x-collector-key"] === "collector-secret"));
});

it("spans contain messages, arguments and results without keys if content is on", async (t) => {
  const { collector, composition, url } = await serveTraced(t, { content: true });
  await postPrompt(url, "Delegate");
  await waitForRunSpan(collector);
  await composition.stop();
  const byName = (name: string) => collector.spans.filter((span) => span.name === name);
  const [task] = byName("execute_tool task");
  assert.match(String(task?.attributes["gen_ai.tool.call.arguments"]), /Echo \[redacted\]/);
  const [echo] = byName("execute_tool everything__echo");
  assert.match(String(echo?.attributes["gen_ai.tool.call.result"]), /ping/);
  const messages = byName("chat m1").map(({ attributes }) => String(attributes["gen_ai.input.messages"]));
  assert.ok(messages.some((text) => text.includes("Delegate")));
  assert.ok(byName("chat m1").some(({ attributes }) => String(attributes["gen_ai.output.messages"]).includes("Done.")));
  assert.doesNotMatch(collector.spans.map(({ attributes }) => JSON.stringify(attributes)).join("\n"), /sk-proj/);
});

it("runs work while the collector is down, and the log has a line at the begin and at the end of the outage", async (t) => {
  const collector = await startCollector(t);
  collector.status = 503;
  const logger = createRecordingLogger();
  const otlp = { endpoint: collector.endpoint, interval: 1, traces: false };
  const { url } = await serveWithTelemetry(t, { otlp }, { logger });
  await collector.waitForRequests(2);
  assert.equal((await postPrompt(url, "Hello")).output, "OK.");
  collector.status = 200;
  await collector.waitForRequests(collector.requestHeaders.length + 2);
  const lines = logger.lines.filter(([, message]) => message.includes("telemetry collector"));
  assert.deepEqual(
    lines.map(([level]) => level),
    ["warn", "info"],
  );
});

it("a server stops in time if its collector does not answer", async (t) => {
  const collector = await startCollector(t);
  collector.status = 0;
  const logger = createRecordingLogger();
  // The spans of a run that has just ended are sent at the stop, or not at all.
  const otlp = { endpoint: collector.endpoint, metrics: false };
  const { url, composition } = await serveWithTelemetry(t, { otlp }, { logger });
  await postPrompt(url, "Hello");
  await composition.stop();
  assert.ok(collector.requestHeaders.length > 0);
  assert.deepEqual(
    logger.lines.filter(([level]) => level === "error"),
    [],
  );
});
