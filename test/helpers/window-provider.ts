import { ProviderError } from "gantry";
import type { Model, ModelChunk, ModelMessage, ModelProvider, ModelRequest } from "gantry/plugin";

export interface WindowProviderOptions {
  /** Context window: tokens of prompt and answer. */
  window: number;
  /** Context window that the model listing reports. Default: the real one; `null`: none. */
  says?: number | null;
  /** Bytes of one token. Default: 3.5. */
  bytesPerToken?: number;
  /** Reported prompt tokens. Default: the counted ones. */
  report?: (counted: number) => number;
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
  refused = 0;
  calls = 0;
  /** Tokens of the largest accepted request. */
  largest = 0;
  last: ModelRequest | undefined;
  readonly #options: WindowProviderOptions;
  #ids = 0;

  constructor(options: WindowProviderOptions) {
    this.#options = options;
    const { window, says = window, maxOutput } = options;
    this.configuredModels = [
      {
        id: "m1",
        name: "M 1",
        ownedBy: "tests",
        ...(says === null ? {} : { contextWindow: says }),
        ...(maxOutput === undefined ? {} : { maxOutput }),
      },
    ];
  }

  models(): Promise<Model[]> {
    return Promise.resolve([...this.configuredModels]);
  }

  async *stream(request: ModelRequest): AsyncIterable<ModelChunk> {
    if (request.temperature === 0.3) {
      yield* textAnswer("A title", 1);
      return;
    }
    this.calls += 1;
    const tokens = this.count(request);
    const { window, maxOutput } = this.#options;
    const answer = Math.min(request.maxTokens ?? maxOutput ?? 1, maxOutput ?? Infinity);
    if (tokens + answer > window) {
      this.refused += 1;
      throw new ProviderError(this.name, "context_length", `prompt of ${tokens} and answer of ${answer} tokens`, {
        status: 400,
      });
    }
    this.largest = Math.max(this.largest, tokens);
    this.violations.push(...brokenRules(request.messages));
    this.last = request;
    const reply = this.#options.answer(request, this.calls);
    const reported = (this.#options.report ?? ((counted) => counted))(tokens);
    if (typeof reply === "string") yield* textAnswer(reply, reported);
    else {
      for (const [name, args] of reply) {
        yield { type: "tool_call", id: `t${++this.#ids}`, name, arguments: JSON.stringify(args) };
      }
      yield finish("tool_calls", reported);
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  count({ system, tools, messages }: ModelRequest): number {
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
export function brokenRules(messages: readonly ModelMessage[]): string[] {
  const broken: string[] = [];
  if (messages[0]?.role !== "user") broken.push(`begins with ${messages[0]?.role ?? "nothing"}`);
  let open = new Set<string>();
  const seen = new Set<string>();
  for (const [i, message] of messages.entries()) {
    if (message.role === "tool") {
      if (!open.delete(message.toolCallId)) broken.push(`message ${i}: no call ${message.toolCallId} to answer`);
      continue;
    }
    if (open.size > 0) broken.push(`message ${i}: calls ${[...open].join()} are not answered`);
    open = new Set();
    if (message.parts.length === 0) broken.push(`message ${i}: empty`);
    for (const part of message.parts) {
      if (part.type !== "tool_call") continue;
      if (seen.has(part.id)) broken.push(`message ${i}: call ${part.id} again`);
      seen.add(part.id);
      open.add(part.id);
    }
  }
  if (open.size > 0) broken.push(`calls ${[...open].join()} are not answered at the end`);
  return broken;
}

function* textAnswer(text: string, inputTokens: number): Iterable<ModelChunk> {
  yield { type: "text", block: "0", text };
  yield finish("stop", inputTokens);
}

function finish(reason: "stop" | "tool_calls", inputTokens: number): ModelChunk {
  const usage = { inputTokens, outputTokens: 20, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
  return { type: "finish", reason, usage };
}
