import { monitorEventLoopDelay } from "node:perf_hooks";
import type { AgentStatistics } from "gantry";
import type { TelemetrySources } from "gantry/plugin";
import type { Instruments } from "./instruments.js";

/** Resolution of the measurement of the event loop, in ms. Each step wakes an idle process. */
const RESOLUTION_MS = 50;
/** Minimum length of the interval of which quantiles are reported, in ms. Several collectors may read it. */
const MIN_WINDOW_MS = 10_000;

/** Measures the event loop, and sets the gauges on request. */
export class Gauges {
  readonly #loop = new EventLoopWindow();
  readonly #instruments: Instruments;
  readonly #sources: TelemetrySources;

  constructor(instruments: Instruments, sources: TelemetrySources) {
    this.#instruments = instruments;
    this.#sources = sources;
  }

  update(openAskCount: number): void {
    const { streams, connections, eventLoopDelay, memory, cpu, uptime, openAsks } = this.#instruments;
    const { readStatistics, host } = this.#sources;
    const statistics = readStatistics();
    for (const name of Object.keys(statistics) as (keyof AgentStatistics)[])
      this.#instruments[name].set(statistics[name]);
    openAsks.set(openAskCount);
    if (host?.counts) {
      streams.set(host.counts.streams);
      connections.set(host.counts.connections);
    }
    for (const [quantile, seconds] of Object.entries(this.#loop.read())) eventLoopDelay.set(seconds, { quantile });
    const { rss, heapUsed, heapTotal, external } = process.memoryUsage();
    for (const [type, bytes] of Object.entries({ rss, heap_used: heapUsed, heap_total: heapTotal, external }))
      memory.set(bytes, { type });
    const { user, system } = process.cpuUsage();
    cpu.set(user / 1e6, { mode: "user" });
    cpu.set(system / 1e6, { mode: "system" });
    uptime.set(process.uptime());
  }

  end(): void {
    this.#loop.end();
  }
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
