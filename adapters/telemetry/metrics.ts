/** Kind of a metric. A gauge and a `sum` (a counter of the system) are read at each export; the others are recorded. */
export type MetricKind = "counter" | "histogram" | "gauge" | "sum";

/** A metric: the one source of its instrument, its row in the documentation and its panel in the dashboard. */
export interface MetricDefinition {
  /** Name in OTLP. Prometheus replaces dots by `_` and adds `_total` to counters. */
  readonly name: string;
  readonly kind: MetricKind;
  /** Unit in UCUM, as OpenTelemetry requires. */
  readonly unit: string;
  readonly about: string;
  readonly labels: readonly string[];
  /** Row of the dashboard. */
  readonly group: "Runs" | "Models" | "Tools" | "Sessions" | "Store" | "Process";
  /** Upper bounds of a histogram. */
  readonly buckets?: readonly number[] | undefined;
}

/** Buckets of the GenAI semantic conventions, in seconds. */
const MODEL_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/** Buckets of the GenAI semantic conventions, in tokens. */
const TOKENS = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];
const RUN_SECONDS = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600];
const TOOL_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600];
const STORE_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

const MODEL_LABELS = ["gen_ai.provider.name", "gen_ai.request.model"] as const;

/** All metrics by the name of their instrument. */
export const METRICS = {
  runs: {
    name: "gantry_runs",
    kind: "counter",
    unit: "{run}",
    about:
      "Ended runs. `reason`: `model`, `max_iterations` or `budget` for a finished run, otherwise the code of the error.",
    labels: ["state", "reason", "kind"],
    group: "Runs",
  },
  activeRuns: {
    name: "gantry_runs_active",
    kind: "gauge",
    unit: "{run}",
    about: "Runs that have a slot.",
    labels: [],
    group: "Runs",
  },
  queuedRuns: {
    name: "gantry_runs_queued",
    kind: "gauge",
    unit: "{run}",
    about: "Runs that wait for their session or for a slot.",
    labels: [],
    group: "Runs",
  },
  runDuration: {
    name: "gantry_run_duration_seconds",
    kind: "histogram",
    unit: "s",
    about: "Duration of a run from its first model call to its end, without its time in the queue.",
    labels: ["state", "kind"],
    group: "Runs",
    buckets: RUN_SECONDS,
  },
  openAsks: {
    name: "gantry_asks_open",
    kind: "gauge",
    unit: "{question}",
    about: "Questions to a person that runs of this process wait for.",
    labels: [],
    group: "Runs",
  },
  waitingReaders: {
    name: "gantry_attachments_waiting",
    kind: "gauge",
    unit: "{run}",
    about: "Runs that wait until other runs have read their attachments.",
    labels: [],
    group: "Runs",
  },
  modelDuration: {
    name: "gen_ai.client.operation.duration",
    kind: "histogram",
    unit: "s",
    about: "Duration of a model call with its retries.",
    labels: ["gen_ai.operation.name", ...MODEL_LABELS, "purpose", "error.type"],
    group: "Models",
    buckets: MODEL_SECONDS,
  },
  timeToFirstToken: {
    name: "gen_ai.client.operation.time_to_first_chunk",
    kind: "histogram",
    unit: "s",
    about: "Time from the start of a model call to the first part of the answer.",
    labels: ["gen_ai.operation.name", ...MODEL_LABELS, "purpose"],
    group: "Models",
    buckets: MODEL_SECONDS,
  },
  tokens: {
    name: "gen_ai.client.token.usage",
    kind: "histogram",
    unit: "{token}",
    about: "Tokens of a model call; `gen_ai.token.type` is `input` or `output`.",
    labels: ["gen_ai.operation.name", ...MODEL_LABELS, "gen_ai.token.type"],
    group: "Models",
    buckets: TOKENS,
  },
  cost: {
    name: "gantry_model_cost_usd",
    kind: "counter",
    unit: "{USD}",
    about: "Cost of model calls in USD. Calls of models without known prices cost 0.",
    labels: MODEL_LABELS,
    group: "Models",
  },
  modelRetries: {
    name: "gantry_model_retries",
    kind: "counter",
    unit: "{retry}",
    about: "Repeated attempts of model calls.",
    labels: MODEL_LABELS,
    group: "Models",
  },
  toolCalls: {
    name: "gantry_tool_calls",
    kind: "counter",
    unit: "{call}",
    about:
      "Ended tool calls. `outcome`: `ok`, `failed`, or `refused` for a call without permission. `source`: `agent`, `mcp`, or `plugin` for another source of tools.",
    labels: ["tool", "outcome", "source"],
    group: "Tools",
  },
  toolDuration: {
    name: "gantry_tool_duration_seconds",
    kind: "histogram",
    unit: "s",
    about: "Duration of a tool call, with the wait for a permission.",
    labels: ["tool"],
    group: "Tools",
    buckets: TOOL_SECONDS,
  },
  toolSourceFailures: {
    name: "gantry_tool_source_failures",
    kind: "counter",
    unit: "{failure}",
    about: "Tool sources, such as MCP servers, that were unavailable for a run.",
    labels: [],
    group: "Tools",
  },
  sessions: {
    name: "gantry_sessions",
    kind: "counter",
    unit: "{session}",
    about: "Changes of sessions. `change`: `created`, `forked`, `compacted` or `deleted`.",
    labels: ["change"],
    group: "Sessions",
  },
  liveSessions: {
    name: "gantry_sessions_live",
    kind: "gauge",
    unit: "{session}",
    about: "Sessions that have a watcher or an active run in this process.",
    labels: [],
    group: "Sessions",
  },
  watchers: {
    name: "gantry_watchers",
    kind: "gauge",
    unit: "{watcher}",
    about: "Watchers of sessions in this process.",
    labels: [],
    group: "Sessions",
  },
  leases: {
    name: "gantry_leases",
    kind: "gauge",
    unit: "{lease}",
    about: "Leases that this process holds.",
    labels: [],
    group: "Sessions",
  },
  streams: {
    name: "gantry_http_streams",
    kind: "gauge",
    unit: "{stream}",
    about: "Open event streams of the HTTP port.",
    labels: [],
    group: "Sessions",
  },
  connections: {
    name: "gantry_http_connections",
    kind: "gauge",
    unit: "{connection}",
    about: "Open connections of the HTTP port.",
    labels: [],
    group: "Sessions",
  },
  storeDuration: {
    name: "gantry_store_duration_seconds",
    kind: "histogram",
    unit: "s",
    about: "Duration of a call of the session store. `outcome`: `ok`, or `failed` for a rejected call.",
    labels: ["method", "outcome"],
    group: "Store",
    buckets: STORE_SECONDS,
  },
  eventLoopDelay: {
    name: "gantry_event_loop_delay_seconds",
    kind: "gauge",
    unit: "s",
    about: "Delay of the event loop in the last ten seconds or more. `quantile`: `p50`, `p99` or `max`.",
    labels: ["quantile"],
    group: "Process",
  },
  memory: {
    name: "gantry_memory_bytes",
    kind: "gauge",
    unit: "By",
    about: "Memory of the process. `type`: `rss`, `heap_used`, `heap_total` or `external`.",
    labels: ["type"],
    group: "Process",
  },
  cpu: {
    name: "gantry_cpu_seconds",
    kind: "sum",
    unit: "s",
    about: "CPU time of the process since its start. `mode`: `user` or `system`.",
    labels: ["mode"],
    group: "Process",
  },
  uptime: {
    name: "gantry_uptime_seconds",
    kind: "gauge",
    unit: "s",
    about: "Time since the start of the process.",
    labels: [],
    group: "Process",
  },
} as const satisfies Readonly<Record<string, MetricDefinition>>;

/** The name of a metric in Prometheus. */
export function toPrometheusName({ name, kind }: MetricDefinition): string {
  const sanitizedName = name.replace(/[^a-z0-9_]/gi, "_");
  return kind === "counter" || kind === "sum" ? `${sanitizedName}_total` : sanitizedName;
}
