import { randomUUID } from "node:crypto";
import { ProviderError, type ModelChunk, type ModelRequest, type ModelUsage } from "gantry";
import { toProviderError, type FaultContext } from "./errors.js";
import type { AiSdkModel, CallOptions, Metadata, StreamPart } from "./language-model.js";
import { ThinkTags, type Told } from "./think-tags.js";
import { estimateUsage, readReason, readUsage, type ReportedUsage } from "./usage.js";

/** How the chunks of a wire are read. */
export interface Reading extends FaultContext {
  /** Whether a finish without a reason means that the answer broke off. */
  readonly strictFinish: boolean;
  /** Whether an answer may begin with thoughts in `<think>` tags. */
  readonly thinkTags: boolean;
  /** Opaque data that each reasoning part gets, so that it goes back to where it came from. */
  readonly reasoningMark?: Metadata;
  /** Opaque data of the whole answer, from what the last part tells. */
  readonly answerData?: (metadata: Metadata) => Metadata | undefined;
  /** Fill in the cost. */
  price(reported: ReportedUsage): Promise<ModelUsage>;
}

type Kind = "text" | "reasoning";

interface Block {
  readonly kind: Kind;
  readonly name: string;
  opaque: Record<string, Record<string, unknown>> | undefined;
}

/** Ask a model and give its answer as the kernel knows it. */
export async function* streamAnswer(
  model: AiSdkModel,
  options: CallOptions | Readonly<Record<string, unknown>>,
  request: ModelRequest,
  reading: Reading,
  signal: AbortSignal,
): AsyncGenerator<ModelChunk, void, undefined> {
  signal.throwIfAborted();
  let stream: ReadableStream<unknown>;
  try {
    const asked = model.doStream({ ...options, abortSignal: signal });
    ({ stream } = await untilAbort(asked, signal, ({ stream: late }) => void late.cancel().catch(() => undefined)));
  } catch (error) {
    // With a reason of one's own an abort looks like any other error.
    signal.throwIfAborted();
    throw toProviderError(error, reading);
  }
  const reader = stream.getReader();
  // Settles a pending read at once, also where the package does not listen to the signal.
  const onAbort = (): void => void reader.cancel(signal.reason).catch(() => undefined);
  signal.addEventListener("abort", onAbort, { once: true });
  const answer = new Answer(reading);
  try {
    while (answer.finish === undefined) {
      let next: { done: boolean; value?: unknown };
      try {
        next = await reader.read();
      } catch (error) {
        signal.throwIfAborted();
        throw toProviderError(error, reading);
      }
      signal.throwIfAborted();
      if (next.done) throw new ProviderError(reading.provider, "protocol", "the answer ended before it was finished");
      yield* answer.read(next.value as StreamPart);
    }
    yield* answer.end(request);
  } finally {
    signal.removeEventListener("abort", onAbort);
    // Nothing else would free the connection of an answer that nobody reads on.
    void reader.cancel().catch(() => undefined);
  }
}

/** The promise, or a rejection with the reason of an abort; what comes after that is let go of. */
async function untilAbort<T>(promise: PromiseLike<T>, signal: AbortSignal, letGo: (late: T) => void): Promise<T> {
  let onAbort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => {
      reject(signal.reason as Error);
      void promise.then(letGo, () => undefined);
    };
    signal.addEventListener("abort", onAbort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    aborted.catch(() => undefined);
  }
}

/** An answer as it grows. */
class Answer {
  finish: StreamPart | undefined;
  readonly #reading: Reading;
  readonly #open = new Map<string, Block>();
  #blocks = 0;
  #firstReasoning: Block | undefined;
  #calls = 0;
  #bytes = 0;
  #tags: ThinkTags | undefined;

  constructor(reading: Reading) {
    this.#reading = reading;
    if (reading.thinkTags) this.#tags = new ThinkTags();
  }

  *read(part: StreamPart): Generator<ModelChunk> {
    switch (part.type) {
      case "text-start":
      case "reasoning-start": {
        const kind = part.type === "text-start" ? "text" : "reasoning";
        // Ids are used again by some packages: a start is always a new part.
        this.#open.delete(`${kind} ${part.id ?? ""}`);
        yield* this.#grow(kind, part, "");
        break;
      }
      case "text-delta":
        if (this.#tags === undefined) yield* this.#grow("text", part, part.delta ?? "");
        else yield* this.#told(this.#tags.push(part.delta ?? ""), part);
        break;
      case "reasoning-delta":
        // Who tells thoughts apart needs no help.
        this.#tags = undefined;
        yield* this.#grow("reasoning", part, part.delta ?? "");
        break;
      case "text-end":
      case "reasoning-end": {
        const kind = part.type === "text-end" ? "text" : "reasoning";
        if (kind === "text") yield* this.#told(this.#tags?.end() ?? [], part);
        // Signatures come with the end.
        if (part.providerMetadata !== undefined) yield* this.#grow(kind, part, "");
        this.#open.delete(`${kind} ${part.id ?? ""}`);
        break;
      }
      case "tool-input-start":
        yield { type: "tool_input", text: "" };
        break;
      case "tool-input-delta": {
        const text = part.delta ?? "";
        this.#bytes += text.length;
        yield { type: "tool_input", text };
        break;
      }
      case "tool-call": {
        // Tools that run at the provider are no business of the kernel.
        if (part.providerExecuted === true) break;
        this.#calls++;
        const opaque = filled(part.providerMetadata);
        yield {
          type: "tool_call",
          id: part.toolCallId || `call_${randomUUID().replaceAll("-", "").slice(0, 24)}`,
          name: part.toolName ?? "",
          arguments: argumentsText(part.input),
          ...(opaque === undefined ? {} : { opaque }),
        };
        break;
      }
      case "error":
        // A malformed chunk is followed by a finish that looks well: the attempt has failed all the same.
        throw toProviderError(part.error, this.#reading);
      case "finish":
        this.finish = part;
        break;
      default:
      // Sources, files, metadata of the answer, raw chunks, and what later versions bring.
    }
  }

  async *end(request: ModelRequest): AsyncGenerator<ModelChunk> {
    const finish = this.finish!;
    const { reason, failed, told, raw } = readReason(finish.finishReason);
    if (this.#reading.strictFinish && !told) {
      throw new ProviderError(this.#reading.provider, "protocol", "the answer ended before it was finished");
    }
    if (failed) {
      // Gemini's word for a call that it could not put into JSON; asked again it mostly can.
      const broken = raw === "MALFORMED_FUNCTION_CALL";
      throw new ProviderError(
        this.#reading.provider,
        broken ? "server" : "protocol",
        broken ? "the model made a malformed tool call" : "the model's answer ended with an error",
      );
    }
    const data = this.#reading.answerData?.(finish.providerMetadata ?? {});
    if (data !== undefined) {
      yield { type: "reasoning", block: this.#firstReasoning?.name ?? `b${this.#blocks++}`, text: "", opaque: data };
    }
    const reported = readUsage(finish.usage);
    yield {
      type: "finish",
      // Some servers say `stop` behind a tool call.
      reason: this.#calls > 0 && (reason === "stop" || reason === null) ? "tool_calls" : reason,
      usage: reported === undefined ? estimateUsage(request, this.#bytes) : await this.#reading.price(reported),
    };
  }

  *#told(told: readonly Told[], part: StreamPart): Generator<ModelChunk> {
    for (const { kind, text } of told)
      yield* this.#grow(kind, kind === "text" ? part : { type: "reasoning-delta", id: "think" }, text);
  }

  *#grow(kind: Kind, part: StreamPart, text: string): Generator<ModelChunk> {
    const key = `${kind} ${part.id ?? ""}`;
    let block = this.#open.get(key);
    let news = false;
    if (block === undefined) {
      block = { kind, name: `b${this.#blocks++}`, opaque: undefined };
      this.#open.set(key, block);
      if (kind === "reasoning") {
        this.#firstReasoning ??= block;
        if (this.#reading.reasoningMark !== undefined) {
          block.opaque = { ...this.#reading.reasoningMark } as Record<string, Record<string, unknown>>;
          news = true;
        }
      }
    }
    for (const [provider, fields] of Object.entries(part.providerMetadata ?? {})) {
      for (const [name, value] of Object.entries(fields ?? {})) {
        // Some packages say the same with every delta.
        if (value === undefined || value === null || block.opaque?.[provider]?.[name] === value) continue;
        // A new object each time: what was emitted belongs to the kernel.
        block.opaque = { ...block.opaque, [provider]: { ...block.opaque?.[provider], [name]: value } };
        news = true;
      }
    }
    if (text === "" && !news) return;
    this.#bytes += Buffer.byteLength(text);
    yield { type: kind, block: block.name, text, ...(news ? { opaque: block.opaque } : {}) };
  }
}

function filled(metadata: Metadata | undefined): Metadata | undefined {
  const kept = Object.entries(metadata ?? {}).filter(([, fields]) =>
    Object.values(fields ?? {}).some((value) => value !== undefined && value !== null),
  );
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

/** JSON text as the model gave it; models that call without arguments give an empty one. */
function argumentsText(input: unknown): string {
  if (typeof input === "string") return input.trim() === "" ? "{}" : input;
  return JSON.stringify(input ?? {});
}
