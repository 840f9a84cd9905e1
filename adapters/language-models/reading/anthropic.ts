import type { StreamPart } from "../language-model.js";
import { createFinishPart, type AnswerReader } from "./answer-reader.js";
import { asArgumentsText, asObject, asCount, asList, isErrorValue, asText, type JsonObject } from "../json.js";

const FINISH_REASONS: Readonly<Record<string, string>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  pause_turn: "stop",
  stop: "stop",
  refusal: "content-filter",
  tool_use: "tool-calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
};

type BlockKind = "text" | "reasoning" | "call" | "other";

interface Block {
  readonly kind: BlockKind;
  readonly id: string;
  /** The block as its start event contains it. */
  readonly start: JsonObject;
  /** Pieces of a call's arguments. */
  readonly pieces: string[];
}

/** Reads answers of Anthropic's Messages API. */
export class MessagesReader implements AnswerReader {
  isComplete = false;
  isOver = false;
  readonly #openBlocks = new Map<string, Block>();
  readonly #usage: Record<string, unknown> = {};
  #stopReason: string | undefined;
  #blockCount = 0;

  read(event: unknown, name: string, parts: StreamPart[]): void {
    const value = asObject(event);
    switch (asText(value.type) || name) {
      case "error":
        parts.push({ type: "error", error: event });
        break;
      case "message_start":
        this.#readMessage(asObject(value.message), parts);
        break;
      case "content_block_start":
        this.#startBlock(String(value.index), asObject(value.content_block), parts);
        break;
      case "content_block_delta":
        this.#readDelta(String(value.index), asObject(value.delta), parts);
        break;
      case "content_block_stop":
        this.#endBlock(String(value.index), parts);
        break;
      case "message_delta":
        this.#addUsage(value.usage);
        this.#setStopReason(asObject(value.delta).stop_reason);
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
    this.#readMessage(message, parts);
    this.end(true, parts);
    return true;
  }

  end(isDone: boolean, parts: StreamPart[]): void {
    if (!isDone && !this.isComplete) return;
    for (const index of [...this.#openBlocks.keys()]) this.#endBlock(index, parts);
    const usage = this.#usage;
    const [cacheReadTokens, cacheWriteTokens] = [
      asCount(usage.cache_read_input_tokens) ?? 0,
      asCount(usage.cache_creation_input_tokens) ?? 0,
    ];
    const details = asObject(usage.output_tokens_details);
    const unified = FINISH_REASONS[this.#stopReason ?? ""] ?? "other";
    parts.push(
      createFinishPart(
        { unified, raw: this.#stopReason },
        {
          // `input_tokens` does not include cached tokens.
          input: (asCount(usage.input_tokens) ?? 0) + cacheReadTokens + cacheWriteTokens,
          output: asCount(usage.output_tokens),
          cacheRead: cacheReadTokens,
          cacheWrite: cacheWriteTokens,
          reasoning: asCount(details.thinking_tokens) ?? asCount(details.reasoning_tokens),
          raw: usage,
        },
      ),
    );
  }

  #readMessage(message: JsonObject, parts: StreamPart[]): void {
    this.#addUsage(message.usage);
    this.#setStopReason(message.stop_reason);
    for (const block of asList(message.content)) {
      const index = `complete ${this.#blockCount}`;
      this.#startBlock(index, asObject(block), parts);
      this.#endBlock(index, parts);
    }
  }

  #setStopReason(reason: unknown): void {
    if (typeof reason !== "string" || reason === "") return;
    this.#stopReason = reason;
    this.isComplete = true;
  }

  #startBlock(index: string, start: JsonObject, parts: StreamPart[]): void {
    this.#endBlock(index, parts);
    const id = String(this.#blockCount++);
    const openBlock = (kind: BlockKind): void => void this.#openBlocks.set(index, { kind, id, start, pieces: [] });
    switch (start.type) {
      case "text":
        openBlock("text");
        parts.push({ type: "text-start", id });
        if (asText(start.text) !== "") parts.push({ type: "text-delta", id, delta: asText(start.text) });
        break;
      case "thinking":
        openBlock("reasoning");
        parts.push({ type: "reasoning-start", id });
        if (asText(start.thinking) !== "") parts.push({ type: "reasoning-delta", id, delta: asText(start.thinking) });
        this.#addSignature(id, start.signature, parts);
        break;
      case "redacted_thinking":
        openBlock("reasoning");
        parts.push({
          type: "reasoning-start",
          id,
          providerMetadata: { anthropic: { redactedData: asText(start.data) } },
        });
        break;
      case "tool_use":
        openBlock("call");
        parts.push({ type: "tool-input-start" });
        break;
      default:
        openBlock("other");
        // Tools that run at the provider, and block types of later versions.
        parts.push({ type: "other" });
    }
  }

  #readDelta(index: string, delta: JsonObject, parts: StreamPart[]): void {
    // Some servers omit the start of a block.
    const kind = BLOCK_TYPES_BY_DELTA_TYPE[asText(delta.type)];
    if (!this.#openBlocks.has(index) && kind !== undefined) this.#startBlock(index, { type: kind }, parts);
    const block = this.#openBlocks.get(index);
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
        if (block.kind === "reasoning") this.#addSignature(block.id, delta.signature, parts);
        break;
      case "input_json_delta": {
        const piece = asArgumentsText(delta.partial_json);
        if (block.kind !== "call" || piece === "") break;
        block.pieces.push(piece);
        parts.push({ type: "tool-input-delta", delta: piece });
        break;
      }
      default:
      // Citations, and delta types of later versions.
    }
  }

  #addSignature(id: string, signature: unknown, parts: StreamPart[]): void {
    if (asText(signature) === "") return;
    parts.push({ type: "reasoning-delta", id, delta: "", providerMetadata: { anthropic: { signature } } });
  }

  #endBlock(index: string, parts: StreamPart[]): void {
    const block = this.#openBlocks.get(index);
    if (block === undefined) return;
    this.#openBlocks.delete(index);
    if (block.kind === "text" || block.kind === "reasoning") parts.push({ type: `${block.kind}-end`, id: block.id });
    if (block.kind !== "call") return;
    parts.push({
      type: "tool-call",
      toolCallId: asText(block.start.id),
      toolName: asText(block.start.name),
      input: block.pieces.length > 0 ? block.pieces.join("") : asArgumentsText(block.start.input),
    });
  }

  /** Merges token counts, which arrive in several events. A proxy's zeros do not overwrite them. */
  #addUsage(value: unknown): void {
    for (const [key, tokens] of Object.entries(asObject(value))) {
      if (tokens === null || tokens === undefined) continue;
      if (asCount(tokens) === 0 && this.#usage[key] !== undefined) continue;
      this.#usage[key] = tokens;
    }
  }
}

const BLOCK_TYPES_BY_DELTA_TYPE: Readonly<Record<string, string>> = { text_delta: "text", thinking_delta: "thinking" };
