import type { StreamPart } from "../language-model.js";
import { finishPart, type AnswerReader } from "./answer-reader.js";
import { argumentsOf, asObject, asCount, asList, isErrorValue, asText, type JsonObject } from "../json.js";

const REASONS: Readonly<Record<string, string>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  pause_turn: "stop",
  stop: "stop",
  refusal: "content-filter",
  tool_use: "tool-calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
};

type Kind = "text" | "reasoning" | "call" | "other";

interface Block {
  readonly kind: Kind;
  readonly id: string;
  readonly start: JsonObject;
  readonly pieces: string[];
}

/** Anthropic's Messages API. */
export class MessagesReader implements AnswerReader {
  isComplete = false;
  isOver = false;
  readonly #open = new Map<string, Block>();
  readonly #usage: Record<string, unknown> = {};
  #reason: string | undefined;
  #blocks = 0;

  read(event: unknown, name: string, parts: StreamPart[]): void {
    const value = asObject(event);
    switch (asText(value.type) || name) {
      case "error":
        parts.push({ type: "error", error: event });
        break;
      case "message_start":
        this.#message(asObject(value.message), parts);
        break;
      case "content_block_start":
        this.#start(String(value.index), asObject(value.content_block), parts);
        break;
      case "content_block_delta":
        this.#delta(String(value.index), asObject(value.delta), parts);
        break;
      case "content_block_stop":
        this.#stop(String(value.index), parts);
        break;
      case "message_delta":
        this.#count(value.usage);
        this.#stopped(asObject(value.delta).stop_reason);
        break;
      case "message_stop":
        this.isComplete = true;
        this.isOver = true;
        break;
      default:
        if (isErrorValue(value.error)) parts.push({ type: "error", error: event });
    }
  }

  readComplete(answer: unknown, parts: StreamPart[]): boolean {
    const message = asObject(answer);
    if (!Array.isArray(message.content)) return false;
    this.#message(message, parts);
    this.end(true, parts);
    return true;
  }

  end(done: boolean, parts: StreamPart[]): void {
    if (!done && !this.isComplete) return;
    for (const index of [...this.#open.keys()]) this.#stop(index, parts);
    const usage = this.#usage;
    const [read, written] = [
      asCount(usage.cache_read_input_tokens) ?? 0,
      asCount(usage.cache_creation_input_tokens) ?? 0,
    ];
    const details = asObject(usage.output_tokens_details);
    const unified = REASONS[this.#reason ?? ""] ?? "other";
    parts.push(
      finishPart(
        { unified, raw: this.#reason },
        {
          // `input_tokens` does not include cached tokens.
          input: (asCount(usage.input_tokens) ?? 0) + read + written,
          output: asCount(usage.output_tokens),
          cacheRead: read,
          cacheWrite: written,
          reasoning: asCount(details.thinking_tokens) ?? asCount(details.reasoning_tokens),
          raw: usage,
        },
      ),
    );
  }

  #message(message: JsonObject, parts: StreamPart[]): void {
    this.#count(message.usage);
    this.#stopped(message.stop_reason);
    for (const block of asList(message.content)) {
      const index = `whole ${this.#blocks}`;
      this.#start(index, asObject(block), parts);
      this.#stop(index, parts);
    }
  }

  #stopped(reason: unknown): void {
    if (typeof reason !== "string" || reason === "") return;
    this.#reason = reason;
    this.isComplete = true;
  }

  #start(index: string, start: JsonObject, parts: StreamPart[]): void {
    this.#stop(index, parts);
    const id = String(this.#blocks++);
    const open = (kind: Kind): void => void this.#open.set(index, { kind, id, start, pieces: [] });
    switch (start.type) {
      case "text":
        open("text");
        parts.push({ type: "text-start", id });
        if (asText(start.text) !== "") parts.push({ type: "text-delta", id, delta: asText(start.text) });
        break;
      case "thinking":
        open("reasoning");
        parts.push({ type: "reasoning-start", id });
        if (asText(start.thinking) !== "") parts.push({ type: "reasoning-delta", id, delta: asText(start.thinking) });
        this.#sign(id, start.signature, parts);
        break;
      case "redacted_thinking":
        open("reasoning");
        parts.push({
          type: "reasoning-start",
          id,
          providerMetadata: { anthropic: { redactedData: asText(start.data) } },
        });
        break;
      case "tool_use":
        open("call");
        parts.push({ type: "tool-input-start" });
        break;
      default:
        open("other");
        // Tools that run at the provider, and block types of later versions.
        parts.push({ type: "other" });
    }
  }

  #delta(index: string, delta: JsonObject, parts: StreamPart[]): void {
    // Some servers omit the start of a block.
    const kind = KINDS[asText(delta.type)];
    if (!this.#open.has(index) && kind !== undefined) this.#start(index, { type: kind }, parts);
    const block = this.#open.get(index);
    if (block === undefined) return;
    switch (delta.type) {
      case "text_delta":
        if (block.kind === "text") parts.push({ type: "text-delta", id: block.id, delta: asText(delta.text) });
        break;
      case "thinking_delta":
        if (block.kind === "reasoning")
          parts.push({ type: "reasoning-delta", id: block.id, delta: asText(delta.thinking) });
        break;
      case "signature_delta":
        if (block.kind === "reasoning") this.#sign(block.id, delta.signature, parts);
        break;
      case "input_json_delta": {
        const piece = argumentsOf(delta.partial_json);
        if (block.kind !== "call" || piece === "") break;
        block.pieces.push(piece);
        parts.push({ type: "tool-input-delta", delta: piece });
        break;
      }
      default:
      // Citations, and delta types of later versions.
    }
  }

  #sign(id: string, signature: unknown, parts: StreamPart[]): void {
    if (asText(signature) === "") return;
    parts.push({ type: "reasoning-delta", id, delta: "", providerMetadata: { anthropic: { signature } } });
  }

  #stop(index: string, parts: StreamPart[]): void {
    const block = this.#open.get(index);
    if (block === undefined) return;
    this.#open.delete(index);
    if (block.kind === "text" || block.kind === "reasoning") parts.push({ type: `${block.kind}-end`, id: block.id });
    if (block.kind !== "call") return;
    parts.push({
      type: "tool-call",
      toolCallId: asText(block.start.id),
      toolName: asText(block.start.name),
      input: block.pieces.length > 0 ? block.pieces.join("") : argumentsOf(block.start.input),
    });
  }

  /** Counts arrive in several events; zeros from a proxy do not overwrite them. */
  #count(value: unknown): void {
    for (const [key, tokens] of Object.entries(asObject(value))) {
      if (tokens === null || tokens === undefined) continue;
      if (asCount(tokens) === 0 && this.#usage[key] !== undefined) continue;
      this.#usage[key] = tokens;
    }
  }
}

const KINDS: Readonly<Record<string, string>> = { text_delta: "text", thinking_delta: "thinking" };
