import { ProviderError } from "gantry";
import type { Model, ModelChunk, ModelMessage, ModelProvider, ModelRequest } from "gantry/plugin";

/** Only title requests have this temperature. */
const TITLE_TEMPERATURE = 0.3;

export interface WindowProviderOptions {
  /** Context window: maximum tokens of prompt and answer together. */
  window: number;
  /** Context window that the model listing reports, in tokens. Default: `window`; `null`: the listing reports none. */
  reportedWindow?: number | null;
  /** Bytes of one token. Default: 3.5. */
  bytesPerToken?: number;
  /** Whether the error of a rejected request names the window. Default: false. */
  namesWindow?: boolean;
  /** Returns the prompt tokens to report for the counted tokens. Default: the counted tokens. */
  reportTokens?: (tokenCount: number) => number;
  /** Maximum tokens of an answer. Default: unlimited. */
  maxOutput?: number;
  /** The answer: text, or calls. `call` counts model calls from 1; title requests are answered separately. */
  answer: (request: ModelRequest, call: number) => string | readonly (readonly [name: string, args: unknown])[];
}

/**
 * A model with a real context window. It counts tokens, rejects requests that exceed the window, and records invalid
 * histories.
 */
export class WindowProvider implements ModelProvider {
  readonly name = "window";
  readonly idleTimeoutMs = 60_000;
  readonly maxRetries = 0;
  readonly maxWaitMs = 60_000;
  readonly configuredModels: readonly Model[];
  /** Violations that a real provider would reject with 400. */
  readonly violations: string[] = [];
  /** Number of requests that exceeded the window. */
  refusedCount = 0;
  callCount = 0;
  /** Tokens of the largest accepted request. */
  largestRequestTokens = 0;
  lastRequest: ModelRequest | undefined;
  readonly #options: WindowProviderOptions;
  #idCount = 0;

  constructor(options: WindowProviderOptions) {
    this.#options = options;
    const { window, reportedWindow = window, maxOutput } = options;
    this.configuredModels = [
      {
        id: "m1",
        name: "M 1",
        ownedBy: "tests",
        ...(reportedWindow === null ? {} : { contextWindow: reportedWindow }),
        ...(maxOutput === undefined ? {} : { maxOutput }),
      },
    ];
  }

  models(): Promise<Model[]> {
    return Promise.resolve([...this.configuredModels]);
  }

  async *stream(request: ModelRequest): AsyncIterable<ModelChunk> {
    if (request.temperature === TITLE_TEMPERATURE) {
      yield* createTextChunks("A title", 1);
      return;
    }
    this.callCount += 1;
    const tokens = this.countTokens(request);
    const { window, maxOutput } = this.#options;
    const answerTokens = Math.min(request.maxTokens ?? maxOutput ?? 1, maxOutput ?? Infinity);
    if (tokens + answerTokens > window) {
      this.refusedCount += 1;
      throw new ProviderError(this.name, "context_length", `prompt of ${tokens} and answer of ${answerTokens} tokens`, {
        status: 400,
        contextTokens: this.#options.namesWindow ? window : undefined,
      });
    }
    this.largestRequestTokens = Math.max(this.largestRequestTokens, tokens);
    this.violations.push(...findHistoryFaults(request.messages));
    this.lastRequest = request;
    const modelAnswer = this.#options.answer(request, this.callCount);
    const reportedTokens = (this.#options.reportTokens ?? ((counted) => counted))(tokens);
    if (typeof modelAnswer === "string") yield* createTextChunks(modelAnswer, reportedTokens);
    else {
      for (const [name, args] of modelAnswer) {
        yield { type: "tool_call", id: `t${++this.#idCount}`, name, arguments: JSON.stringify(args) };
      }
      yield createFinishChunk("tool_calls", reportedTokens);
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  countTokens({ system, tools, messages }: ModelRequest): number {
    let bytes = Buffer.byteLength(system);
    for (const { name, description, inputSchema } of tools) {
      bytes += Buffer.byteLength(JSON.stringify({ name, description, inputSchema }));
    }
    for (const { parts } of messages) {
      for (const part of parts) {
        if (part.type === "text" || part.type === "reasoning") bytes += Buffer.byteLength(part.text);
        else if (part.type === "tool_call") bytes += part.name.length + Buffer.byteLength(part.arguments);
        else bytes += part.data.length;
      }
    }
    return Math.ceil(bytes / (this.#options.bytesPerToken ?? 3.5));
  }
}

/**
 * Violations that strict providers reject: a result without its call, a call without results directly after it, a
 * history that does not start with a user message.
 */
export function findHistoryFaults(messages: readonly ModelMessage[]): string[] {
  const faults: string[] = [];
  if (messages[0]?.role !== "user") faults.push(`begins with ${messages[0]?.role ?? "nothing"}`);
  let openCallIds = new Set<string>();
  const callIds = new Set<string>();
  for (const [i, message] of messages.entries()) {
    if (message.role === "tool") {
      if (!openCallIds.delete(message.toolCallId)) faults.push(`message ${i}: no call ${message.toolCallId} to answer`);
      continue;
    }
    if (openCallIds.size > 0) faults.push(`message ${i}: calls ${[...openCallIds].join()} are not answered`);
    openCallIds = new Set();
    if (message.parts.length === 0) faults.push(`message ${i}: empty`);
    for (const part of message.parts) {
      if (part.type !== "tool_call") continue;
      if (callIds.has(part.id)) faults.push(`message ${i}: call ${part.id} again`);
      callIds.add(part.id);
      openCallIds.add(part.id);
    }
  }
  if (openCallIds.size > 0) faults.push(`calls ${[...openCallIds].join()} are not answered at the end`);
  return faults;
}

function* createTextChunks(text: string, inputTokens: number): Iterable<ModelChunk> {
  yield { type: "text", block: "0", text };
  yield createFinishChunk("stop", inputTokens);
}

function createFinishChunk(reason: "stop" | "tool_calls", inputTokens: number): ModelChunk {
  const usage = { inputTokens, outputTokens: 20, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
  return { type: "finish", reason, usage };
}
