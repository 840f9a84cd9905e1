import type { Counter, Histogram, Meter, ObservableCounter, ObservableGauge } from "@opentelemetry/api";
import { METRICS, type MetricDefinition, type MetricKind } from "./metrics.js";

interface InstrumentsByKind {
  counter: Counter;
  histogram: Histogram;
  gauge: ObservableGauge;
  sum: ObservableCounter;
}

/** An instrument for each metric. */
export type Instruments = {
  readonly [Key in keyof typeof METRICS]: InstrumentsByKind[(typeof METRICS)[Key]["kind"]];
};

export function createInstruments(meter: Meter): Instruments {
  const entries = Object.entries(METRICS).map(([key, metric]) => [key, createInstrument(meter, metric)]);
  return Object.fromEntries(entries) as Instruments;
}

function createInstrument(meter: Meter, metric: MetricDefinition): InstrumentsByKind[MetricKind] {
  const { name, kind, unit, about, buckets = [] } = metric;
  const options = { unit, description: about.replaceAll("`", "") };
  switch (kind) {
    case "counter":
      return meter.createCounter(name, options);
    case "histogram":
      return meter.createHistogram(name, { ...options, advice: { explicitBucketBoundaries: [...buckets] } });
    case "gauge":
      return meter.createObservableGauge(name, options);
    case "sum":
      return meter.createObservableCounter(name, options);
  }
}
