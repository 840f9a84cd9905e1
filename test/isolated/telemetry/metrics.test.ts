import assert from "node:assert/strict";
import { it } from "node:test";
import type { BusEvents } from "gantry";
import { openHttpHost } from "gantry/http";
import telemetry, { METRICS, toPrometheusName } from "gantry/adapters/telemetry";
import type { AdapterContext, Telemetry } from "gantry/plugin";
import { silentLogger } from "../../../src/base/log.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { parsePrometheus, postPrompt, serveWithTelemetry, sumSamples } from "../../helpers/telemetry.js";

async function scrape(url: string, headers: Record<string, string> = {}) {
  const response = await fetch(new URL("/metrics", url), { headers });
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  return parsePrometheus(await response.text());
}

it("GET /metrics reports runs, model calls, tools, sessions, the store and the process", async (t) => {
  const { url, models } = await serveWithTelemetry(
    t,
    { prometheus: true },
    { models: { toolFreeAnswer: textStep("Title") } },
  );
  models.enqueue(callStep("read", { path: "a.txt" }), callStep("invented", {}), textStep("Done."));
  assert.equal((await postPrompt(url, "Read a.txt")).output, "Done.");
  models.enqueue(textStep("Again."));
  await postPrompt(url, "Again");
  // A title is stored under a lease, after the answer.
  await waitUntil(async () => sumSamples((await scrape(url)).samples, "gantry_leases") === 0);
  const { samples, types } = await scrape(url);
  const expectedSums: [sum: number, name: string, labels?: Record<string, string>][] = [
    [2, "gantry_runs_total", { state: "finished", reason: "model", kind: "main" }],
    [2, "gantry_run_duration_seconds_count", { state: "finished" }],
    [
      4,
      "gen_ai_client_operation_duration_count",
      { gen_ai_provider_name: "lab", gen_ai_request_model: "m1", purpose: "answer" },
    ],
    [4, "gen_ai_client_operation_time_to_first_chunk_count", { purpose: "answer" }],
    [1, "gantry_tool_calls_total", { tool: "read", outcome: "ok", source: "agent" }],
    [1, "gantry_tool_calls_total", { tool: "other", outcome: "failed" }],
    [1, "gantry_tool_duration_seconds_count", { tool: "read" }],
    [2, "gantry_sessions_total", { change: "created" }],
    [0, "gantry_runs_active"],
    [0, "gantry_runs_queued"],
    [0, "gantry_leases"],
    [0, "gantry_asks_open"],
  ];
  for (const [sum, name, labels] of expectedSums) assert.equal(sumSamples(samples, name, labels), sum, name);
  assert.ok(sumSamples(samples, "gen_ai_client_token_usage_sum", { gen_ai_token_type: "input" }) > 0);
  assert.ok(sumSamples(samples, "gantry_store_duration_seconds_count", { method: "write", outcome: "ok" }) > 4);
  assert.ok(sumSamples(samples, "gantry_memory_bytes", { type: "rss" }) > 1e7);
  assert.ok(
    samples.some(({ name, labels }) => name === "gantry_event_loop_delay_seconds" && labels["quantile"] === "p99"),
  );
  assert.ok(sumSamples(samples, "gantry_http_connections") > 0);
  const names = new Set(Object.values(METRICS).map(toPrometheusName));
  assert.deepEqual(
    [...types.keys()].filter((name) => !names.has(name)),
    [],
  );
  const labelNames = new Set(
    Object.values(METRICS).flatMap(({ labels }) => labels.map((label) => label.replace(/\W/g, "_"))),
  );
  const unknownLabels = samples
    .flatMap(({ labels }) => Object.keys(labels))
    .filter((name) => !labelNames.has(name) && name !== "le");
  assert.deepEqual(unknownLabels, []);
});

it("GET /metrics needs the headers of the server, and answers GET and HEAD only", async (t) => {
  const { url } = await serveWithTelemetry(
    t,
    { prometheus: true },
    { config: { server: { required_headers: { "x-key": "0123456789abcdef" } } } },
  );
  const requestMetrics = (path: string, init: RequestInit = {}) =>
    fetch(new URL(path, url), { ...init, headers: { "x-key": "0123456789abcdef", ...init.headers } });
  assert.equal((await fetch(new URL("/metrics", url))).status, 401);
  assert.equal((await requestMetrics("/metrics")).status, 200);
  assert.equal(await (await requestMetrics("/metrics", { method: "HEAD" })).text(), "");
  assert.equal((await requestMetrics("/metrics", { method: "POST" })).status, 405);
  assert.equal((await requestMetrics("/metrics/other")).status, 404);
});

it("GET /metrics is not served without the section", async (t) => {
  const { url } = await serveWithTelemetry(t, undefined);
  assert.equal((await fetch(new URL("/metrics", url))).status, 404);
});

it("labels for models and tools have at most 100 values and other", async (t) => {
  const host = openHttpHost({ port: 0 });
  t.after(() => host.close(AbortSignal.abort()));
  const options = telemetry.parse({ prometheus: true }, { location: "t", configDir: "/", home: "/", projectDir: "/" });
  const measurement = (await telemetry.create?.(options, {
    logger: silentLogger,
  } as AdapterContext<"hooks">)) as Telemetry;
  t.after(() => measurement.close?.());
  const statistics = { activeRuns: 0, queuedRuns: 0, waitingReaders: 0, liveSessions: 0, watchers: 0, leases: 0 };
  await measurement.start({ readStatistics: () => statistics, host, redact: (text) => text });
  const emit = <E extends keyof BusEvents>(event: E, payload: BusEvents[E]) =>
    measurement.listeners?.[event]?.(payload);
  const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2, cost: 0 };
  for (let i = 0; i < 300; i += 1) {
    const ids = { runId: `r${i}`, sessionId: `s${i}`, callId: `c${i}` };
    const model = { ...ids, provider: `p${i}`, model: `m${i}`, purpose: "answer" as const };
    const times = { durationMs: 1, firstTokenMs: 1 };
    emit("model.called", { ...model, ...times, usage, finishReason: "stop", parts: [] });
    emit("model.failed", {
      ...model,
      ...times,
      error: Object.assign(new Error("x"), { name: `E${i}`, code: `code${i}` }),
    });
    const call = { ...ids, name: `t${i}`, isOffered: true, origin: `server${i}/t` };
    emit("tool.started", { ...call, arguments: "{}" });
    emit("tool.finished", { ...call, failed: false, refused: false, output: "" });
  }
  const { samples } = await scrape(await host.mount({ ...EMPTY_MOUNT }));
  const valuesOf = (label: string) => new Set(samples.flatMap(({ labels }) => labels[label] ?? []));
  assert.equal(valuesOf("tool").size, 101);
  assert.equal(valuesOf("gen_ai_request_model").size, 101);
  assert.equal(valuesOf("gen_ai_provider_name").size, 101);
  assert.deepEqual([...valuesOf("error_type")], ["other"]);
  assert.equal(sumSamples(samples, "gantry_tool_calls_total"), 300);
});

/** A second mount returns the origin of the host. */
const EMPTY_MOUNT = {
  prefix: "/empty",
  fallback: false,
  authenticated: false,
  handler: () => undefined,
  refuse: () => undefined,
};
