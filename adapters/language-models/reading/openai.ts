import type { StreamPart } from "../language-model.js";
import { createFinishPart, BlockWriter, type AnswerReader, type TokenCounts } from "./answer-reader.js";
import {
  asArgumentsText,
  asObject,
  asCount,
  findFirstCount,
  asKey,
  asList,
  isErrorValue,
  asText,
  type JsonObject,
} from "../json.js";

const FINISH_REASONS: Readonly<Record<string, string>> = {
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

/** Reads chat completions, as OpenAI and many other providers stream them. `metadataKey`: the key of opaque data. */
export class ChatReader implements AnswerReader {
  isComplete = false;
  readonly isOver = false;
  readonly #metadataKey: string;
  readonly #blocks = new BlockWriter();
  #calls: Call[] = [];
  #reasoningDetails: Record<string, unknown>[] = [];
  /** Encrypted reasoning of GitHub Copilot. */
  #reasoningOpaque = "";
  #usage: TokenCounts | undefined;
  #reason: { unified: string; raw: string } | undefined;

  constructor(metadataKey: string) {
    this.#metadataKey = metadataKey;
  }

  read(event: unknown, name: string, parts: StreamPart[]): void {
    const chunk = asObject(event);
    if (isErrorValue(chunk.error) || chunk.object === "error" || name === "error") {
      parts.push({ type: "error", error: event });
      return;
    }
    this.#readUsage(chunk.usage);
    // Vendor-specific fields, like `x_groq`.
    for (const field in chunk) if (field.startsWith("x_")) this.#readUsage(asObject(chunk[field]).usage);
    for (const entry of asList(chunk.choices)) {
      const choice = asObject(entry);
      // Only the first choice is used.
      if (asCount(choice.index) ?? 0) continue;
      this.#readUsage(choice.usage);
      if (isErrorValue(choice.error)) {
        parts.push({ type: "error", error: choice });
        return;
      }
      this.#readDelta(asObject(choice.delta ?? choice.message), parts);
      const reason = asText(choice.finish_reason);
      if (reason === "") continue;
      this.#reason = { unified: FINISH_REASONS[reason.toLowerCase()] ?? "other", raw: reason };
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

  end(isDone: boolean, parts: StreamPart[]): void {
    if (!isDone && !this.isComplete) return;
    this.#blocks.switchTo(undefined, parts);
    for (const { id, name, pieces, signature } of this.#calls) {
      const metadata = signature === "" ? undefined : { [this.#metadataKey]: { thoughtSignature: signature } };
      parts.push({
        type: "tool-call",
        toolCallId: id,
        toolName: name,
        input: pieces.join(""),
        providerMetadata: metadata,
      });
    }
    const metadata = {
      ...(this.#reasoningDetails.length > 0 && { reasoningDetails: this.#reasoningDetails }),
      ...(this.#reasoningOpaque !== "" && { reasoningOpaque: this.#reasoningOpaque }),
    };
    const details = Object.keys(metadata).length === 0 ? undefined : { [this.#metadataKey]: metadata };
    parts.push(createFinishPart(this.#reason ?? { unified: "other", raw: undefined }, this.#usage, details));
  }

  #readDelta(delta: JsonObject, parts: StreamPart[]): void {
    this.#addReasoningDetails(delta.reasoning_details);
    this.#reasoningOpaque += asText(delta.reasoning_opaque);
    const reasoning =
      asText(delta.reasoning_content) ||
      asText(delta.reasoning) ||
      asText(delta.reasoning_text) ||
      asText(asObject(delta.reasoning).content) ||
      joinDetails(delta.reasoning_details);
    this.#addText("reasoning", reasoning, parts);
    if (typeof delta.content === "string") {
      this.#addText("text", delta.content, parts);
    } else if (isParsedAnswer(delta.content)) {
      // A JSON answer that the server has already parsed.
      this.#addText("text", JSON.stringify(delta.content), parts);
    } else {
      for (const entry of asList(delta.content)) {
        const part = asObject(entry);
        if (part.type === "thinking") {
          const thinking = typeof part.thinking === "string" ? part.thinking : joinTexts(part.thinking);
          this.#addText("reasoning", thinking, parts);
        } else if (part.type === "text" || part.type === "output_text" || part.type === undefined) {
          this.#addText("text", asText(part.text), parts);
        }
      }
    }
    // Some servers repeat a refusal as content.
    if (asText(delta.content) === "") this.#addText("text", asText(delta.refusal), parts);
    const calls = asList(delta.tool_calls);
    // The older field, for a single call.
    const functionCall = delta.function_call;
    for (const call of calls) this.#readCall(asObject(call), asObject(asObject(call).function), parts);
    if (calls.length === 0 && typeof functionCall === "object" && functionCall !== null)
      this.#readCall({ index: 0 }, asObject(functionCall), parts);
  }

  #readCall(delta: JsonObject, calledFunction: JsonObject, parts: StreamPart[]): void {
    if (this.#blocks.kind === "reasoning") this.#blocks.switchTo(undefined, parts);
    const id = asText(delta.id);
    const name = asText(calledFunction.name);
    let call = this.#findCall(delta.index, id, name);
    // Some servers fill all fields with empty values.
    if (call === undefined && id === "" && name === "" && asArgumentsText(calledFunction.arguments) === "") return;
    if (call === undefined) {
      call = { index: asKey(delta.index), id, name, pieces: [], signature: "" };
      this.#calls.push(call);
      parts.push({ type: "tool-input-start" });
    }
    call.id ||= id;
    call.name ||= name;
    const google = asObject(asObject(delta.extra_content).google);
    call.signature ||= asText(google.thought_signature);
    const piece = asArgumentsText(calledFunction.arguments);
    // An object contains all arguments.
    if (typeof calledFunction.arguments === "object") call.pieces.length = 0;
    if (piece === "") return;
    call.pieces.push(piece);
    parts.push({ type: "tool-input-delta", delta: piece });
  }

  /** The call to which a piece belongs; undefined for a new call. */
  #findCall(index: unknown, id: string, name: string): Call | undefined {
    if (asKey(index) === undefined) {
      if (id === "") return name === "" ? this.#calls.at(-1) : undefined;
      return this.#calls.findLast((call) => call.id === id);
    }
    const call = this.#calls.findLast((candidate) => candidate.index === asKey(index));
    // Some servers use index 0 for every call.
    return call !== undefined && name !== "" && id !== "" && call.id !== "" && call.id !== id ? undefined : call;
  }

  #addText(kind: "text" | "reasoning", piece: string, parts: StreamPart[]): void {
    if (piece !== "") this.#blocks.write(kind, piece, parts);
  }

  /** Collects `reasoning_details` of a stream: pieces of one detail have the same type and index. */
  #addReasoningDetails(pieces: unknown): void {
    for (const entry of asList(pieces)) {
      const piece = asObject(entry);
      const lastDetail = this.#reasoningDetails.at(-1);
      const isSameDetail =
        lastDetail !== undefined && lastDetail.type === piece.type && lastDetail.index === piece.index;
      if (!isSameDetail || piece.type === "reasoning.encrypted") {
        this.#reasoningDetails.push({ ...piece });
        continue;
      }
      for (const [field, value] of Object.entries(piece)) {
        const isText = field === "text" || field === "summary";
        if (isText && typeof value === "string") lastDetail[field] = `${asText(lastDetail[field])}${value}`;
        else if (value !== null && value !== undefined) lastDetail[field] = value;
      }
    }
  }

  #readUsage(value: unknown): void {
    const usage = asObject(value);
    const input = findFirstCount(usage.prompt_tokens, usage.input_tokens);
    let output = findFirstCount(usage.completion_tokens, usage.output_tokens);
    // A later chunk may repeat the field with empty values.
    if (!input && !output) return;
    const inputDetails = asObject(usage.prompt_tokens_details ?? usage.input_tokens_details);
    const reasoning = findFirstCount(
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
      cacheRead: findFirstCount(
        inputDetails.cached_tokens,
        usage.prompt_cache_hit_tokens,
        usage.cached_tokens,
        usage.cache_read_input_tokens,
      ),
      cacheWrite: findFirstCount(inputDetails.cache_write_tokens, usage.cache_creation_input_tokens),
      raw: usage,
    };
  }
}

function isParsedAnswer(content: unknown): boolean {
  return !Array.isArray(content) && typeof content === "object" && content !== null && !("text" in content);
}

function joinTexts(value: unknown): string {
  return asList(value)
    .map((entry) => asText(asObject(entry).text))
    .join("");
}

function joinDetails(value: unknown): string {
  return asList(value)
    .map((entry) => asText(asObject(entry).text) || asText(asObject(entry).summary))
    .join("");
}
