import type { Metadata, StreamPart } from "../language-model.js";
import { createFinishPart, type AnswerReader, type TokenCounts } from "./answer-reader.js";
import { asArgumentsText, asObject, asCount, asKey, asList, isErrorValue, asText, type JsonObject } from "../json.js";

const KIND_BY_ITEM_TYPE: ReadonlyMap<unknown, "text" | "reasoning" | "call"> = new Map([
  ["message", "text"],
  ["reasoning", "reasoning"],
  ["function_call", "call"],
]);

/** An item of the answer that has not ended. */
interface Item {
  /** Position in the answer, or the item's id if the position is not sent. */
  readonly position: string;
  kind: "text" | "reasoning" | "call" | "other";
  /** The item in its first event. */
  start: JsonObject;
  /** Ids of the started blocks. */
  readonly blocks: Set<string>;
  /** Pieces of a call's arguments. */
  readonly pieces: string[];
  /** Whether any text of the item has arrived. */
  hasText: boolean;
  /**
   * Form of the first thoughts; undefined before. Some servers send both forms: thoughts of the other form are ignored.
   */
  thoughtForm: "full" | "summary" | undefined;
}

/**
 * Reads answers of OpenAI's Responses API. Items are identified by their position in the answer: some servers send
 * another id with every event, some send no deltas, and some only the end.
 */
export class ResponsesReader implements AnswerReader {
  isComplete = false;
  isOver = false;
  readonly #items = new Map<string, Item>();
  /** Positions by item id, for events without a position. */
  readonly #positionsById = new Map<string, string>();
  readonly #callIds = new Set<string>();
  #hasText = false;
  #hasReasoning = false;
  #callCount = 0;
  #hasRefusal = false;
  #incompleteReason: string | undefined;
  #usage: TokenCounts | undefined;

  read(event: unknown, name: string, parts: StreamPart[]): void {
    const value = asObject(event);
    const type = asText(value.type) || name;
    const findItem = (kind: string): Item => this.#findOrStartItem(value, { type: kind, id: value.item_id }, parts);
    switch (type) {
      case "response.output_item.added":
        this.#startItem(value, parts);
        break;
      case "response.output_item.done":
        this.#endItem(this.#findOrStartItem(value, asObject(value.item), parts), asObject(value.item), parts);
        break;
      case "response.output_text.delta":
      case "response.refusal.delta":
        if (type === "response.refusal.delta") this.#hasRefusal = true;
        this.#addText(findItem("message"), asText(value.delta), parts);
        break;
      case "response.reasoning_summary_text.delta":
        this.#addReasoning(findItem("reasoning"), `s${asCount(value.summary_index) ?? 0}`, asText(value.delta), parts);
        break;
      case "response.reasoning_text.delta":
      case "response.reasoning.delta":
        this.#addReasoning(findItem("reasoning"), `t${asCount(value.content_index) ?? 0}`, asText(value.delta), parts);
        break;
      case "response.function_call_arguments.delta": {
        const piece = asArgumentsText(value.delta);
        findItem("function_call").pieces.push(piece);
        parts.push({ type: "tool-input-delta", delta: piece });
        break;
      }
      case "response.completed":
      case "response.incomplete":
      case "response.done":
        this.#readResponse(asObject(value.response), parts);
        this.isOver = true;
        break;
      case "response.failed":
      case "response.cancelled":
      case "error":
        this.#readFailure(event, parts);
        break;
      default:
        if (isErrorValue(value.error)) parts.push({ type: "error", error: event });
        else if (value.object === "chat.completion.chunk")
          parts.push({
            type: "error",
            error: { message: "the server sends chat completions", type: "wrong_protocol" },
          });
    }
  }

  readComplete(answer: unknown, parts: StreamPart[]): boolean {
    const response = asObject(answer);
    if (!Array.isArray(response.output)) return false;
    if (response.status === "failed") this.#readFailure({ response }, parts);
    else this.#readResponse(response, parts);
    this.end(true, parts);
    return true;
  }

  end(isDone: boolean, parts: StreamPart[]): void {
    if (!isDone && !this.isComplete) return;
    for (const item of [...this.#items.values()]) this.#endItem(item, item.start, parts);
    parts.push(createFinishPart({ unified: this.#getFinishReason(), raw: this.#incompleteReason }, this.#usage));
  }

  #getFinishReason(): string {
    if (this.#incompleteReason === "max_output_tokens") return "length";
    if (this.#incompleteReason === "content_filter") return "content-filter";
    if (this.#callCount > 0) return "tool-calls";
    if (this.#hasRefusal) return "content-filter";
    return this.#incompleteReason !== undefined || !this.isComplete ? "other" : "stop";
  }

  #readFailure(event: unknown, parts: StreamPart[]): void {
    const value = asObject(event);
    const { error, incomplete_details: details } = asObject(value.response);
    const reason = asText(asObject(details).reason);
    if (!isErrorValue(error) && reason !== "") return this.#readResponse(asObject(value.response), parts);
    parts.push({
      type: "error",
      error: isErrorValue(error) ? { error } : isErrorValue(value.error) ? { error: value.error } : event,
    });
  }

  #readResponse(response: JsonObject, parts: StreamPart[]): void {
    this.isComplete = true;
    this.#incompleteReason = asText(asObject(response.incomplete_details).reason) || undefined;
    this.#readUsage(asObject(response.usage));
    // Adds items that were not streamed. A streamed item may have another id here, so the kinds are compared.
    const [hasStreamedText, hasStreamedReasoning] = [this.#hasText, this.#hasReasoning];
    for (const [index, entry] of asList(response.output).entries()) {
      const item = asObject(entry);
      const kind = KIND_BY_ITEM_TYPE.get(item.type);
      const isStreamed =
        kind === "call"
          ? this.#callIds.has(asText(item.call_id))
          : kind === "text"
            ? hasStreamedText
            : kind && hasStreamedReasoning;
      if (!isStreamed) this.#endItem(this.#findOrStartItem({ output_index: index }, item, parts), item, parts);
    }
  }

  /** The item of an event. Starts the item if the server omitted its start. */
  #findOrStartItem(event: JsonObject, start: JsonObject, parts: StreamPart[]): Item {
    const itemId = asText(event.item_id) || asText(start.id);
    const position = asKey(event.output_index) ?? this.#positionsById.get(itemId) ?? itemId;
    if (itemId !== "") this.#positionsById.set(itemId, position);
    const openItem = this.#items.get(position);
    if (openItem !== undefined) return openItem;
    const kind = KIND_BY_ITEM_TYPE.get(start.type) ?? "other";
    const item: Item = { position, kind, start, blocks: new Set(), pieces: [], hasText: false, thoughtForm: undefined };
    this.#items.set(position, item);
    if (kind === "other") parts.push({ type: "other" });
    if (kind === "call") parts.push({ type: "tool-input-start" });
    return item;
  }

  #startItem(event: JsonObject, parts: StreamPart[]): void {
    const start = asObject(event.item);
    const item = this.#findOrStartItem(event, start, parts);
    if (item.kind === "text") this.#startBlock(item, "", parts);
  }

  /** Starts a block of an item, unless the block is started already. Returns its id. */
  #startBlock(item: Item, name: string, parts: StreamPart[]): string {
    const id = `${item.position}:${name}`;
    if (item.blocks.has(id)) return id;
    item.blocks.add(id);
    const kind = item.kind === "text" ? "text" : "reasoning";
    // Full thoughts cannot be sent back without their encrypted form.
    const providerMetadata = item.thoughtForm === "full" ? undefined : toOpaque(item.start);
    parts.push({ type: `${kind}-start`, id, providerMetadata });
    return id;
  }

  #addText(item: Item, piece: string, parts: StreamPart[]): void {
    if (piece === "" || item.kind !== "text") return;
    this.#hasText = true;
    item.hasText = true;
    parts.push({ type: "text-delta", id: this.#startBlock(item, "", parts), delta: piece });
  }

  /** `name`: `s` (summary) or `t` (full thoughts), and the index of the block. */
  #addReasoning(item: Item, name: string, piece: string, parts: StreamPart[]): void {
    if (piece === "" || item.kind !== "reasoning") return;
    const form = name.startsWith("t") ? "full" : "summary";
    item.thoughtForm ??= form;
    if (item.thoughtForm !== form) return;
    this.#hasReasoning = true;
    parts.push({ type: "reasoning-delta", id: this.#startBlock(item, name, parts), delta: piece });
  }

  #endItem(item: Item, end: JsonObject, parts: StreamPart[]): void {
    this.#items.delete(item.position);
    switch (item.kind) {
      case "text": {
        if (!item.hasText) {
          for (const entry of asList(end.content)) {
            const part = asObject(entry);
            if (part.type === "refusal") this.#hasRefusal = true;
            this.#addText(item, asText(part.text) || asText(part.refusal), parts);
          }
        }
        for (const id of item.blocks) parts.push({ type: "text-end", id, providerMetadata: toOpaque(end) });
        break;
      }
      case "reasoning": {
        for (const [prefix, contents] of [
          ["s", end.summary],
          ["t", end.content],
        ] as const)
          if (item.blocks.size === 0)
            for (const [index, part] of asList(contents).entries())
              this.#addReasoning(item, `${prefix}${index}`, asText(asObject(part).text), parts);
        this.#hasReasoning = true;
        const isEncrypted = asText(end.encrypted_content) !== "";
        // Encrypted thoughts are sent back with or without text.
        if (isEncrypted && item.blocks.size === 0) this.#startBlock(item, "s0", parts);
        const providerMetadata = item.thoughtForm === "full" && !isEncrypted ? undefined : toOpaque(end);
        for (const id of item.blocks) parts.push({ type: "reasoning-end", id, providerMetadata });
        break;
      }
      case "call": {
        const name = asText(end.name) || asText(item.start.name);
        const id = asText(end.call_id) || asText(item.start.call_id);
        const input = asArgumentsText(end.arguments) || item.pieces.join("");
        this.#callCount++;
        this.#callIds.add(id);
        const providerMetadata = asText(end.id) === "" ? undefined : { openai: { itemId: end.id } };
        parts.push({ type: "tool-call", toolCallId: id, toolName: name, input, providerMetadata });
        break;
      }
      case "other":
    }
  }

  #readUsage(usage: JsonObject): void {
    const [input, output] = [asCount(usage.input_tokens), asCount(usage.output_tokens)];
    if (input === undefined && output === undefined) return;
    const inputDetails = asObject(usage.input_tokens_details);
    this.#usage = {
      input,
      output,
      cacheRead: asCount(inputDetails.cached_tokens),
      cacheWrite: asCount(inputDetails.cache_write_tokens),
      reasoning: asCount(asObject(usage.output_tokens_details).reasoning_tokens),
      raw: usage,
    };
  }
}

/** The fields of an item that the AI SDK package accepts in the next request. */
function toOpaque(item: JsonObject): Metadata {
  const phase = item.phase === "commentary" || item.phase === "final_answer" ? item.phase : undefined;
  return {
    openai: {
      itemId: asText(item.id) || undefined,
      phase,
      reasoningEncryptedContent: asText(item.encrypted_content) || undefined,
    },
  };
}
