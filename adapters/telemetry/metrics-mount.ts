import type { IncomingMessage, ServerResponse } from "node:http";
import { MetricReader } from "@opentelemetry/sdk-metrics";
import { PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import { answer, type HttpMount } from "gantry/http";
import type { Logger } from "gantry";

const PATH = "/metrics";

/** Reads metrics on request. */
export class PullReader extends MetricReader {
  protected override onForceFlush(): Promise<void> {
    return Promise.resolve();
  }

  protected override onShutdown(): Promise<void> {
    return Promise.resolve();
  }
}

/** Returns the mount of `GET /metrics`. Simultaneous requests share one collection. */
export function createMetricsMount(reader: MetricReader, logger: Logger): HttpMount {
  const serializer = new PrometheusSerializer(undefined, false, undefined, true, true);
  let pendingText: Promise<string> | undefined;
  const collect = (): Promise<string> =>
    (pendingText ??= reader
      .collect()
      .then(({ resourceMetrics }) => serializer.serialize(resourceMetrics))
      .finally(() => (pendingText = undefined)));
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname } = new URL(request.url ?? "", "http://localhost");
    if (pathname !== PATH) return answer(response, { status: 404, message: "not found", code: "not_found" });
    if (request.method !== "GET" && request.method !== "HEAD") {
      const refusal = { status: 405, message: "expected GET", code: "method_not_allowed", headers: { Allow: "GET" } };
      return answer(response, refusal);
    }
    const text = await collect();
    response.writeHead(200, {
      "Content-Type": "text/plain; version=0.0.4; charset=utf-8",
      "Content-Length": Buffer.byteLength(text),
      "Cache-Control": "no-store",
    });
    response.end(request.method === "HEAD" ? undefined : text);
  };
  return {
    prefix: PATH,
    fallback: false,
    authenticated: false,
    handler: (request, response) =>
      void handle(request, response).catch((error: unknown) => {
        logger.error("metrics could not be collected", { error });
        if (!response.headersSent) answer(response, { status: 500, message: "internal error", code: "internal" });
      }),
    refuse: (_request, response, refusal) => answer(response, refusal),
  };
}
