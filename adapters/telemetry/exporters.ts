import { JsonMetricsSerializer, JsonTraceSerializer } from "@opentelemetry/otlp-transformer";
import type { PushMetricExporter } from "@opentelemetry/sdk-metrics";
import type { SpanExporter } from "@opentelemetry/sdk-trace";
import type { OtlpSender } from "./otlp-sender.js";

/** The sender reports failures. The SDK would report them to the logger of the whole process. */
const SUCCESS = { code: 0 };

export function createMetricExporter(sender: OtlpSender): PushMetricExporter {
  return {
    export: (metrics, onResult) =>
      sendData(sender, "metrics", JsonMetricsSerializer.serializeRequest(metrics), onResult),
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
}

export function createSpanExporter(sender: OtlpSender): SpanExporter {
  return {
    export: (spans, onResult) => sendData(sender, "traces", JsonTraceSerializer.serializeRequest(spans), onResult),
    shutdown: () => Promise.resolve(),
  };
}

function sendData(
  sender: OtlpSender,
  signal: "metrics" | "traces",
  body: Uint8Array | undefined,
  onResult: (result: { code: number }) => void,
): void {
  void (body ? sender.send(signal, body) : Promise.resolve()).then(() => onResult(SUCCESS));
}
