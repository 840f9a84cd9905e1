import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Span,
  type Tracer,
} from "@opentelemetry/api";
import type { BusEvents, Logger, ModelCall } from "gantry";
import type { HookSet } from "gantry/plugin";
import { toErrorType } from "./error-type.js";
import { EventBatcher, type EventHandlers } from "./event-batcher.js";
import { toCallKey } from "./metric-recorder.js";
import { formatAnswer, formatRequest, toContent, type Redact } from "./span-content.js";
import { readTraceContext } from "./trace-context.js";

interface RunSpan {
  readonly span: Span;
  /** The context of the spans below it. */
  readonly context: Context;
}

/** Name of the agent in spans, as in streamed tokens. */
const AGENT_NAME = "orchestrator";
/** Maximum contexts of ended runs. Titles and late events still need them. */
const MAX_ENDED_RUNS = 1_000;

/** Creates the spans of an agent's events by the GenAI semantic conventions. Parents are passed explicitly. */
export class SpanRecorder {
  readonly #tracer: Tracer;
  /** Removes secrets from content. Undefined: spans contain no content. */
  readonly #redact: Redact | undefined;
  readonly #runs = new Map<string, RunSpan>();
  readonly #endedRuns = new Map<string, Context>();
  readonly #modelCalls = new Map<string, Span>();
  readonly #toolCalls = new Map<string, Span>();
  /** Texts of requests by run id and purpose, from the hook until the call starts. */
  readonly #requests = new Map<string, string>();

  readonly #batcher: EventBatcher;
  readonly #handlers: EventHandlers = {
    "run.started": (event, timeMs) => this.#startRun(event, timeMs),
    "run.finished": ({ runId, result }, timeMs) => {
      const { usage, finishReason, endedBy, iterations } = result;
      this.#endRun(runId, timeMs, {
        "gen_ai.usage.input_tokens": usage.promptTokens,
        "gen_ai.usage.output_tokens": usage.completionTokens,
        "gen_ai.response.finish_reasons": [finishReason],
        "gantry.run.ended_by": endedBy,
        "gantry.run.iterations": iterations,
        "gantry.cost_usd": usage.cost,
      });
    },
    "run.failed": ({ runId, error }, timeMs) => this.#endRun(runId, timeMs, {}, error),
    "model.started": (event, timeMs) => this.#startModelCall(event, timeMs),
    "model.called": (event, timeMs) => this.#endModelCall(event, timeMs),
    "model.failed": ({ callId, error }, timeMs) => {
      endSpan(this.#modelCalls.get(callId), timeMs, {}, error);
      this.#modelCalls.delete(callId);
    },
    "model.retried": ({ runId, attempt, delayMs, error }, timeMs) => {
      const attributes = { "gantry.attempt": attempt, "gantry.delay_ms": delayMs, "error.type": toErrorType(error) };
      this.#addRunEvent(runId, timeMs, "gantry.model.retried", attributes);
    },
    "tool.started": (event, timeMs) => this.#startToolCall(event, timeMs),
    "tool.finished": (event, timeMs) => this.#endToolCall(event, timeMs),
    "session.compacted": ({ runId, strategy }, timeMs) =>
      this.#addRunEvent(runId, timeMs, "gantry.session.compacted", { "gantry.strategy": strategy }),
    "ask.opened": ({ runId }, timeMs) => this.#addRunEvent(runId, timeMs, "gantry.ask.opened"),
    "ask.closed": ({ runId }, timeMs) => this.#addRunEvent(runId, timeMs, "gantry.ask.closed"),
  };
  readonly listeners: NonNullable<HookSet["listeners"]>;

  constructor(tracer: Tracer, redact: Redact | undefined, logger: Logger) {
    this.#tracer = tracer;
    this.#redact = redact;
    this.#batcher = new EventBatcher(logger);
    this.listeners = this.#batcher.createListeners(this.#handlers);
  }

  /** Records the events that wait. */
  flush(): void {
    this.#batcher.flush();
  }

  /** Keeps the request of a model call for its span. */
  recordRequest(call: ModelCall): void {
    if (!this.#redact) return;
    // The messages of the request can change before the event is handled.
    const text = formatRequest(call, this.#redact);
    this.#batcher.add(() => this.#requests.set(toRequestKey(call), text), undefined);
  }

  #startRun(event: BusEvents["run.started"], timeMs: number): void {
    const { runId, sessionId, provider, model, parent, trace: callerTrace } = event;
    const parentSpan = parent && (this.#toolCalls.get(toCallKey(parent)) ?? this.#runs.get(parent.runId)?.span);
    const parentContext = parentSpan ? trace.setSpan(ROOT_CONTEXT, parentSpan) : readTraceContext(callerTrace);
    const kind = parentSpan ? SpanKind.INTERNAL : SpanKind.SERVER;
    const span = this.#startSpan(`invoke_agent ${AGENT_NAME}`, kind, timeMs, parentContext, {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": AGENT_NAME,
      "gen_ai.conversation.id": sessionId,
      "gen_ai.provider.name": provider,
      "gen_ai.request.model": model,
      "gantry.run.id": runId,
    });
    this.#runs.set(runId, { span, context: trace.setSpan(ROOT_CONTEXT, span) });
  }

  #endRun(runId: string, timeMs: number, attributes: Attributes, error?: Error): void {
    const run = this.#runs.get(runId);
    if (!run) return;
    this.#endedRuns.set(runId, run.context);
    const [oldestId] = this.#endedRuns.keys();
    if (this.#endedRuns.size > MAX_ENDED_RUNS && oldestId !== undefined) this.#endedRuns.delete(oldestId);
    this.#runs.delete(runId);
    endSpan(run.span, timeMs, attributes, error);
  }

  #addRunEvent(runId: string, timeMs: number, name: string, attributes: Attributes = {}): void {
    this.#runs.get(runId)?.span.addEvent(name, attributes, timeMs);
  }

  #startModelCall(event: BusEvents["model.started"], timeMs: number): void {
    const { runId, sessionId, callId, provider, model, purpose } = event;
    const requestKey = toRequestKey(event);
    const request = this.#requests.get(requestKey);
    this.#requests.delete(requestKey);
    const span = this.#startSpan(`chat ${model}`, SpanKind.CLIENT, timeMs, this.#contextOfRun(runId), {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": provider,
      "gen_ai.request.model": model,
      "gen_ai.conversation.id": sessionId,
      "gantry.model.purpose": purpose,
      "gen_ai.input.messages": request,
    });
    this.#modelCalls.set(callId, span);
  }

  #endModelCall(event: BusEvents["model.called"], timeMs: number): void {
    const { callId, usage, finishReason, firstTokenMs, parts } = event;
    endSpan(this.#modelCalls.get(callId), timeMs, {
      "gen_ai.usage.input_tokens": usage.promptTokens,
      "gen_ai.usage.output_tokens": usage.completionTokens,
      "gen_ai.response.finish_reasons": [finishReason],
      "gantry.cost_usd": usage.cost,
      "gen_ai.response.time_to_first_chunk": firstTokenMs === undefined ? undefined : firstTokenMs / 1_000,
      "gen_ai.output.messages": this.#redact && formatAnswer(parts, finishReason ?? "", this.#redact),
    });
    this.#modelCalls.delete(callId);
  }

  #startToolCall(event: BusEvents["tool.started"], timeMs: number): void {
    const { runId, sessionId, callId, name, origin } = event;
    const [, mcpServer, mcpTool] = (origin !== undefined && /^mcp:([^/]*)\/(.*)$/s.exec(origin)) || [];
    const kind = mcpServer === undefined ? SpanKind.INTERNAL : SpanKind.CLIENT;
    const span = this.#startSpan(`execute_tool ${name}`, kind, timeMs, this.#contextOfRun(runId), {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": name,
      "gen_ai.tool.call.id": callId,
      "gen_ai.tool.type": origin === undefined ? "function" : "extension",
      "gen_ai.conversation.id": sessionId,
      "mcp.method.name": mcpServer === undefined ? undefined : "tools/call",
      "gantry.mcp.server": mcpServer,
      "gantry.mcp.tool": mcpTool,
      "gen_ai.tool.call.arguments": this.#redact && toContent(event.arguments, this.#redact),
    });
    this.#toolCalls.set(toCallKey(event), span);
  }

  #endToolCall(event: BusEvents["tool.finished"], timeMs: number): void {
    const { failed, refused, output } = event;
    const key = toCallKey(event);
    const span = this.#toolCalls.get(key);
    this.#toolCalls.delete(key);
    if (failed) span?.setStatus({ code: SpanStatusCode.ERROR });
    endSpan(span, timeMs, {
      "error.type": failed ? (refused ? "refused" : "tool_error") : undefined,
      "gen_ai.tool.call.result": this.#redact && toContent(output, this.#redact),
    });
  }

  #contextOfRun(runId: string): Context {
    return this.#runs.get(runId)?.context ?? this.#endedRuns.get(runId) ?? ROOT_CONTEXT;
  }

  /** Attributes that are undefined are left out. `startSpan` of the SDK would copy all of them three times. */
  #startSpan(name: string, kind: SpanKind, startTime: number, context: Context, attributes: Attributes): Span {
    return this.#tracer.startSpan(name, { kind, startTime }, context).setAttributes(attributes);
  }
}

/** Ends a span. The message of an error can contain content, so only its type is recorded. */
function endSpan(span: Span | undefined, timeMs: number, attributes: Attributes, error?: unknown): void {
  if (!span) return;
  span.setAttributes(attributes);
  if (error !== undefined)
    span.setAttribute("error.type", toErrorType(error)).setStatus({ code: SpanStatusCode.ERROR });
  span.end(timeMs);
}

function toRequestKey({ runId, purpose }: Pick<ModelCall, "runId" | "purpose">): string {
  return `${runId} ${purpose}`;
}
