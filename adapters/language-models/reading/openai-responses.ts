import type { Metadata, StreamPart } from "../language-model.js";
import { finishPart, type AnswerReader, type Counts } from "./answer-reader.js";
import { argumentsOf, bag, count, key, list, tellsError, text, type Bag } from "../json.js";

const KINDS: ReadonlyMap<unknown, "text" | "reasoning" | "call"> = new Map([
  ["message", "text"],
  ["reasoning", "reasoning"],
  ["function_call", "call"],
]);

/** An item of the answer that is under way. */
interface Item {
  /** Where in the answer, or its id where that is not told. */
  readonly place: string;
  kind: "text" | "reasoning" | "call" | "other";
  start: Bag;
  /** Ids of the blocks that were begun. */
  readonly blocks: Set<string>;
  readonly pieces: string[];
  /** Whether any word of it came. */
  told: boolean;
  /** Whether thoughts came as they are, or summed up; some say both, and one is enough. */
  thoughts: "plain" | "summary" | undefined;
}

/**
 * OpenAI's Responses API. Items are known by their place in the answer: some servers give an item another id with every
 * event, some send no deltas, and some nothing but the end.
 */
export class ResponsesReader implements AnswerReader {
  complete = false;
  over = false;
  readonly #items = new Map<string, Item>();
  /** Keys of items by their ids, for events that tell no place. */
  readonly #places = new Map<string, string>();
  readonly #called = new Set<string>();
  #said = false;
  #thought = false;
  #calls = 0;
  #refused = false;
  #reason: string | undefined;
  #usage: Counts | undefined;

  read(event: unknown, name: string, parts: StreamPart[]): void {
    const value = bag(event);
    const type = text(value.type) || name;
    const about = (kind: string): Item => this.#item(value, { type: kind, id: value.item_id }, parts);
    switch (type) {
      case "response.output_item.added":
        this.#added(value, parts);
        break;
      case "response.output_item.done":
        this.#done(this.#item(value, bag(value.item), parts), bag(value.item), parts);
        break;
      case "response.output_text.delta":
      case "response.refusal.delta":
        if (type === "response.refusal.delta") this.#refused = true;
        this.#say(about("message"), text(value.delta), parts);
        break;
      case "response.reasoning_summary_text.delta":
        this.#think(about("reasoning"), `s${count(value.summary_index) ?? 0}`, text(value.delta), parts);
        break;
      case "response.reasoning_text.delta":
      case "response.reasoning.delta":
        this.#think(about("reasoning"), `t${count(value.content_index) ?? 0}`, text(value.delta), parts);
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
        this.#end(bag(value.response), parts);
        this.over = true;
        break;
      case "response.failed":
      case "response.cancelled":
      case "error":
        this.#failed(event, parts);
        break;
      default:
        if (tellsError(value.error)) parts.push({ type: "error", error: event });
        else if (value.object === "chat.completion.chunk")
          parts.push({ type: "error", error: { message: "it answers in chat completions", type: "wrong_protocol" } });
    }
  }

  whole(answer: unknown, parts: StreamPart[]): boolean {
    const response = bag(answer);
    if (!Array.isArray(response.output)) return false;
    if (response.status === "failed") this.#failed({ response }, parts);
    else this.#end(response, parts);
    this.end(true, parts);
    return true;
  }

  end(done: boolean, parts: StreamPart[]): void {
    if (!done && !this.complete) return;
    for (const item of [...this.#items.values()]) this.#done(item, item.start, parts);
    parts.push(finishPart({ unified: this.#unified(), raw: this.#reason }, this.#usage));
  }

  #unified(): string {
    if (this.#reason === "max_output_tokens") return "length";
    if (this.#reason === "content_filter") return "content-filter";
    if (this.#calls > 0) return "tool-calls";
    if (this.#refused) return "content-filter";
    return this.#reason !== undefined || !this.complete ? "other" : "stop";
  }

  #failed(event: unknown, parts: StreamPart[]): void {
    const value = bag(event);
    const { error, incomplete_details: why } = bag(value.response);
    const reason = text(bag(why).reason);
    if (!tellsError(error) && reason !== "") return this.#end(bag(value.response), parts);
    parts.push({
      type: "error",
      error: tellsError(error) ? { error } : tellsError(value.error) ? { error: value.error } : event,
    });
  }

  #end(response: Bag, parts: StreamPart[]): void {
    this.complete = true;
    this.#reason = text(bag(response.incomplete_details).reason) || undefined;
    this.#count(bag(response.usage));
    // What was not streamed. An item that was may come under another id here, so it is kinds that count.
    const [said, thought] = [this.#said, this.#thought];
    for (const [index, entry] of list(response.output).entries()) {
      const item = bag(entry);
      const kind = KINDS.get(item.type);
      const known = kind === "call" ? this.#called.has(text(item.call_id)) : kind === "text" ? said : kind && thought;
      if (!known) this.#done(this.#item({ output_index: index }, item, parts), item, parts);
    }
  }

  /** The item that an event is about; one whose start was left out begins here. */
  #item(event: Bag, start: Bag, parts: StreamPart[]): Item {
    const named = text(event.item_id) || text(start.id);
    const place = key(event.output_index) ?? this.#places.get(named) ?? named;
    if (named !== "") this.#places.set(named, place);
    const known = this.#items.get(place);
    if (known !== undefined) return known;
    const kind = KINDS.get(start.type) ?? "other";
    const item: Item = { place, kind, start, blocks: new Set(), pieces: [], told: false, thoughts: undefined };
    this.#items.set(place, item);
    if (kind === "other") parts.push({ type: "other" });
    if (kind === "call") parts.push({ type: "tool-input-start" });
    return item;
  }

  #added(event: Bag, parts: StreamPart[]): void {
    const start = bag(event.item);
    const item = this.#item(event, start, parts);
    if (item.kind === "text") this.#block(item, "", parts);
  }

  /** Begin a block of an item, unless it is begun. */
  #block(item: Item, name: string, parts: StreamPart[]): string {
    const id = `${item.place}:${name}`;
    if (item.blocks.has(id)) return id;
    item.blocks.add(id);
    const kind = item.kind === "text" ? "text" : "reasoning";
    // Thoughts as they are cannot go back where nothing vouches for them.
    const providerMetadata = item.thoughts === "plain" ? undefined : opaque(item.start);
    parts.push({ type: `${kind}-start`, id, providerMetadata });
    return id;
  }

  #say(item: Item, piece: string, parts: StreamPart[]): void {
    if (piece === "" || item.kind !== "text") return;
    this.#said = true;
    item.told = true;
    parts.push({ type: "text-delta", id: this.#block(item, "", parts), delta: piece });
  }

  #think(item: Item, name: string, piece: string, parts: StreamPart[]): void {
    if (piece === "" || item.kind !== "reasoning") return;
    const form = name.startsWith("t") ? "plain" : "summary";
    item.thoughts ??= form;
    if (item.thoughts !== form) return;
    this.#thought = true;
    parts.push({ type: "reasoning-delta", id: this.#block(item, name, parts), delta: piece });
  }

  #done(item: Item, end: Bag, parts: StreamPart[]): void {
    this.#items.delete(item.place);
    switch (item.kind) {
      case "text": {
        if (!item.told) {
          for (const entry of list(end.content)) {
            const part = bag(entry);
            if (part.type === "refusal") this.#refused = true;
            this.#say(item, text(part.text) || text(part.refusal), parts);
          }
        }
        for (const id of item.blocks) parts.push({ type: "text-end", id, providerMetadata: opaque(end) });
        break;
      }
      case "reasoning": {
        for (const [form, told] of [
          ["s", end.summary],
          ["t", end.content],
        ] as const)
          if (item.blocks.size === 0)
            for (const [index, part] of list(told).entries())
              this.#think(item, `${form}${index}`, text(bag(part).text), parts);
        this.#thought = true;
        const sealed = text(end.encrypted_content) !== "";
        // What vouches for thoughts goes back with or without words.
        if (sealed && item.blocks.size === 0) this.#block(item, "s0", parts);
        const providerMetadata = item.thoughts === "plain" && !sealed ? undefined : opaque(end);
        for (const id of item.blocks) parts.push({ type: "reasoning-end", id, providerMetadata });
        break;
      }
      case "call": {
        const name = text(end.name) || text(item.start.name);
        const id = text(end.call_id) || text(item.start.call_id);
        const input = argumentsOf(end.arguments) || item.pieces.join("");
        this.#calls++;
        this.#called.add(id);
        const providerMetadata = text(end.id) === "" ? undefined : { openai: { itemId: end.id } };
        parts.push({ type: "tool-call", toolCallId: id, toolName: name, input, providerMetadata });
        break;
      }
      case "other":
    }
  }

  #count(usage: Bag): void {
    const [input, output] = [count(usage.input_tokens), count(usage.output_tokens)];
    if (input === undefined && output === undefined) return;
    const inside = bag(usage.input_tokens_details);
    this.#usage = {
      input,
      output,
      cacheRead: count(inside.cached_tokens),
      cacheWrite: count(inside.cache_write_tokens),
      reasoning: count(bag(usage.output_tokens_details).reasoning_tokens),
      raw: usage,
    };
  }
}

/** What the package that writes the next request wants to have back, and no more than it takes. */
function opaque(item: Bag): Metadata {
  const phase = item.phase === "commentary" || item.phase === "final_answer" ? item.phase : undefined;
  return {
    openai: {
      itemId: text(item.id) || undefined,
      phase,
      reasoningEncryptedContent: text(item.encrypted_content) || undefined,
    },
  };
}
