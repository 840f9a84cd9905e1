import type { Metadata, StreamPart } from "../language-model.js";
import { finishPart, Saying, type AnswerReader, type Counts } from "./answer-reader.js";
import { PlacedArguments } from "./google-arguments.js";
import { argumentsOf, bag, count, list, tellsError, text, type Bag } from "../json.js";

const REASONS: Readonly<Record<string, string>> = {
  STOP: "stop",
  MAX_TOKENS: "length",
  SAFETY: "content-filter",
  RECITATION: "content-filter",
  BLOCKLIST: "content-filter",
  PROHIBITED_CONTENT: "content-filter",
  SPII: "content-filter",
  IMAGE_SAFETY: "content-filter",
  IMAGE_PROHIBITED_CONTENT: "content-filter",
  IMAGE_RECITATION: "content-filter",
  MODEL_ARMOR: "content-filter",
  MALFORMED_FUNCTION_CALL: "error",
  UNEXPECTED_TOOL_CALL: "error",
  MALFORMED_RESPONSE: "error",
};

/** Gemini's generateContent. */
export class GeminiReader implements AnswerReader {
  complete = false;
  // Older models say STOP with every chunk.
  readonly over = false;
  readonly #saying = new Saying();
  #usage: Counts | undefined;
  #reason: { unified: string; raw: string } | undefined;
  #message = "";
  /** A call whose arguments come value by value. */
  #placed: { called: Bag; metadata: Metadata | undefined; args: PlacedArguments } | undefined;

  read(event: unknown, name: string, parts: StreamPart[]): void {
    // Some gateways wrap each chunk, or send several at once.
    for (const entry of list(event)) {
      const chunk = bag(bag(entry).response ?? entry);
      if (tellsError(chunk.error) || name === "error") {
        parts.push({ type: "error", error: entry });
        return;
      }
      this.#count(bag(chunk.usageMetadata));
      const blocked = text(bag(chunk.promptFeedback).blockReason);
      if (blocked !== "" && blocked !== "BLOCK_REASON_UNSPECIFIED") this.#stopped(blocked, "content-filter");
      const candidate = bag(list(chunk.candidates)[0]);
      for (const part of list(bag(candidate.content).parts)) this.#part(bag(part), parts);
      this.#message ||= text(candidate.finishMessage);
      const reason = text(candidate.finishReason);
      if (reason !== "" && reason !== "FINISH_REASON_UNSPECIFIED") this.#stopped(reason, REASONS[reason] ?? "other");
    }
  }

  whole(answer: unknown, parts: StreamPart[]): boolean {
    if (!list(answer).some((chunk) => "candidates" in bag(chunk) || "promptFeedback" in bag(chunk))) return false;
    this.read(answer, "", parts);
    this.end(true, parts);
    return true;
  }

  end(done: boolean, parts: StreamPart[]): void {
    if (!done && !this.complete) return;
    this.#endCall(parts);
    this.#saying.turn(undefined, parts);
    const reason = this.#reason ?? { unified: "other", raw: undefined };
    parts.push(finishPart({ ...reason, message: this.#message || undefined }, this.#usage));
  }

  #stopped(raw: string, unified: string): void {
    this.#reason = { unified, raw };
    this.complete = true;
  }

  #part(part: Bag, parts: StreamPart[]): void {
    const signature = text(part.thoughtSignature);
    const metadata = signature === "" ? undefined : { google: { thoughtSignature: signature } };
    if (typeof part.functionCall === "object" && part.functionCall !== null) {
      this.#call(bag(part.functionCall), metadata, parts);
      return;
    }
    if (typeof part.text !== "string") {
      // Pictures, code that runs there, and what later versions bring.
      if (Object.keys(part).length > 0) parts.push({ type: "other" });
      return;
    }
    const kind = part.thought === true ? "reasoning" : "text";
    if (part.text !== "" || (metadata !== undefined && this.#saying.kind === kind))
      this.#saying.say(kind, part.text, parts, metadata);
  }

  #call(called: Bag, metadata: Metadata | undefined, parts: StreamPart[]): void {
    const streamed = called.partialArgs !== undefined || called.willContinue === true;
    if (streamed && text(called.name) === "" && this.#placed !== undefined) {
      this.#placed.args.add(called.partialArgs);
      // Feeds the watchdog; the arguments are told when they are whole.
      parts.push({ type: "tool-input-delta", delta: "" });
      return;
    }
    this.#endCall(parts);
    if (streamed) {
      this.#placed = { called, metadata, args: new PlacedArguments() };
      this.#placed.args.add(called.partialArgs);
      parts.push({ type: "tool-input-start" });
    } else if (Object.keys(called).length > 0) {
      tellCall(called, argumentsOf(called.args), metadata, parts);
    }
  }

  #endCall(parts: StreamPart[]): void {
    if (this.#placed === undefined) return;
    const { called, metadata, args } = this.#placed;
    this.#placed = undefined;
    tellCall(called, args.toString(), metadata, parts);
  }

  #count(usage: Bag): void {
    const thoughts = count(usage.thoughtsTokenCount);
    const input = count(usage.promptTokenCount);
    const output = (count(usage.candidatesTokenCount) ?? 0) + (thoughts ?? 0);
    if (!input && output === 0) return;
    this.#usage = { input, output, cacheRead: count(usage.cachedContentTokenCount), reasoning: thoughts, raw: usage };
  }
}

function tellCall(called: Bag, input: string, providerMetadata: Metadata | undefined, parts: StreamPart[]): void {
  const [toolCallId, toolName] = [text(called.id), text(called.name)];
  parts.push({ type: "tool-input-delta", delta: input });
  parts.push({ type: "tool-call", toolCallId, toolName, input, providerMetadata });
}
