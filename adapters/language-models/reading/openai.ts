import type { StreamPart } from "../language-model.js";
import { finishPart, BlockWriter, type AnswerReader, type Counts } from "./answer-reader.js";
import {
  argumentsOf,
  asObject,
  asCount,
  firstCount,
  asKey,
  asList,
  isErrorValue,
  asText,
  type JsonObject,
} from "../json.js";

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

/** Chat completions, as OpenAI and many others stream them. `name`: the key of opaque data. */
export class ChatReader implements AnswerReader {
  isComplete = false;
  readonly isOver = false;
  readonly #name: string;
  readonly #blocks = new BlockWriter();
  #calls: Call[] = [];
  #details: Record<string, unknown>[] = [];
  #usage: Counts | undefined;
  #reason: { unified: string; raw: string } | undefined;

  constructor(name: string) {
    this.#name = name;
  }

  read(event: unknown, name: string, parts: StreamPart[]): void {
    const chunk = asObject(event);
    if (isErrorValue(chunk.error) || chunk.object === "error" || name === "error") {
      parts.push({ type: "error", error: event });
      return;
    }
    this.#count(chunk.usage);
    // Vendor-specific fields, like `x_groq`.
    for (const field in chunk) if (field.startsWith("x_")) this.#count(asObject(chunk[field]).usage);
    for (const entry of asList(chunk.choices)) {
      const choice = asObject(entry);
      if (asCount(choice.index) ?? 0) continue;
      this.#count(choice.usage);
      if (isErrorValue(choice.error)) {
        parts.push({ type: "error", error: choice });
        return;
      }
      this.#delta(asObject(choice.delta ?? choice.message), parts);
      const reason = asText(choice.finish_reason);
      if (reason === "") continue;
      this.#reason = { unified: REASONS[reason.toLowerCase()] ?? "other", raw: reason };
      this.isComplete = true;
    }
  }

  readComplete(answer: unknown, parts: StreamPart[]): boolean {
    const choice = asObject(asList(asObject(answer).choices)[0]);
    // A filtered answer has a finish reason but no message.
    if (choice.message === undefined && choice.finish_reason === undefined) return false;
    this.read(answer, "", parts);
    // A complete answer may lack a finish reason.
    this.#reason ??= { unified: "stop", raw: "stop" };
    this.end(true, parts);
    return true;
  }

  end(done: boolean, parts: StreamPart[]): void {
    if (!done && !this.isComplete) return;
    this.#blocks.switchTo(undefined, parts);
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

  #delta(delta: JsonObject, parts: StreamPart[]): void {
    this.#gather(delta.reasoning_details);
    const thought =
      asText(delta.reasoning_content) ||
      asText(delta.reasoning) ||
      asText(delta.reasoning_text) ||
      asText(asObject(delta.reasoning).content) ||
      detailsText(delta.reasoning_details);
    this.#grow("reasoning", thought, parts);
    if (typeof delta.content === "string") {
      this.#grow("text", delta.content, parts);
    } else if (isPlain(delta.content)) {
      // A JSON answer that the server has already parsed.
      this.#grow("text", JSON.stringify(delta.content), parts);
    } else {
      for (const entry of asList(delta.content)) {
        const part = asObject(entry);
        if (part.type === "thinking") {
          const thinking = typeof part.thinking === "string" ? part.thinking : joined(part.thinking);
          this.#grow("reasoning", thinking, parts);
        } else if (part.type === "text" || part.type === "output_text" || part.type === undefined) {
          this.#grow("text", asText(part.text), parts);
        }
      }
    }
    // Some servers repeat a refusal as content.
    if (asText(delta.content) === "") this.#grow("text", asText(delta.refusal), parts);
    const calls = asList(delta.tool_calls);
    // The older field, for a single call.
    const old = delta.function_call;
    for (const call of calls) this.#call(asObject(call), asObject(asObject(call).function), parts);
    if (calls.length === 0 && typeof old === "object" && old !== null) this.#call({ index: 0 }, asObject(old), parts);
  }

  #call(delta: JsonObject, called: JsonObject, parts: StreamPart[]): void {
    if (this.#blocks.kind === "reasoning") this.#blocks.switchTo(undefined, parts);
    const id = asText(delta.id);
    const name = asText(called.name);
    let call = this.#find(delta.index, id, name);
    // Some servers fill all fields with empty values.
    if (call === undefined && id === "" && name === "" && argumentsOf(called.arguments) === "") return;
    if (call === undefined) {
      call = { index: asKey(delta.index), id, name, pieces: [], signature: "" };
      this.#calls.push(call);
      parts.push({ type: "tool-input-start" });
    }
    call.id ||= id;
    call.name ||= name;
    const google = asObject(asObject(delta.extra_content).google);
    call.signature ||= asText(google.thought_signature);
    const piece = argumentsOf(called.arguments);
    // An object contains all arguments.
    if (typeof called.arguments === "object") call.pieces.length = 0;
    if (piece === "") return;
    call.pieces.push(piece);
    parts.push({ type: "tool-input-delta", delta: piece });
  }

  /** The call of a piece; undefined: a new one. */
  #find(index: unknown, id: string, name: string): Call | undefined {
    if (asKey(index) === undefined) {
      if (id === "") return name === "" ? this.#calls.at(-1) : undefined;
      return this.#calls.findLast((call) => call.id === id);
    }
    const call = this.#calls.findLast((candidate) => candidate.index === asKey(index));
    // Some servers use index 0 for every call.
    return call !== undefined && name !== "" && id !== "" && call.id !== "" && call.id !== id ? undefined : call;
  }

  #grow(kind: "text" | "reasoning", piece: string, parts: StreamPart[]): void {
    if (piece !== "") this.#blocks.write(kind, piece, parts);
  }

  /** Collects `reasoning_details` of a stream: pieces of one detail have the same type and index. */
  #gather(pieces: unknown): void {
    for (const entry of asList(pieces)) {
      const piece = asObject(entry);
      const last = this.#details.at(-1);
      const same = last !== undefined && last.type === piece.type && last.index === piece.index;
      if (!same || piece.type === "reasoning.encrypted") {
        this.#details.push({ ...piece });
        continue;
      }
      for (const [field, value] of Object.entries(piece)) {
        const grows = field === "text" || field === "summary";
        if (grows && typeof value === "string") last[field] = `${asText(last[field])}${value}`;
        else if (value !== null && value !== undefined) last[field] = value;
      }
    }
  }

  #count(value: unknown): void {
    const usage = asObject(value);
    const input = firstCount(usage.prompt_tokens, usage.input_tokens);
    let output = firstCount(usage.completion_tokens, usage.output_tokens);
    // A later chunk may repeat the field with empty values.
    if (!input && !output) return;
    const inside = asObject(usage.prompt_tokens_details ?? usage.input_tokens_details);
    const reasoning = firstCount(
      asObject(usage.completion_tokens_details).reasoning_tokens,
      asObject(usage.output_tokens_details).reasoning_tokens,
      usage.reasoning_tokens,
    );
    // xAI does not include reasoning tokens in the output tokens.
    if (reasoning && asCount(usage.total_tokens) === (input ?? 0) + (output ?? 0) + reasoning)
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
  return asList(value)
    .map((entry) => asText(asObject(entry).text))
    .join("");
}

function detailsText(value: unknown): string {
  return asList(value)
    .map((entry) => asText(asObject(entry).text) || asText(asObject(entry).summary))
    .join("");
}
