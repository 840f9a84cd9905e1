import { isSpanContextValid, ROOT_CONTEXT, trace, type Context } from "@opentelemetry/api";

const TRACEPARENT = /^(?!ff)[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-|$)/;

/** Returns the context of a caller's `traceparent` (W3C Trace Context). An invalid text gives an empty context. */
export function readTraceContext(text = ""): Context {
  const [, traceId = "", spanId = "", flags = "0"] = TRACEPARENT.exec(text) ?? [];
  const spanContext = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isSpanContextValid(spanContext) ? trace.setSpanContext(ROOT_CONTEXT, spanContext) : ROOT_CONTEXT;
}
