import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Meter, Observable } from "@opentelemetry/api";
import type { TelemetrySources } from "gantry/plugin";
import type { Instruments } from "./instruments.js";

/** Resolution of the measurement of the event loop, in ms. */
const RESOLUTION_MS = 20;
/** Minimum length of the interval of which quantiles are reported, in ms. Several collectors may read it. */
const MIN_WINDOW_MS = 10_000;

/** Adds the callbacks that read the gauges. Returns the function that ends the measurement of the event loop. */
export function observeGauges(
  meter: Meter,
  instruments: Instruments,
  { readStatistics, host }: TelemetrySources,
  readOpenAsks: () => number,
): () => void {
  const loop = new EventLoopWindow();
  const { activeRuns, queuedRuns, waitingReaders, liveSessions, watchers, leases, openAsks } = instruments;
  const { streams, connections, eventLoopDelay, memory, cpu, uptime } = instruments;
  const gauges = { activeRuns, queuedRuns, waitingReaders, liveSessions, watchers, leases };
  const observables: Observable[] = [
    ...Object.values(gauges),
    ...[openAsks, streams, connections, eventLoopDelay, memory, cpu, uptime],
  ];
  meter.addBatchObservableCallback((result) => {
    const statistics = readStatistics();
    for (const name of Object.keys(gauges) as (keyof typeof gauges)[]) result.observe(gauges[name], statistics[name]);
    result.observe(openAsks, readOpenAsks());
    if (host?.counts) {
      result.observe(streams, host.counts.streams);
      result.observe(connections, host.counts.connections);
    }
    for (const [quantile, seconds] of Object.entries(loop.read()))
      result.observe(eventLoopDelay, seconds, { quantile });
    const { rss, heapUsed, heapTotal, external } = process.memoryUsage();
    for (const [type, bytes] of Object.entries({ rss, heap_used: heapUsed, heap_total: heapTotal, external }))
      result.observe(memory, bytes, { type });
    const { user, system } = process.cpuUsage();
    result.observe(cpu, user / 1e6, { mode: "user" });
    result.observe(cpu, system / 1e6, { mode: "system" });
    result.observe(uptime, process.uptime());
  }, observables);
  return () => loop.end();
}

type Delays = Readonly<Record<"p50" | "p99" | "max", number>>;

/** Delays of the event loop in intervals of at least `MIN_WINDOW_MS`. */
class EventLoopWindow {
  readonly #histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  #startedAtMs = performance.now();
  #delays: Delays | undefined;

  constructor() {
    this.#histogram.enable();
  }

  /** The delays of the last complete interval, in seconds. Before its end: of the current one. */
  read(): Delays {
    const isComplete = performance.now() - this.#startedAtMs >= MIN_WINDOW_MS;
    if (this.#delays && !isComplete) return this.#delays;
    const delays = this.#measure();
    if (isComplete) {
      this.#delays = delays;
      this.#histogram.reset();
      this.#startedAtMs = performance.now();
    }
    return delays;
  }

  end(): void {
    this.#histogram.disable();
  }

  #measure(): Delays {
    // The histogram contains the interval of the timer too.
    const toSeconds = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - RESOLUTION_MS / 1_000);
    if (this.#histogram.count === 0) return { p50: 0, p99: 0, max: 0 };
    const [p50, p99] = [this.#histogram.percentile(50), this.#histogram.percentile(99)];
    return { p50: toSeconds(p50), p99: toSeconds(p99), max: toSeconds(this.#histogram.max) };
  }
}
