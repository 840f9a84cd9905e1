import type { Metadata, StreamPart } from "../language-model.js";
import { finishPart, type AnswerReader, type Counts } from "./answer-reader.js";
import { argumentsOf, asObject, asCount, asKey, asList, isErrorValue, asText, type JsonObject } from "../json.js";

const KINDS: ReadonlyMap<unknown, "text" | "reasoning" | "call"> = new Map([
  ["message", "text"],
  ["reasoning", "reasoning"],
  ["function_call", "call"],
]);

/** An item of the answer that is still open. */
interface Item {
  /** Position in the answer, or the item's id if the position is not sent. */
  readonly place: string;
  kind: "text" | "reasoning" | "call" | "other";
  start: JsonObject;
  /** Ids of the started blocks. */
  readonly blocks: Set<string>;
  readonly pieces: string[];
  /** Whether any text of it has arrived. */
  hasText: boolean;
  /** Whether the thoughts arrive in full or as a summary. Some servers send both; only the first form is used. */
  thoughts: "plain" | "summary" | undefined;
}

/**
 * OpenAI's Responses API. Items are identified by their position in the answer: some servers send another id with every
 * event, some send no deltas, and some only the end.
 */
export class ResponsesReader implements AnswerReader {
  isComplete = false;
  isOver = false;
  readonly #items = new Map<string, Item>();
  /** Positions by item id, for events without a position. */
  readonly #places = new Map<string, string>();
  readonly #callIds = new Set<string>();
  #hasText = false;
  #hasReasoning = false;
  #calls = 0;
  #refused = false;
  #reason: string | undefined;
  #usage: Counts | undefined;

  read(event: unknown, name: string, parts: StreamPart[]): void {
    const value = asObject(event);
    const type = asText(value.type) || name;
    const about = (kind: string): Item => this.#item(value, { type: kind, id: value.item_id }, parts);
    switch (type) {
      case "response.output_item.added":
        this.#added(value, parts);
        break;
      case "response.output_item.done":
        this.#done(this.#item(value, asObject(value.item), parts), asObject(value.item), parts);
        break;
      case "response.output_text.delta":
      case "response.refusal.delta":
        if (type === "response.refusal.delta") this.#refused = true;
        this.#say(about("message"), asText(value.delta), parts);
        break;
      case "response.reasoning_summary_text.delta":
        this.#think(about("reasoning"), `s${asCount(value.summary_index) ?? 0}`, asText(value.delta), parts);
        break;
      case "response.reasoning_text.delta":
      case "response.reasoning.delta":
        this.#think(about("reasoning"), `t${asCount(value.content_index) ?? 0}`, asText(value.delta), parts);
        break;
      case "response.function_call_arguments.delta": {
        const piece = argumentsOf(value.delta);
        about("function_call").pieces.push(piece);
        parts.push({ type: "tool-input-delta", delta: piece });
        break;
      }
      case "response.completed":
      case "response.incomplete":
      case "response.done":
        this.#end(asObject(value.response), parts);
        this.isOver = true;
        break;
      case "response.failed":
      case "response.cancelled":
      case "error":
        this.#failed(event, parts);
        break;
      default:
        if (isErrorValue(value.error)) parts.push({ type: "error", error: event });
        else if (value.object === "chat.completion.chunk")
          parts.push({ type: "error", error: { message: "it answers in chat completions", type: "wrong_protocol" } });
    }
  }

  readComplete(answer: unknown, parts: StreamPart[]): boolean {
    const response = asObject(answer);
    if (!Array.isArray(response.output)) return false;
    if (response.status === "failed") this.#failed({ response }, parts);
    else this.#end(response, parts);
    this.end(true, parts);
    return true;
  }

  end(done: boolean, parts: StreamPart[]): void {
    if (!done && !this.isComplete) return;
    for (const item of [...this.#items.values()]) this.#done(item, item.start, parts);
    parts.push(finishPart({ unified: this.#unified(), raw: this.#reason }, this.#usage));
  }

  #unified(): string {
    if (this.#reason === "max_output_tokens") return "length";
    if (this.#reason === "content_filter") return "content-filter";
    if (this.#calls > 0) return "tool-calls";
    if (this.#refused) return "content-filter";
    return this.#reason !== undefined || !this.isComplete ? "other" : "stop";
  }

  #failed(event: unknown, parts: StreamPart[]): void {
    const value = asObject(event);
    const { error, incomplete_details: why } = asObject(value.response);
    const reason = asText(asObject(why).reason);
    if (!isErrorValue(error) && reason !== "") return this.#end(asObject(value.response), parts);
    parts.push({
      type: "error",
      error: isErrorValue(error) ? { error } : isErrorValue(value.error) ? { error: value.error } : event,
    });
  }

  #end(response: JsonObject, parts: StreamPart[]): void {
    this.isComplete = true;
    this.#reason = asText(asObject(response.incomplete_details).reason) || undefined;
    this.#count(asObject(response.usage));
    // Adds items that were not streamed. A streamed item may have another id here, so the kinds are compared.
    const [hadText, hadReasoning] = [this.#hasText, this.#hasReasoning];
    for (const [index, entry] of asList(response.output).entries()) {
      const item = asObject(entry);
      const kind = KINDS.get(item.type);
      const isStreamed =
        kind === "call" ? this.#callIds.has(asText(item.call_id)) : kind === "text" ? hadText : kind && hadReasoning;
      if (!isStreamed) this.#done(this.#item({ output_index: index }, item, parts), item, parts);
    }
  }

  /** The item of an event; if its start was omitted, it starts here. */
  #item(event: JsonObject, start: JsonObject, parts: StreamPart[]): Item {
    const itemId = asText(event.item_id) || asText(start.id);
    const place = asKey(event.output_index) ?? this.#places.get(itemId) ?? itemId;
    if (itemId !== "") this.#places.set(itemId, place);
    const openItem = this.#items.get(place);
    if (openItem !== undefined) return openItem;
    const kind = KINDS.get(start.type) ?? "other";
    const item: Item = { place, kind, start, blocks: new Set(), pieces: [], hasText: false, thoughts: undefined };
    this.#items.set(place, item);
    if (kind === "other") parts.push({ type: "other" });
    if (kind === "call") parts.push({ type: "tool-input-start" });
    return item;
  }

  #added(event: JsonObject, parts: StreamPart[]): void {
    const start = asObject(event.item);
    const item = this.#item(event, start, parts);
    if (item.kind === "text") this.#block(item, "", parts);
  }

  /** Starts a block of an item, unless it is started. */
  #block(item: Item, name: string, parts: StreamPart[]): string {
    const id = `${item.place}:${name}`;
    if (item.blocks.has(id)) return id;
    item.blocks.add(id);
    const kind = item.kind === "text" ? "text" : "reasoning";
    // Full thoughts cannot be sent back without their encrypted form.
    const providerMetadata = item.thoughts === "plain" ? undefined : opaque(item.start);
    parts.push({ type: `${kind}-start`, id, providerMetadata });
    return id;
  }

  #say(item: Item, piece: string, parts: StreamPart[]): void {
    if (piece === "" || item.kind !== "text") return;
    this.#hasText = true;
    item.hasText = true;
    parts.push({ type: "text-delta", id: this.#block(item, "", parts), delta: piece });
  }

  #think(item: Item, name: string, piece: string, parts: StreamPart[]): void {
    if (piece === "" || item.kind !== "reasoning") return;
    const form = name.startsWith("t") ? "plain" : "summary";
    item.thoughts ??= form;
    if (item.thoughts !== form) return;
    this.#hasReasoning = true;
    parts.push({ type: "reasoning-delta", id: this.#block(item, name, parts), delta: piece });
  }

  #done(item: Item, end: JsonObject, parts: StreamPart[]): void {
    this.#items.delete(item.place);
    switch (item.kind) {
      case "text": {
        if (!item.hasText) {
          for (const entry of asList(end.content)) {
            const part = asObject(entry);
            if (part.type === "refusal") this.#refused = true;
            this.#say(item, asText(part.text) || asText(part.refusal), parts);
          }
        }
        for (const id of item.blocks) parts.push({ type: "text-end", id, providerMetadata: opaque(end) });
        break;
      }
      case "reasoning": {
        for (const [form, contents] of [
          ["s", end.summary],
          ["t", end.content],
        ] as const)
          if (item.blocks.size === 0)
            for (const [index, part] of asList(contents).entries())
              this.#think(item, `${form}${index}`, asText(asObject(part).text), parts);
        this.#hasReasoning = true;
        const sealed = asText(end.encrypted_content) !== "";
        // Encrypted thoughts are sent back with or without text.
        if (sealed && item.blocks.size === 0) this.#block(item, "s0", parts);
        const providerMetadata = item.thoughts === "plain" && !sealed ? undefined : opaque(end);
        for (const id of item.blocks) parts.push({ type: "reasoning-end", id, providerMetadata });
        break;
      }
      case "call": {
        const name = asText(end.name) || asText(item.start.name);
        const id = asText(end.call_id) || asText(item.start.call_id);
        const input = argumentsOf(end.arguments) || item.pieces.join("");
        this.#calls++;
        this.#callIds.add(id);
        const providerMetadata = asText(end.id) === "" ? undefined : { openai: { itemId: end.id } };
        parts.push({ type: "tool-call", toolCallId: id, toolName: name, input, providerMetadata });
        break;
      }
      case "other":
    }
  }

  #count(usage: JsonObject): void {
    const [input, output] = [asCount(usage.input_tokens), asCount(usage.output_tokens)];
    if (input === undefined && output === undefined) return;
    const inside = asObject(usage.input_tokens_details);
    this.#usage = {
      input,
      output,
      cacheRead: asCount(inside.cached_tokens),
      cacheWrite: asCount(inside.cache_write_tokens),
      reasoning: asCount(asObject(usage.output_tokens_details).reasoning_tokens),
      raw: usage,
    };
  }
}

/** The data that the package needs for the next request, and nothing that it does not accept. */
function opaque(item: JsonObject): Metadata {
  const phase = item.phase === "commentary" || item.phase === "final_answer" ? item.phase : undefined;
  return {
    openai: {
      itemId: asText(item.id) || undefined,
      phase,
      reasoningEncryptedContent: asText(item.encrypted_content) || undefined,
    },
  };
}
