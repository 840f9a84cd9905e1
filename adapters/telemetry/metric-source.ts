import type { HrTime } from "@opentelemetry/api";
import type { Resource } from "@opentelemetry/resources";
import type { CollectionResult, MetricProducer } from "@opentelemetry/sdk-metrics";
import type { Instruments } from "./instruments.js";

/** Gives the metrics to the readers of the SDK. */
export class MetricSource implements MetricProducer {
  /** Sets the gauges before each collection. */
  updateGauges: () => void = () => undefined;
  readonly #resource: Resource;
  readonly #instruments: Instruments;
  readonly #startTime = toHrTime(Date.now());

  constructor(resource: Resource, instruments: Instruments) {
    this.#resource = resource;
    this.#instruments = instruments;
  }

  collect(): Promise<CollectionResult> {
    this.updateGauges();
    const endTime = toHrTime(Date.now());
    const metrics = Object.values(this.#instruments)
      .map((instrument) => instrument.toMetricData(this.#startTime, endTime))
      .filter(({ dataPoints }) => dataPoints.length > 0);
    const scopeMetrics = [{ scope: { name: "gantry" }, metrics }];
    return Promise.resolve({ resourceMetrics: { resource: this.#resource, scopeMetrics }, errors: [] });
  }
}

function toHrTime(timeMs: number): HrTime {
  return [Math.floor(timeMs / 1_000), (timeMs % 1_000) * 1e6];
}
