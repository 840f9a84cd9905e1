import { resourceFromAttributes, type Resource } from "@opentelemetry/resources";
import { PeriodicExportingMetricReader, type IMetricReader } from "@opentelemetry/sdk-metrics";
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import type { BusEvents, Hooks, Logger } from "gantry";
import {
  createDeadline,
  newId,
  type HookSet,
  type SessionDriver,
  type Telemetry,
  type TelemetrySources,
} from "gantry/plugin";
import { createMetricExporter, createSpanExporter } from "./exporters.js";
import { Gauges } from "./gauges.js";
import { createInstruments, type Instruments } from "./instruments.js";
import { measureDriver } from "./measured-driver.js";
import { MetricRecorder } from "./metric-recorder.js";
import { MetricSource } from "./metric-source.js";
import { createMetricsMount, PullReader } from "./metrics-mount.js";
import type { TelemetryOptions } from "./options.js";
import { OtlpSender } from "./otlp-sender.js";
import { SpanRecorder } from "./span-recorder.js";

type Listeners = NonNullable<HookSet["listeners"]>;

const SCOPE_NAME = "gantry";
/** Time for the last export at close, in ms. Less than the server grants its hooks. */
const CLOSE_TIMEOUT_MS = 250;
/** Time limit of an export in ms, unless the interval is shorter. */
const EXPORT_TIMEOUT_MS = 10_000;

/** The metrics, and the readers that export them. */
interface Metering {
  readonly source: MetricSource;
  readonly readers: readonly IMetricReader[];
  readonly instruments: Instruments;
  readonly recorder: MetricRecorder;
}

/**
 * Metrics and traces with the OpenTelemetry SDK. The providers are not registered globally, so that the program that
 * embeds an agent can use its own.
 */
export class OpenTelemetry implements Telemetry {
  readonly listeners: Listeners;
  readonly beforeModelCall: Hooks["beforeModelCall"];
  readonly #logger: Logger;
  readonly #sender: OtlpSender | undefined;
  readonly #pullReader: PullReader | undefined;
  readonly #metering: Metering | undefined;
  readonly #tracerProvider: TracerProvider | undefined;
  readonly #spans: SpanRecorder | undefined;
  #sources: TelemetrySources | undefined;
  #gauges: Gauges | undefined;

  constructor({ prometheus, otlp, serviceName, content }: TelemetryOptions, logger: Logger) {
    this.#logger = logger;
    this.#sender = otlp && new OtlpSender(otlp.endpoint, otlp.headers, logger);
    this.#pullReader = prometheus ? new PullReader() : undefined;
    const resource = resourceFromAttributes({ "service.name": serviceName, "service.instance.id": newId() });
    const readers: IMetricReader[] = this.#pullReader ? [this.#pullReader] : [];
    if (this.#sender && otlp?.metrics) readers.push(createPushReader(this.#sender, otlp.interval));
    if (readers.length > 0) this.#metering = createMetering(resource, readers);
    const listeners = [this.#metering?.recorder.listeners ?? {}];
    if (this.#sender && otlp?.traces) {
      const processor = new BatchSpanProcessor({ exporter: createSpanExporter(this.#sender) });
      this.#tracerProvider = new TracerProvider({ resource, spanProcessors: [processor] });
      const redact = (text: string) => this.#sources?.redact(text) ?? "";
      const tracer = this.#tracerProvider.getTracer(SCOPE_NAME);
      const spans = (this.#spans = new SpanRecorder(tracer, content ? redact : undefined, logger));
      listeners.push(spans.listeners);
      if (content) this.beforeModelCall = (call) => spans.recordRequest(call);
    }
    this.listeners = combineListeners(listeners);
  }

  measureDriver(driver: SessionDriver): SessionDriver {
    return this.#metering ? measureDriver(driver, this.#metering.instruments.storeDuration) : driver;
  }

  async start(sources: TelemetrySources): Promise<void> {
    this.#sources = sources;
    if (this.#metering) {
      const { source, instruments, recorder } = this.#metering;
      const gauges = (this.#gauges = new Gauges(instruments, sources));
      source.updateGauges = () => gauges.update(recorder.openAsks);
    }
    if (this.#pullReader && sources.host) await sources.host.mount(createMetricsMount(this.#pullReader, this.#logger));
  }

  /** Sends the remaining data, within `CLOSE_TIMEOUT_MS`. */
  async close(): Promise<void> {
    this.#spans?.flush();
    const parts = [...(this.#metering?.readers ?? []), ...(this.#tracerProvider ? [this.#tracerProvider] : [])];
    const shutdown = Promise.allSettled(parts.map((part) => part.shutdown()));
    const deadline = createDeadline(CLOSE_TIMEOUT_MS);
    const timeout = new Promise((resolve) => deadline.signal.addEventListener("abort", resolve, { once: true }));
    await Promise.race([shutdown, timeout]);
    deadline.clear();
    this.#gauges?.end();
    this.#sender?.close();
  }
}

function createMetering(resource: Resource, readers: readonly IMetricReader[]): Metering {
  const instruments = createInstruments();
  const source = new MetricSource(resource, instruments);
  for (const reader of readers) reader.setMetricProducer(source);
  return { source, readers, instruments, recorder: new MetricRecorder(instruments) };
}

function createPushReader(sender: OtlpSender, intervalSeconds: number): PeriodicExportingMetricReader {
  const exportIntervalMillis = intervalSeconds * 1_000;
  const exportTimeoutMillis = Math.min(EXPORT_TIMEOUT_MS, exportIntervalMillis);
  return new PeriodicExportingMetricReader({
    exporter: createMetricExporter(sender),
    exportIntervalMillis,
    exportTimeoutMillis,
  });
}

/** Returns a listener for each event that calls the listeners of all sets. */
function combineListeners(sets: readonly Listeners[]): Listeners {
  const events = [...new Set(sets.flatMap((set) => Object.keys(set)))] as (keyof BusEvents)[];
  const entries = events.map((event) => {
    const listeners = sets.flatMap((set) => (set[event] as ((payload: unknown) => void) | undefined) ?? []);
    return [event, (payload: unknown) => listeners.forEach((listener) => listener(payload))];
  });
  return Object.fromEntries(entries) as Listeners;
}
