import assert from "node:assert/strict";
import { it } from "node:test";
import { TracerProvider, type ReadableSpan } from "@opentelemetry/sdk-trace";
import type { RunRecord } from "gantry";
import { EventBatcher } from "../../../adapters/telemetry/event-batcher.js";
import { SpanRecorder } from "../../../adapters/telemetry/span-recorder.js";
import { createRecordingLogger } from "../../helpers/mcp-servers.js";
import { waitUntil } from "../../helpers/server-runs.js";

function createRecorder() {
  const spans: ReadableSpan[] = [];
  const onEnd = (span: ReadableSpan) => void spans.push(span);
  const processor = {
    onStart: () => {},
    onEnd,
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
  const provider = new TracerProvider({ spanProcessors: [processor] });
  const recorder = new SpanRecorder(provider.getTracer("test"), undefined, createRecordingLogger());
  return { spans, recorder };
}

const toMs = ([seconds, nanoseconds]: readonly [number, number]) => seconds * 1_000 + nanoseconds / 1e6;

it("spans have the times of their events, although they are recorded later", async () => {
  const { spans, recorder } = createRecorder();
  const {
    "run.started": start,
    "tool.started": startTool,
    "tool.finished": endTool,
    "run.failed": fail,
  } = recorder.listeners;
  const ids = { runId: "r1", sessionId: "s1" };
  const call = { ...ids, callId: "c1", name: "read", origin: undefined, isOffered: true };
  const startedAtMs = Date.now();
  start?.({ ...ids, provider: "lab", model: "m1", parent: undefined, trace: undefined });
  startTool?.({ ...call, arguments: "{}" });
  endTool?.({ ...call, failed: true, refused: false, output: "" });
  fail?.({ ...ids, error: new Error("secret text"), run: {} as RunRecord });
  const endedAtMs = Date.now();
  // Otherwise a span that ends when it is recorded would pass too.
  await waitUntil(() => Date.now() > endedAtMs + 2);
  assert.equal(spans.length, 0);
  recorder.flush();
  const [tool, run] = spans;
  assert.ok(tool && run);
  assert.equal(tool.parentSpanContext?.spanId, run.spanContext().spanId);
  assert.deepEqual([tool.attributes["error.type"], run.attributes["error.type"]], ["tool_error", "other"]);
  assert.ok(!("mcp.method.name" in tool.attributes));
  // The system clock has a resolution of 1 ms.
  assert.ok(toMs(run.startTime) >= startedAtMs - 1 && toMs(run.endTime) <= endedAtMs + 1);
  assert.ok(toMs(tool.startTime) >= toMs(run.startTime) && toMs(tool.endTime) <= toMs(run.endTime));
});

it("events are handled in their order, at the latest when 200 wait, and after the failure of another", () => {
  const logger = createRecordingLogger();
  const batcher = new EventBatcher(logger);
  const handled: number[] = [];
  const handle = (n: number) => {
    if (n === 1) throw new Error("broken");
    handled.push(n);
  };
  for (let n = 0; n < 199; n += 1) batcher.add(handle, n);
  assert.deepEqual(handled, []);
  batcher.add(handle, 199);
  assert.deepEqual(
    handled,
    Array.from({ length: 200 }, (_, n) => n).filter((n) => n !== 1),
  );
  assert.equal(logger.lines.length, 1);
});
