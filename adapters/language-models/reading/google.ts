import type { Metadata, StreamPart } from "../language-model.js";
import { finishPart, BlockWriter, type AnswerReader, type Counts } from "./answer-reader.js";
import { IncrementalArguments } from "./google-arguments.js";
import { argumentsOf, asObject, asCount, asList, isErrorValue, asText, type JsonObject } from "../json.js";

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
  isComplete = false;
  // Older models send STOP with every chunk.
  readonly isOver = false;
  readonly #blocks = new BlockWriter();
  #usage: Counts | undefined;
  #reason: { unified: string; raw: string } | undefined;
  #message = "";
  /** The current call with incremental arguments. */
  #placed: { called: JsonObject; metadata: Metadata | undefined; args: IncrementalArguments } | undefined;

  read(event: unknown, name: string, parts: StreamPart[]): void {
    // Some gateways wrap each chunk, or send several at once.
    for (const entry of asList(event)) {
      const chunk = asObject(asObject(entry).response ?? entry);
      if (isErrorValue(chunk.error) || name === "error") {
        parts.push({ type: "error", error: entry });
        return;
      }
      this.#count(asObject(chunk.usageMetadata));
      const blocked = asText(asObject(chunk.promptFeedback).blockReason);
      if (blocked !== "" && blocked !== "BLOCK_REASON_UNSPECIFIED") this.#stopped(blocked, "content-filter");
      const candidate = asObject(asList(chunk.candidates)[0]);
      for (const part of asList(asObject(candidate.content).parts)) this.#part(asObject(part), parts);
      this.#message ||= asText(candidate.finishMessage);
      const reason = asText(candidate.finishReason);
      if (reason !== "" && reason !== "FINISH_REASON_UNSPECIFIED") this.#stopped(reason, REASONS[reason] ?? "other");
    }
  }

  readComplete(answer: unknown, parts: StreamPart[]): boolean {
    if (!asList(answer).some((chunk) => "candidates" in asObject(chunk) || "promptFeedback" in asObject(chunk)))
      return false;
    this.read(answer, "", parts);
    this.end(true, parts);
    return true;
  }

  end(done: boolean, parts: StreamPart[]): void {
    if (!done && !this.isComplete) return;
    this.#endCall(parts);
    this.#blocks.switchTo(undefined, parts);
    const reason = this.#reason ?? { unified: "other", raw: undefined };
    parts.push(finishPart({ ...reason, message: this.#message || undefined }, this.#usage));
  }

  #stopped(raw: string, unified: string): void {
    this.#reason = { unified, raw };
    this.isComplete = true;
  }

  #part(part: JsonObject, parts: StreamPart[]): void {
    const signature = asText(part.thoughtSignature);
    const metadata = signature === "" ? undefined : { google: { thoughtSignature: signature } };
    if (typeof part.functionCall === "object" && part.functionCall !== null) {
      this.#call(asObject(part.functionCall), metadata, parts);
      return;
    }
    if (typeof part.text !== "string") {
      // Images, code that runs at the provider, and part types of later versions.
      if (Object.keys(part).length > 0) parts.push({ type: "other" });
      return;
    }
    const kind = part.thought === true ? "reasoning" : "text";
    if (part.text !== "" || (metadata !== undefined && this.#blocks.kind === kind))
      this.#blocks.write(kind, part.text, parts, metadata);
  }

  #call(called: JsonObject, metadata: Metadata | undefined, parts: StreamPart[]): void {
    const streamed = called.partialArgs !== undefined || called.willContinue === true;
    if (streamed && asText(called.name) === "" && this.#placed !== undefined) {
      this.#placed.args.add(called.partialArgs);
      // Keeps the watchdog from aborting; complete arguments are sent at the end of the call.
      parts.push({ type: "tool-input-delta", delta: "" });
      return;
    }
    this.#endCall(parts);
    if (streamed) {
      this.#placed = { called, metadata, args: new IncrementalArguments() };
      this.#placed.args.add(called.partialArgs);
      parts.push({ type: "tool-input-start" });
    } else if (Object.keys(called).length > 0) {
      pushCall(called, argumentsOf(called.args), metadata, parts);
    }
  }

  #endCall(parts: StreamPart[]): void {
    if (this.#placed === undefined) return;
    const { called, metadata, args } = this.#placed;
    this.#placed = undefined;
    pushCall(called, args.toString(), metadata, parts);
  }

  #count(usage: JsonObject): void {
    const thoughts = asCount(usage.thoughtsTokenCount);
    const input = asCount(usage.promptTokenCount);
    const output = (asCount(usage.candidatesTokenCount) ?? 0) + (thoughts ?? 0);
    if (!input && output === 0) return;
    this.#usage = { input, output, cacheRead: asCount(usage.cachedContentTokenCount), reasoning: thoughts, raw: usage };
  }
}

function pushCall(
  called: JsonObject,
  input: string,
  providerMetadata: Metadata | undefined,
  parts: StreamPart[],
): void {
  const [toolCallId, toolName] = [asText(called.id), asText(called.name)];
  parts.push({ type: "tool-input-delta", delta: input });
  parts.push({ type: "tool-call", toolCallId, toolName, input, providerMetadata });
}
