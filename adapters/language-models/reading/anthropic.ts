import type { StreamPart } from "../language-model.js";
import { finishPart, type AnswerReader } from "./answer-reader.js";
import { argumentsOf, bag, count, list, tellsError, text, type Bag } from "../json.js";

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
  readonly start: Bag;
  readonly pieces: string[];
}

/** Anthropic's Messages API. */
export class MessagesReader implements AnswerReader {
  complete = false;
  over = false;
  readonly #open = new Map<string, Block>();
  readonly #usage: Record<string, unknown> = {};
  #reason: string | undefined;
  #blocks = 0;

  read(event: unknown, name: string, parts: StreamPart[]): void {
    const value = bag(event);
    switch (text(value.type) || name) {
      case "error":
        parts.push({ type: "error", error: event });
        break;
      case "message_start":
        this.#message(bag(value.message), parts);
        break;
      case "content_block_start":
        this.#start(String(value.index), bag(value.content_block), parts);
        break;
      case "content_block_delta":
        this.#delta(String(value.index), bag(value.delta), parts);
        break;
      case "content_block_stop":
        this.#stop(String(value.index), parts);
        break;
      case "message_delta":
        this.#count(value.usage);
        this.#stopped(bag(value.delta).stop_reason);
        break;
      case "message_stop":
        this.complete = true;
        this.over = true;
        break;
      default:
        if (tellsError(value.error)) parts.push({ type: "error", error: event });
    }
  }

  whole(answer: unknown, parts: StreamPart[]): boolean {
    const message = bag(answer);
    if (!Array.isArray(message.content)) return false;
    this.#message(message, parts);
    this.end(true, parts);
    return true;
  }

  end(done: boolean, parts: StreamPart[]): void {
    if (!done && !this.complete) return;
    for (const index of [...this.#open.keys()]) this.#stop(index, parts);
    const usage = this.#usage;
    const [read, written] = [count(usage.cache_read_input_tokens) ?? 0, count(usage.cache_creation_input_tokens) ?? 0];
    const details = bag(usage.output_tokens_details);
    const unified = REASONS[this.#reason ?? ""] ?? "other";
    parts.push(
      finishPart(
        { unified, raw: this.#reason },
        {
          // Cached ones are told apart from the rest.
          input: (count(usage.input_tokens) ?? 0) + read + written,
          output: count(usage.output_tokens),
          cacheRead: read,
          cacheWrite: written,
          reasoning: count(details.thinking_tokens) ?? count(details.reasoning_tokens),
          raw: usage,
        },
      ),
    );
  }

  #message(message: Bag, parts: StreamPart[]): void {
    this.#count(message.usage);
    this.#stopped(message.stop_reason);
    for (const block of list(message.content)) {
      const index = `whole ${this.#blocks}`;
      this.#start(index, bag(block), parts);
      this.#stop(index, parts);
    }
  }

  #stopped(reason: unknown): void {
    if (typeof reason !== "string" || reason === "") return;
    this.#reason = reason;
    this.complete = true;
  }

  #start(index: string, start: Bag, parts: StreamPart[]): void {
    this.#stop(index, parts);
    const id = String(this.#blocks++);
    const open = (kind: Kind): void => void this.#open.set(index, { kind, id, start, pieces: [] });
    switch (start.type) {
      case "text":
        open("text");
        parts.push({ type: "text-start", id });
        if (text(start.text) !== "") parts.push({ type: "text-delta", id, delta: text(start.text) });
        break;
      case "thinking":
        open("reasoning");
        parts.push({ type: "reasoning-start", id });
        if (text(start.thinking) !== "") parts.push({ type: "reasoning-delta", id, delta: text(start.thinking) });
        this.#sign(id, start.signature, parts);
        break;
      case "redacted_thinking":
        open("reasoning");
        parts.push({
          type: "reasoning-start",
          id,
          providerMetadata: { anthropic: { redactedData: text(start.data) } },
        });
        break;
      case "tool_use":
        open("call");
        parts.push({ type: "tool-input-start" });
        break;
      default:
        open("other");
        // Tools that run there, and what later versions bring.
        parts.push({ type: "other" });
    }
  }

  #delta(index: string, delta: Bag, parts: StreamPart[]): void {
    // Some leave the start of a block out.
    const kind = KINDS[text(delta.type)];
    if (!this.#open.has(index) && kind !== undefined) this.#start(index, { type: kind }, parts);
    const block = this.#open.get(index);
    if (block === undefined) return;
    switch (delta.type) {
      case "text_delta":
        if (block.kind === "text") parts.push({ type: "text-delta", id: block.id, delta: text(delta.text) });
        break;
      case "thinking_delta":
        if (block.kind === "reasoning")
          parts.push({ type: "reasoning-delta", id: block.id, delta: text(delta.thinking) });
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
      // Citations, and what later versions bring.
    }
  }

  #sign(id: string, signature: unknown, parts: StreamPart[]): void {
    if (text(signature) === "") return;
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
      toolCallId: text(block.start.id),
      toolName: text(block.start.name),
      input: block.pieces.length > 0 ? block.pieces.join("") : argumentsOf(block.start.input),
    });
  }

  /** Counts come in pieces; zeros of a proxy do not undo them. */
  #count(value: unknown): void {
    for (const [key, found] of Object.entries(bag(value))) {
      if (found === null || found === undefined) continue;
      if (count(found) === 0 && this.#usage[key] !== undefined) continue;
      this.#usage[key] = found;
    }
  }
}

const KINDS: Readonly<Record<string, string>> = { text_delta: "text", thinking_delta: "thinking" };
