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
import type { BusEvents, ModelCall } from "gantry";
import type { HookSet } from "gantry/plugin";
import { toErrorType } from "./error-type.js";
import { toCallKey } from "./metric-recorder.js";
import { formatAnswer, formatRequest, toContent, type Redact } from "./span-content.js";
import { readTraceContext } from "./trace-context.js";

type Listeners = NonNullable<HookSet["listeners"]>;

/** Name of the agent in spans, as in streamed tokens. */
const AGENT_NAME = "orchestrator";
/** Maximum contexts of ended runs. Titles and late events still need them. */
const MAX_ENDED_RUNS = 1_000;

/** Creates the spans of an agent's events by the GenAI semantic conventions. Parents are passed explicitly. */
export class SpanRecorder {
  readonly #tracer: Tracer;
  /** Removes secrets from content. Undefined: spans contain no content. */
  readonly #redact: Redact | undefined;
  readonly #runs = new Map<string, Span>();
  readonly #endedRuns = new Map<string, Context>();
  readonly #modelCalls = new Map<string, Span>();
  readonly #toolCalls = new Map<string, Span>();
  /** Texts of requests by run id and purpose, from the hook until the call starts. */
  readonly #requests = new Map<string, string>();

  readonly listeners: Listeners = {
    "run.started": (event) => this.#startRun(event),
    "run.finished": ({ runId, result }) => {
      const { usage, finishReason, endedBy, iterations } = result;
      this.#endRun(runId, {
        "gen_ai.usage.input_tokens": usage.promptTokens,
        "gen_ai.usage.output_tokens": usage.completionTokens,
        "gen_ai.response.finish_reasons": [finishReason],
        "gantry.run.ended_by": endedBy,
        "gantry.run.iterations": iterations,
        "gantry.cost_usd": usage.cost,
      });
    },
    "run.failed": ({ runId, error }) => this.#endRun(runId, {}, error),
    "model.started": (event) => this.#startModelCall(event),
    "model.called": (event) => this.#endModelCall(event),
    "model.failed": ({ callId, error }) => {
      endSpan(this.#modelCalls.get(callId), {}, error);
      this.#modelCalls.delete(callId);
    },
    "model.retried": ({ runId, attempt, delayMs, error }) => {
      const attributes = { "gantry.attempt": attempt, "gantry.delay_ms": delayMs, "error.type": toErrorType(error) };
      this.#runs.get(runId)?.addEvent("gantry.model.retried", attributes);
    },
    "tool.started": (event) => this.#startToolCall(event),
    "tool.finished": (event) => this.#endToolCall(event),
    "session.compacted": ({ runId, strategy }) =>
      void this.#runs.get(runId)?.addEvent("gantry.session.compacted", { "gantry.strategy": strategy }),
    "ask.opened": ({ runId }) => void this.#runs.get(runId)?.addEvent("gantry.ask.opened"),
    "ask.closed": ({ runId }) => void this.#runs.get(runId)?.addEvent("gantry.ask.closed"),
  };

  constructor(tracer: Tracer, redact: Redact | undefined) {
    this.#tracer = tracer;
    this.#redact = redact;
  }

  /** Keeps the request of a model call for its span. */
  recordRequest(call: ModelCall): void {
    if (this.#redact) this.#requests.set(toRequestKey(call), formatRequest(call, this.#redact));
  }

  #startRun({ runId, sessionId, provider, model, parent, trace: callerTrace }: BusEvents["run.started"]): void {
    const parentSpan = parent && (this.#toolCalls.get(toCallKey(parent)) ?? this.#runs.get(parent.runId));
    const context = parentSpan ? trace.setSpan(ROOT_CONTEXT, parentSpan) : readTraceContext(callerTrace);
    const attributes = {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": AGENT_NAME,
      "gen_ai.conversation.id": sessionId,
      "gen_ai.provider.name": provider,
      "gen_ai.request.model": model,
      "gantry.run.id": runId,
    };
    const kind = parentSpan ? SpanKind.INTERNAL : SpanKind.SERVER;
    this.#runs.set(runId, this.#tracer.startSpan(`invoke_agent ${AGENT_NAME}`, { kind, attributes }, context));
  }

  #endRun(runId: string, attributes: Attributes, error?: Error): void {
    const span = this.#runs.get(runId);
    if (!span) return;
    this.#endedRuns.set(runId, trace.setSpan(ROOT_CONTEXT, span));
    const [oldestId] = this.#endedRuns.keys();
    if (this.#endedRuns.size > MAX_ENDED_RUNS && oldestId !== undefined) this.#endedRuns.delete(oldestId);
    this.#runs.delete(runId);
    endSpan(span, attributes, error);
  }

  #startModelCall(event: BusEvents["model.started"]): void {
    const { runId, sessionId, callId, provider, model, purpose } = event;
    const requestKey = toRequestKey(event);
    const request = this.#requests.get(requestKey);
    this.#requests.delete(requestKey);
    const attributes = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": provider,
      "gen_ai.request.model": model,
      "gen_ai.conversation.id": sessionId,
      "gantry.model.purpose": purpose,
      ...(request !== undefined && { "gen_ai.input.messages": request }),
    };
    const options = { kind: SpanKind.CLIENT, attributes };
    this.#modelCalls.set(callId, this.#tracer.startSpan(`chat ${model}`, options, this.#contextOfRun(runId)));
  }

  #endModelCall({ callId, usage, finishReason, firstTokenMs, parts }: BusEvents["model.called"]): void {
    const content = this.#redact && { "gen_ai.output.messages": formatAnswer(parts, finishReason ?? "", this.#redact) };
    endSpan(this.#modelCalls.get(callId), {
      "gen_ai.usage.input_tokens": usage.promptTokens,
      "gen_ai.usage.output_tokens": usage.completionTokens,
      "gen_ai.response.finish_reasons": [finishReason],
      "gantry.cost_usd": usage.cost,
      ...(firstTokenMs !== undefined && { "gen_ai.response.time_to_first_chunk": firstTokenMs / 1_000 }),
      ...content,
    });
    this.#modelCalls.delete(callId);
  }

  #startToolCall(event: BusEvents["tool.started"]): void {
    const { runId, sessionId, callId, name, origin } = event;
    const [, mcpServer, mcpTool] = /^mcp:([^/]*)\/(.*)$/s.exec(origin ?? "") ?? [];
    const attributes = {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": name,
      "gen_ai.tool.call.id": callId,
      "gen_ai.tool.type": origin === undefined ? "function" : "extension",
      "gen_ai.conversation.id": sessionId,
      ...(mcpServer !== undefined && {
        "mcp.method.name": "tools/call",
        "gantry.mcp.server": mcpServer,
        "gantry.mcp.tool": mcpTool,
      }),
      ...(this.#redact && { "gen_ai.tool.call.arguments": toContent(event.arguments, this.#redact) }),
    };
    const kind = mcpServer === undefined ? SpanKind.INTERNAL : SpanKind.CLIENT;
    const span = this.#tracer.startSpan(`execute_tool ${name}`, { kind, attributes }, this.#contextOfRun(runId));
    this.#toolCalls.set(toCallKey(event), span);
  }

  #endToolCall(event: BusEvents["tool.finished"]): void {
    const { failed, refused, output } = event;
    const key = toCallKey(event);
    const span = this.#toolCalls.get(key);
    this.#toolCalls.delete(key);
    if (failed) span?.setStatus({ code: SpanStatusCode.ERROR });
    endSpan(span, {
      ...(failed && { "error.type": refused ? "refused" : "tool_error" }),
      ...(this.#redact && { "gen_ai.tool.call.result": toContent(output, this.#redact) }),
    });
  }

  #contextOfRun(runId: string): Context {
    const span = this.#runs.get(runId);
    return span ? trace.setSpan(ROOT_CONTEXT, span) : (this.#endedRuns.get(runId) ?? ROOT_CONTEXT);
  }
}

/** Ends a span. The message of an error can contain content, so only its type is recorded. */
function endSpan(span: Span | undefined, attributes: Attributes, error?: unknown): void {
  if (!span) return;
  span.setAttributes(attributes);
  if (error !== undefined)
    span.setAttribute("error.type", toErrorType(error)).setStatus({ code: SpanStatusCode.ERROR });
  span.end();
}

function toRequestKey({ runId, purpose }: Pick<ModelCall, "runId" | "purpose">): string {
  return `${runId} ${purpose}`;
}
