import { setTimeout as sleep } from "node:timers/promises";
import type {
  FinishReason,
  Model,
  ModelChunk,
  ModelProvider,
  ModelRequest,
  ModelUsage,
} from "../ports/model-provider.js";

/** A piece of a scripted answer: a chunk, a number of ms to wait, or something to wait for. */
export type ScriptedChunk = ModelChunk | number | Promise<unknown>;

/** An answer in full. */
export interface ScriptedAnswer {
  /** Sent in order. */
  chunks?: readonly ScriptedChunk[];
  /** Thrown behind the chunks; without chunks, before anything was sent. */
  fault?: Error;
  /** Behind the chunks, say nothing until the signal aborts. */
  hang?: boolean;
  /** Whether a `finish` is added where the chunks have none. Default true. */
  finish?: boolean;
}

/** An answer: its text, its chunks, an error, or all of it. A `finish` is added where there is none. */
export type ScriptedReply = string | readonly ScriptedChunk[] | Error | ScriptedAnswer;

/** One step of the script: an answer, or a function that makes one from the request. */
export type ScriptedStep =
  ScriptedReply | ((request: ModelRequest, signal: AbortSignal) => ScriptedReply | Promise<ScriptedReply>);

/** What a scripted provider is called and says of its models. */
export interface ScriptedProviderOptions {
  /** Default `scripted`. */
  name?: string | undefined;
  /** Default one model, `scripted-1`, with a window of 128,000 tokens. */
  models?: readonly Model[] | undefined;
  /** What `models()` answers; default the same as `models`. */
  list?: ((signal: AbortSignal) => Promise<Model[]>) | undefined;
  /** Default 60,000. */
  idleTimeoutMs?: number | undefined;
  /** Default 0. */
  maxRetries?: number | undefined;
  /** Default 60,000. */
  maxWaitMs?: number | undefined;
  /** The answer when the script has ended; default the text `ok`. */
  fallback?: ScriptedStep | undefined;
  /** Of each added `finish`; default 10 tokens in and 5 out. */
  usage?: { [Key in keyof ModelUsage]?: ModelUsage[Key] | undefined } | undefined;
  /**
   * What calls for a title (temperature 0.3, no tools) are answered, so that they take no step from the script;
   * they are kept in `titleRequests`. `null`: they are like any other call. Default `Scripted title`.
   */
  title?: ScriptedStep | null | undefined;
}

const MODEL: Model = { id: "scripted-1", name: "Scripted 1", ownedBy: "scripted", contextWindow: 128_000 };

/** A whole text answer. */
export function say(text: string, usage?: Parameters<typeof finish>[1]): ModelChunk[] {
  return [{ type: "text", block: "0", text }, finish("stop", usage)];
}

/** An answer that calls tools, each `[name, arguments]` with arguments as a value or as JSON text. Ids are `call_1`, `call_2`, ... unless given third. */
export function callTools(...calls: readonly (readonly [name: string, args: unknown, id?: string])[]): ModelChunk[] {
  return [
    ...calls.map(([name, args, id], at): ModelChunk => {
      const text = typeof args === "string" ? args : JSON.stringify(args);
      return { type: "tool_call", id: id ?? `call_${at + 1}`, name, arguments: text };
    }),
    finish("tool_calls"),
  ];
}

/** The chunk that ends an answer. */
export function finish(
  reason: FinishReason,
  usage: { [Key in keyof ModelUsage]?: ModelUsage[Key] | undefined } = {},
): ModelChunk {
  const given = Object.fromEntries(Object.entries(usage).filter(([, tokens]) => tokens !== undefined));
  return {
    type: "finish",
    reason,
    usage: { inputTokens: 10, outputTokens: 5, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0, ...given },
  };
}

/** A model that says what a script tells it to, step by step, and keeps what it was asked. */
export class ScriptedProvider implements ModelProvider {
  readonly name: string;
  readonly idleTimeoutMs: number;
  readonly maxRetries: number;
  readonly maxWaitMs: number;
  readonly configuredModels: readonly Model[];
  /** Every request that took a step, or the fallback, in order; copies. */
  readonly requests: ModelRequest[] = [];
  /** Calls for a title that were answered apart. */
  readonly titleRequests: ModelRequest[] = [];
  /** Answers under way. */
  active = 0;
  closed = false;
  readonly #steps: ScriptedStep[];
  readonly #options: ScriptedProviderOptions;

  constructor(steps: readonly ScriptedStep[] = [], options: ScriptedProviderOptions = {}) {
    this.#steps = [...steps];
    this.#options = options;
    this.name = options.name ?? "scripted";
    this.idleTimeoutMs = options.idleTimeoutMs ?? 60_000;
    this.maxRetries = options.maxRetries ?? 0;
    this.maxWaitMs = options.maxWaitMs ?? 60_000;
    this.configuredModels = options.models ?? [MODEL];
  }

  /** Add steps to the end of the script. */
  push(...steps: readonly ScriptedStep[]): this {
    this.#steps.push(...steps);
    return this;
  }

  /** Steps not yet taken. */
  get remaining(): number {
    return this.#steps.length;
  }

  async models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    return this.#options.list ? await this.#options.list(signal) : [...this.configuredModels];
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    signal.throwIfAborted();
    const step = this.#take(request);
    this.active++;
    try {
      const reply = typeof step === "function" ? await step(request, signal) : step;
      yield* this.#play(answerOf(reply), signal);
    } finally {
      this.active--;
    }
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }

  #take(request: ModelRequest): ScriptedStep {
    const title = this.#options.title === undefined ? "Scripted title" : this.#options.title;
    if (title !== null && request.temperature === 0.3 && request.tools.length === 0) {
      this.titleRequests.push(copyOf(request));
      return title;
    }
    this.requests.push(copyOf(request));
    return this.#steps.shift() ?? this.#options.fallback ?? "ok";
  }

  async *#play(answer: ScriptedAnswer, signal: AbortSignal): AsyncIterable<ModelChunk> {
    let finished = false;
    let called = false;
    for (const chunk of answer.chunks ?? []) {
      if (typeof chunk === "number") {
        await sleep(chunk, undefined, { signal }).catch(() => undefined);
        signal.throwIfAborted();
        continue;
      }
      if (chunk instanceof Promise) {
        await Promise.race([chunk, aborted(signal)]);
        signal.throwIfAborted();
        continue;
      }
      signal.throwIfAborted();
      finished ||= chunk.type === "finish";
      called ||= chunk.type === "tool_call";
      yield chunk;
    }
    if (answer.fault) throw answer.fault;
    if (answer.hang) {
      await aborted(signal);
      signal.throwIfAborted();
    }
    if (!finished && answer.finish !== false) yield finish(called ? "tool_calls" : "stop", this.#options.usage);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function answerOf(reply: ScriptedReply): ScriptedAnswer {
  if (typeof reply === "string") return { chunks: [{ type: "text", block: "0", text: reply }] };
  if (reply instanceof Error) return { fault: reply };
  return isChunks(reply) ? { chunks: reply } : reply;
}

function isChunks(reply: readonly ScriptedChunk[] | ScriptedAnswer): reply is readonly ScriptedChunk[] {
  return Array.isArray(reply);
}

/** A copy that later changes of the conversation do not reach. Tools may carry functions, so they are picked by field. */
function copyOf(request: ModelRequest): ModelRequest {
  return {
    ...request,
    messages: structuredClone(request.messages),
    tools: request.tools.map(({ name, description, inputSchema, kind, parallel, needsPermission }) => ({
      name,
      description,
      inputSchema,
      kind,
      parallel,
      needsPermission,
    })),
  };
}
