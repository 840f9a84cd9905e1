import type { StreamPart } from "../language-model.js";
import { finishPart, Saying, type AnswerReader, type Counts } from "./answer-reader.js";
import { argumentsOf, bag, count, firstCount, key, list, tellsError, text, type Bag } from "../json.js";

const REASONS: Readonly<Record<string, string>> = {
  stop: "stop",
  end_turn: "stop",
  eos: "stop",
  stop_sequence: "stop",
  length: "length",
  max_tokens: "length",
  model_length: "length",
  model_context_window_exceeded: "length",
  content_filter: "content-filter",
  sensitive: "content-filter",
  tool_calls: "tool-calls",
  function_call: "tool-calls",
  tool_use: "tool-calls",
  error: "error",
  network_error: "error",
  insufficient_system_resource: "error",
};

interface Call {
  readonly index: string | undefined;
  id: string;
  name: string;
  readonly pieces: string[];
  signature: string;
}

/** Chat completions, as OpenAI and hundreds of others stream them. `name`: the key of opaque data. */
export class ChatReader implements AnswerReader {
  complete = false;
  readonly over = false;
  readonly #name: string;
  readonly #saying = new Saying();
  #calls: Call[] = [];
  #details: Record<string, unknown>[] = [];
  #usage: Counts | undefined;
  #reason: { unified: string; raw: string } | undefined;

  constructor(name: string) {
    this.#name = name;
  }

  read(event: unknown, name: string, parts: StreamPart[]): void {
    const chunk = bag(event);
    if (tellsError(chunk.error) || chunk.object === "error" || name === "error") {
      parts.push({ type: "error", error: event });
      return;
    }
    this.#count(chunk.usage);
    // Vendors' own keys: `x_groq` and others.
    for (const field in chunk) if (field.startsWith("x_")) this.#count(bag(chunk[field]).usage);
    for (const entry of list(chunk.choices)) {
      const choice = bag(entry);
      if (count(choice.index) ?? 0) continue;
      this.#count(choice.usage);
      if (tellsError(choice.error)) {
        parts.push({ type: "error", error: choice });
        return;
      }
      this.#delta(bag(choice.delta ?? choice.message), parts);
      const reason = text(choice.finish_reason);
      if (reason === "") continue;
      this.#reason = { unified: REASONS[reason.toLowerCase()] ?? "other", raw: reason };
      this.complete = true;
    }
  }

  whole(answer: unknown, parts: StreamPart[]): boolean {
    const choice = bag(list(bag(answer).choices)[0]);
    // What a filter took back has a reason and no message.
    if (choice.message === undefined && choice.finish_reason === undefined) return false;
    this.read(answer, "", parts);
    // A whole answer is an answer, whether it says so or not.
    this.#reason ??= { unified: "stop", raw: "stop" };
    this.end(true, parts);
    return true;
  }

  end(done: boolean, parts: StreamPart[]): void {
    if (!done && !this.complete) return;
    this.#saying.turn(undefined, parts);
    for (const { id, name, pieces, signature } of this.#calls) {
      const signed = signature === "" ? undefined : { [this.#name]: { thoughtSignature: signature } };
      parts.push({
        type: "tool-call",
        toolCallId: id,
        toolName: name,
        input: pieces.join(""),
        providerMetadata: signed,
      });
    }
    const details = this.#details.length === 0 ? undefined : { [this.#name]: { reasoningDetails: this.#details } };
    parts.push(finishPart(this.#reason ?? { unified: "other", raw: undefined }, this.#usage, details));
  }

  #delta(delta: Bag, parts: StreamPart[]): void {
    this.#gather(delta.reasoning_details);
    const thought =
      text(delta.reasoning_content) ||
      text(delta.reasoning) ||
      text(delta.reasoning_text) ||
      text(bag(delta.reasoning).content) ||
      detailsText(delta.reasoning_details);
    this.#grow("reasoning", thought, parts);
    if (typeof delta.content === "string") {
      this.#grow("text", delta.content, parts);
    } else if (isPlain(delta.content)) {
      // An answer in JSON that somebody has parsed already.
      this.#grow("text", JSON.stringify(delta.content), parts);
    } else {
      for (const entry of list(delta.content)) {
        const part = bag(entry);
        if (part.type === "thinking") {
          const thinking = typeof part.thinking === "string" ? part.thinking : joined(part.thinking);
          this.#grow("reasoning", thinking, parts);
        } else if (part.type === "text" || part.type === "output_text" || part.type === undefined) {
          this.#grow("text", text(part.text), parts);
        }
      }
    }
    // Some say it twice.
    if (text(delta.content) === "") this.#grow("text", text(delta.refusal), parts);
    const calls = list(delta.tool_calls);
    // The form before there were several calls.
    const old = delta.function_call;
    for (const call of calls) this.#call(bag(call), bag(bag(call).function), parts);
    if (calls.length === 0 && typeof old === "object" && old !== null) this.#call({ index: 0 }, bag(old), parts);
  }

  #call(delta: Bag, called: Bag, parts: StreamPart[]): void {
    if (this.#saying.kind === "reasoning") this.#saying.turn(undefined, parts);
    const id = text(delta.id);
    const name = text(called.name);
    let call = this.#find(delta.index, id, name);
    // Some fill in every field that there is, with nothing.
    if (call === undefined && id === "" && name === "" && argumentsOf(called.arguments) === "") return;
    if (call === undefined) {
      call = { index: key(delta.index), id, name, pieces: [], signature: "" };
      this.#calls.push(call);
      parts.push({ type: "tool-input-start" });
    }
    call.id ||= id;
    call.name ||= name;
    const google = bag(bag(delta.extra_content).google);
    call.signature ||= text(google.thought_signature);
    const piece = argumentsOf(called.arguments);
    // An object is the whole of them.
    if (typeof called.arguments === "object") call.pieces.length = 0;
    if (piece === "") return;
    call.pieces.push(piece);
    parts.push({ type: "tool-input-delta", delta: piece });
  }

  /** The call that a piece belongs to; undefined: a new one. */
  #find(index: unknown, id: string, name: string): Call | undefined {
    if (key(index) === undefined) {
      if (id === "") return name === "" ? this.#calls.at(-1) : undefined;
      return this.#calls.findLast((call) => call.id === id);
    }
    const call = this.#calls.findLast((known) => known.index === key(index));
    // Some count every call as the first.
    return call !== undefined && name !== "" && id !== "" && call.id !== "" && call.id !== id ? undefined : call;
  }

  #grow(kind: "text" | "reasoning", piece: string, parts: StreamPart[]): void {
    if (piece !== "") this.#saying.say(kind, piece, parts);
  }

  /** `reasoning_details` as they stream: pieces of one detail have the same type and index. */
  #gather(pieces: unknown): void {
    for (const entry of list(pieces)) {
      const piece = bag(entry);
      const last = this.#details.at(-1);
      const same = last !== undefined && last.type === piece.type && last.index === piece.index;
      if (!same || piece.type === "reasoning.encrypted") {
        this.#details.push({ ...piece });
        continue;
      }
      for (const [field, value] of Object.entries(piece)) {
        const grows = field === "text" || field === "summary";
        if (grows && typeof value === "string") last[field] = `${text(last[field])}${value}`;
        else if (value !== null && value !== undefined) last[field] = value;
      }
    }
  }

  #count(value: unknown): void {
    const usage = bag(value);
    const input = firstCount(usage.prompt_tokens, usage.input_tokens);
    let output = firstCount(usage.completion_tokens, usage.output_tokens);
    // A later chunk may repeat the field empty.
    if (!input && !output) return;
    const inside = bag(usage.prompt_tokens_details ?? usage.input_tokens_details);
    const reasoning = firstCount(
      bag(usage.completion_tokens_details).reasoning_tokens,
      bag(usage.output_tokens_details).reasoning_tokens,
      usage.reasoning_tokens,
    );
    // xAI counts thoughts beside the rest of the answer.
    if (reasoning && count(usage.total_tokens) === (input ?? 0) + (output ?? 0) + reasoning)
      output = (output ?? 0) + reasoning;
    this.#usage = {
      input,
      output,
      reasoning,
      cacheRead: firstCount(
        inside.cached_tokens,
        usage.prompt_cache_hit_tokens,
        usage.cached_tokens,
        usage.cache_read_input_tokens,
      ),
      cacheWrite: firstCount(inside.cache_write_tokens, usage.cache_creation_input_tokens),
      raw: usage,
    };
  }
}

function isPlain(content: unknown): boolean {
  return !Array.isArray(content) && typeof content === "object" && content !== null && !("text" in content);
}

function joined(value: unknown): string {
  return list(value)
    .map((entry) => text(bag(entry).text))
    .join("");
}

function detailsText(value: unknown): string {
  return list(value)
    .map((entry) => text(bag(entry).text) || text(bag(entry).summary))
    .join("");
}
