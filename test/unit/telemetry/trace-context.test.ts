import assert from "node:assert/strict";
import { it } from "node:test";
import { say } from "gantry/testing";
import { readTraceContext } from "../../../adapters/telemetry/trace-context.js";
import { trace } from "@opentelemetry/api";
import { createScriptedAgent, InProcessAcp } from "../../helpers/acp-agent.js";
import { startApi } from "../../helpers/http-api.js";
import { tempDir } from "../../helpers/temp-dir.js";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

it("session/prompt of ACP passes _meta.traceparent to the run, and ignores other values", async (t) => {
  const { path: cwd } = await tempDir(t);
  const { agent } = createScriptedAgent(t, [say("a"), say("b"), say("c")]);
  const traces: (string | undefined)[] = [];
  agent.on("run.started", (event) => void traces.push(event.trace));
  const peer = new InProcessAcp(t, agent, { profile: "official" }).connect();
  await peer.initialize();
  const sessionId = await peer.newSession(cwd);
  for (const traceparent of [TRACEPARENT, "\ud800", 5])
    await peer.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "x" }], _meta: { traceparent } });
  assert.deepEqual(traces, [TRACEPARENT, undefined, undefined]);
});

it("POST /api/run passes the header traceparent to the run", async (t) => {
  const { agent, postRun } = await startApi(t, { steps: [say("a"), say("b")] });
  const traces: (string | undefined)[] = [];
  agent.on("run.started", (event) => void traces.push(event.trace));
  await postRun({ message: "x", stream: false }, { traceparent: TRACEPARENT });
  await postRun({ message: "x", stream: false });
  assert.deepEqual(traces, [TRACEPARENT, undefined]);
});

it("only a valid traceparent gives a parent", () => {
  const readTraceId = (text?: string) => trace.getSpanContext(readTraceContext(text))?.traceId;
  assert.equal(readTraceId(TRACEPARENT), "0af7651916cd43dd8448eb211c80319c");
  assert.equal(readTraceId(`01${TRACEPARENT.slice(2)}-future`), "0af7651916cd43dd8448eb211c80319c");
  const zeroId = "0".repeat(32);
  for (const text of [
    undefined,
    "",
    "x",
    `ff${TRACEPARENT.slice(2)}`,
    `00-${zeroId}-b7ad6b7169203331-01`,
    `${TRACEPARENT}x`,
  ])
    assert.equal(readTraceId(text), undefined);
});
