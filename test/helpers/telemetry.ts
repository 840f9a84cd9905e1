import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Logger } from "gantry";
import { silentLogger } from "../../src/base/log.js";
import { compose, type Composition } from "../../src/serve/compose.js";
import { loadConfig } from "../../src/serve/config.js";
import { startFakeModelServer, type FakeModelServerOptions, type FakeModelServer } from "./fake-model-server.js";
import { tempDir, type Hooks } from "./temp-dir.js";
import { waitFor } from "./wait.js";

/** A value of OTLP as a plain value. */
type Value = string | number | boolean | Value[];
type WireValue = { [type: string]: unknown };

/** A received span. */
export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId: string | undefined;
  name: string;
  kind: number;
  /** Nanoseconds since the epoch. */
  startedAt: bigint;
  attributes: Record<string, Value>;
  isError: boolean;
}

/** A collector of OTLP with JSON over HTTP. It rejects requests that break the protocol. */
export interface Collector {
  readonly endpoint: string;
  readonly spans: ReceivedSpan[];
  /** Names of the received metrics. */
  readonly metricNames: Set<string>;
  /** `service.name` of the received data. */
  readonly services: Set<string>;
  readonly requestHeaders: IncomingMessage["headers"][];
  /** Status of further answers; 0: requests get no answer. */
  status: number;
  /** Waits until this number of requests has arrived. */
  waitForRequests(count: number): Promise<unknown>;
}

export async function startCollector(hooks: Hooks): Promise<Collector> {
  const [spans, metricNames, services] = [[] as ReceivedSpan[], new Set<string>(), new Set<string>()];
  const requestHeaders: IncomingMessage["headers"][] = [];
  const server = createServer((request, response) => {
    const receive = async () => {
      let text = "";
      for await (const chunk of request.setEncoding("utf8")) text += String(chunk);
      requestHeaders.push(request.headers);
      if (collector.status === 200) readExport(request.url ?? "", JSON.parse(text) as Wire, collector);
      if (collector.status !== 0)
        response.writeHead(collector.status, { "Content-Type": "application/json" }).end("{}");
    };
    receive().catch((error: unknown) => response.writeHead(400).end(String(error)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  hooks.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const collector: Collector = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ...{ spans, metricNames, services, requestHeaders, status: 200 },
    waitForRequests: (count) => waitFor("requests", () => (requestHeaders.length >= count ? true : undefined)),
  };
  return collector;
}

interface Wire {
  resourceSpans?: { resource: WireResource; scopeSpans: { spans: WireSpan[] }[] }[];
  resourceMetrics?: { resource: WireResource; scopeMetrics: { metrics: { name: string }[] }[] }[];
}
interface WireResource {
  attributes: WireAttribute[];
}
interface WireAttribute {
  key: string;
  value: WireValue;
}
interface WireSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  attributes: WireAttribute[];
  status: { code?: number };
}

function readExport(path: string, body: Wire, { spans, metricNames, services }: Collector): void {
  assert.match(path, /^\/v1\/(metrics|traces)$/);
  const { resourceSpans = [], resourceMetrics = [] } = body;
  assert.equal(path === "/v1/traces" ? resourceSpans.length : resourceMetrics.length, 1);
  for (const { resource } of [...resourceSpans, ...resourceMetrics])
    services.add(String(readAttributes(resource.attributes)["service.name"]));
  for (const { scopeMetrics } of resourceMetrics)
    for (const { name } of scopeMetrics.flatMap(({ metrics }) => metrics)) metricNames.add(name);
  for (const span of resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans))) {
    const { traceId, spanId, parentSpanId, name, kind, attributes, status, startTimeUnixNano } = span;
    assert.match(traceId, /^[\da-f]{32}$/);
    assert.match(spanId, /^[\da-f]{16}$/);
    const isError = status.code === 2;
    const startedAt = BigInt(startTimeUnixNano);
    spans.push({
      traceId,
      spanId,
      parentSpanId,
      name,
      kind,
      startedAt,
      attributes: readAttributes(attributes),
      isError,
    });
  }
}

function readAttributes(attributes: readonly WireAttribute[]): Record<string, Value> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, readValue(value)]));
}

function readValue(wireValue: WireValue): Value {
  const [[type, value] = ["none", ""]] = Object.entries(wireValue);
  if (type === "arrayValue") return (value as { values: WireValue[] }).values.map(readValue);
  return type === "intValue" ? Number(value) : (value as Value);
}

/** A sample of the Prometheus text format. */
export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** Parses the text format of Prometheus. Throws for a line that the format does not allow. */
export function parsePrometheus(text: string): { samples: Sample[]; types: Map<string, string> } {
  const types = new Map<string, string>();
  const samples: Sample[] = [];
  assert.ok(text.endsWith("\n"));
  for (const line of text.split("\n").filter((candidate) => candidate !== "")) {
    const [, comment, commentName = "", commentText = ""] = /^# (HELP|TYPE|UNIT) (\S+) (.+)$/.exec(line) ?? [];
    if (comment === "TYPE") types.set(commentName, commentText);
    if (comment !== undefined) continue;
    const [, name = "", labelText = "", value = ""] =
      /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (-?(?:[\d.]+(?:e[-+]?\d+)?|Inf)|\+Inf|NaN)$/.exec(line) ?? assert.fail(line);
    const labels: Record<string, string> = {};
    const unparsedText = labelText.replace(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|$)/g, (_all, key, labelValue) => {
      labels[String(key)] = String(labelValue);
      return "";
    });
    assert.equal(unparsedText, "", line);
    const family = name.replace(/_(bucket|sum|count)$/, "");
    assert.ok(types.has(name) || types.get(family) === "histogram", `no type: ${line}`);
    samples.push({ name, labels, value: Number(value.replace("Inf", "Infinity")) });
  }
  return { samples, types };
}

/** Sum of the samples of a metric that have these labels. */
export function sumSamples(samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number {
  return samples
    .filter(
      (sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
    )
    .reduce((sum, { value }) => sum + value, 0);
}

/** A server in this process whose models are scripted. */
export interface MeasuredServer {
  composition: Composition;
  models: FakeModelServer;
  url: string;
}

/** Serves the HTTP API with a section `telemetry` and a scripted model `m1`. */
export async function serveWithTelemetry(
  hooks: Hooks,
  telemetry: unknown,
  {
    config = {},
    models: modelOptions = {},
    logger = silentLogger,
  }: { config?: Record<string, unknown>; models?: FakeModelServerOptions; logger?: Logger } = {},
): Promise<MeasuredServer> {
  const models = await startFakeModelServer(modelOptions);
  hooks.after(() => models.close());
  const provider = { name: "lab", base_url: models.baseUrl, api_key: "k" };
  const { server, ...sections } = { server: {}, ...config } as { server: object };
  const fullConfig = {
    providers: [provider],
    server: { port: 0, transports: ["koa-http-api"], ...server },
    ...sections,
  };
  const folder = await tempDir(hooks, {
    "config.json": JSON.stringify({ ...fullConfig, ...(telemetry !== undefined && { telemetry }) }),
  });
  const { path: projectDir } = await tempDir(hooks, { "a.txt": "text" });
  const loadedConfig = await loadConfig({ home: folder.path });
  const composition = await compose({ loadedConfig, home: folder.path, projectDir, logger });
  hooks.after(() => composition.stop());
  return { composition, models, url: composition.startedTransports[0]!.address };
}

/** Runs a prompt over HTTP. Returns the answer. */
export async function postPrompt(
  url: string,
  message: string,
  headers: Record<string, string> = {},
): Promise<{ output: string; session_id: string }> {
  const response = await fetch(new URL("/api/run", url), {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify({ message, stream: false }),
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text) as { output: string; session_id: string };
}
