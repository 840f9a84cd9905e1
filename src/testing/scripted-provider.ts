import { setTimeout as sleep } from "node:timers/promises";
import type {
  FinishReason,
  Model,
  ModelChunk,
  ModelProvider,
  ModelRequest,
  ModelUsage,
} from "../ports/model-provider.js";

/** A part of a scripted answer: a chunk, a number of ms to wait, or a promise to await. */
export type ScriptedChunk = ModelChunk | number | Promise<unknown>;

/** A scripted answer with all settings. */
export interface ScriptedAnswer {
  /** Chunks in the order in which they are sent. */
  chunks?: readonly ScriptedChunk[];
  /** Error that is thrown after the chunks. Default: none. */
  fault?: Error;
  /** Whether to stall after the chunks until the signal aborts. */
  hang?: boolean;
  /** Whether a `finish` is added if the chunks have none. Default true. */
  finish?: boolean;
}

/** An answer: a text, chunks, an error, or all settings. A `finish` is added if there is none. */
export type ScriptedReply = string | readonly ScriptedChunk[] | Error | ScriptedAnswer;

/** A step of the script: an answer, or a function that creates one from the request. */
export type ScriptedStep =
  ScriptedReply | ((request: ModelRequest, signal: AbortSignal) => ScriptedReply | Promise<ScriptedReply>);

/** Name, models and default answers of a scripted provider. */
export interface ScriptedProviderOptions {
  /** Default `scripted`. */
  name?: string | undefined;
  /** Default: one model, `scripted-1`, with a window of 128,000 tokens. */
  models?: readonly Model[] | undefined;
  /** Result of `models()`. Default: the same as `models`. */
  list?: ((signal: AbortSignal) => Promise<Model[]>) | undefined;
  /** Default 60,000. */
  idleTimeoutMs?: number | undefined;
  /** Default 0. */
  maxRetries?: number | undefined;
  /** Default 60,000. */
  maxWaitMs?: number | undefined;
  /** Answer after the end of the script. Default: the text `ok`. */
  fallback?: ScriptedStep | undefined;
  /** Usage of each added `finish`. Default: 10 input and 5 output tokens. */
  usage?: { [Key in keyof ModelUsage]?: ModelUsage[Key] | undefined } | undefined;
  /**
   * Answer to title requests (temperature 0.3, no tools), which then take no step from the script. Title requests are
   * stored in `titleRequests`.
   *
   * Null: title requests take steps like other requests. Default `Scripted title`.
   */
  title?: ScriptedStep | null | undefined;
}

/** Temperature of the core's title requests. */
const TITLE_TEMPERATURE = 0.3;
const DEFAULT_MODEL: Model = { id: "scripted-1", name: "Scripted 1", ownedBy: "scripted", contextWindow: 128_000 };

/** Returns the chunks of a complete text answer. */
export function say(text: string, usage?: Parameters<typeof finish>[1]): ModelChunk[] {
  return [{ type: "text", block: "0", text }, finish("stop", usage)];
}

/**
 * Returns the chunks of an answer that calls tools. Each call is `[name, arguments, id]`, with arguments as a value or
 * JSON text. Default ids are `call_1`, `call_2` and so on.
 */
export function callTools(...calls: readonly (readonly [name: string, args: unknown, id?: string])[]): ModelChunk[] {
  return [
    ...calls.map(([name, args, id], i): ModelChunk => {
      const text = typeof args === "string" ? args : JSON.stringify(args);
      return { type: "tool_call", id: id ?? `call_${i + 1}`, name, arguments: text };
    }),
    finish("tool_calls"),
  ];
}

/** Returns the chunk that ends an answer. */
export function finish(
  reason: FinishReason,
  usage: { [Key in keyof ModelUsage]?: ModelUsage[Key] | undefined } = {},
): ModelChunk {
  const requestedUsage = Object.fromEntries(Object.entries(usage).filter(([, tokens]) => tokens !== undefined));
  return {
    type: "finish",
    reason,
    usage: {
      inputTokens: 10,
      outputTokens: 5,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
      ...requestedUsage,
    },
  };
}

/** A model provider that answers by a script, step by step, and records all requests. */
export class ScriptedProvider implements ModelProvider {
  readonly name: string;
  readonly idleTimeoutMs: number;
  readonly maxRetries: number;
  readonly maxWaitMs: number;
  readonly configuredModels: readonly Model[];
  /** Copies of all requests that took a step or the fallback, in order. */
  readonly requests: ModelRequest[] = [];
  /** Title requests that were answered without a step. */
  readonly titleRequests: ModelRequest[] = [];
  /** Number of active answers. */
  active = 0;
  /** Whether `close` was called. */
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
    this.configuredModels = options.models ?? [DEFAULT_MODEL];
  }

  /** Appends steps to the script. */
  push(...steps: readonly ScriptedStep[]): this {
    this.#steps.push(...steps);
    return this;
  }

  /** Number of remaining steps. */
  get remaining(): number {
    return this.#steps.length;
  }

  async models(signal: AbortSignal): Promise<Model[]> {
    signal.throwIfAborted();
    return this.#options.list ? await this.#options.list(signal) : [...this.configuredModels];
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    signal.throwIfAborted();
    const step = this.#nextStep(request);
    this.active++;
    try {
      const reply = typeof step === "function" ? await step(request, signal) : step;
      yield* this.#sendChunks(toAnswer(reply), signal);
    } finally {
      this.active--;
    }
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }

  #nextStep(request: ModelRequest): ScriptedStep {
    const title = this.#options.title === undefined ? "Scripted title" : this.#options.title;
    if (title !== null && request.temperature === TITLE_TEMPERATURE && request.tools.length === 0) {
      this.titleRequests.push(copyRequest(request));
      return title;
    }
    this.requests.push(copyRequest(request));
    return this.#steps.shift() ?? this.#options.fallback ?? "ok";
  }

  async *#sendChunks(answer: ScriptedAnswer, signal: AbortSignal): AsyncIterable<ModelChunk> {
    let hasFinish = false;
    let hasToolCall = false;
    for (const chunk of answer.chunks ?? []) {
      if (typeof chunk === "number") {
        await sleep(chunk, undefined, { signal }).catch(() => undefined);
        signal.throwIfAborted();
        continue;
      }
      if (chunk instanceof Promise) {
        await Promise.race([chunk, waitForAbort(signal)]);
        signal.throwIfAborted();
        continue;
      }
      signal.throwIfAborted();
      hasFinish ||= chunk.type === "finish";
      hasToolCall ||= chunk.type === "tool_call";
      yield chunk;
    }
    if (answer.fault) throw answer.fault;
    if (answer.hang) {
      await waitForAbort(signal);
      signal.throwIfAborted();
    }
    if (!hasFinish && answer.finish !== false) yield finish(hasToolCall ? "tool_calls" : "stop", this.#options.usage);
  }
}

function waitForAbort(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function toAnswer(reply: ScriptedReply): ScriptedAnswer {
  if (typeof reply === "string") return { chunks: [{ type: "text", block: "0", text: reply }] };
  if (reply instanceof Error) return { fault: reply };
  return isChunks(reply) ? { chunks: reply } : reply;
}

function isChunks(reply: readonly ScriptedChunk[] | ScriptedAnswer): reply is readonly ScriptedChunk[] {
  return Array.isArray(reply);
}

/**
 * Returns a copy that later changes of the conversation do not affect. Fields of tools are copied one by one, because
 * tools can contain functions.
 */
function copyRequest(request: ModelRequest): ModelRequest {
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
