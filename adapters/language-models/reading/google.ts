import type { Metadata, StreamPart } from "../language-model.js";
import { createFinishPart, BlockWriter, type AnswerReader, type TokenCounts } from "./answer-reader.js";
import { asArgumentsText, asObject, asCount, asList, isErrorValue, asText, type JsonObject } from "../json.js";

const PATH_STEP_PATTERN = /\.([^.[\]]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]/g;
/** Maximum length of an array within arguments; a larger index is ignored. */
const MAX_ARRAY_LENGTH = 10_000;

type Container = Record<string | number, unknown>;

const FINISH_REASONS: Readonly<Record<string, string>> = {
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

/** Reads answers of Gemini's generateContent. */
export class GeminiReader implements AnswerReader {
  isComplete = false;
  // Always false, because older models send STOP with every chunk.
  readonly isOver = false;
  readonly #blocks = new BlockWriter();
  #usage: TokenCounts | undefined;
  #reason: { unified: string; raw: string } | undefined;
  #finishMessage = "";
  /** The current call with incremental arguments. */
  #incrementalCall: { call: JsonObject; metadata: Metadata | undefined; args: IncrementalArguments } | undefined;

  read(event: unknown, name: string, parts: StreamPart[]): void {
    // Some gateways wrap each chunk, or send several at once.
    for (const entry of asList(event)) {
      const chunk = asObject(asObject(entry).response ?? entry);
      if (isErrorValue(chunk.error) || name === "error") {
        parts.push({ type: "error", error: entry });
        return;
      }
      this.#readUsage(asObject(chunk.usageMetadata));
      const blockReason = asText(asObject(chunk.promptFeedback).blockReason);
      if (blockReason !== "" && blockReason !== "BLOCK_REASON_UNSPECIFIED")
        this.#setReason(blockReason, "content-filter");
      const candidate = asObject(asList(chunk.candidates)[0]);
      for (const part of asList(asObject(candidate.content).parts)) this.#readPart(asObject(part), parts);
      this.#finishMessage ||= asText(candidate.finishMessage);
      const reason = asText(candidate.finishReason);
      if (reason !== "" && reason !== "FINISH_REASON_UNSPECIFIED")
        this.#setReason(reason, FINISH_REASONS[reason] ?? "other");
    }
  }

  readComplete(answer: unknown, parts: StreamPart[]): boolean {
    if (!asList(answer).some((chunk) => "candidates" in asObject(chunk) || "promptFeedback" in asObject(chunk)))
      return false;
    this.read(answer, "", parts);
    this.end(true, parts);
    return true;
  }

  end(isDone: boolean, parts: StreamPart[]): void {
    if (!isDone && !this.isComplete) return;
    this.#endCall(parts);
    this.#blocks.switchTo(undefined, parts);
    const reason = this.#reason ?? { unified: "other", raw: undefined };
    parts.push(createFinishPart({ ...reason, message: this.#finishMessage || undefined }, this.#usage));
  }

  #setReason(raw: string, unified: string): void {
    this.#reason = { unified, raw };
    this.isComplete = true;
  }

  #readPart(part: JsonObject, parts: StreamPart[]): void {
    const signature = asText(part.thoughtSignature);
    const metadata = signature === "" ? undefined : { google: { thoughtSignature: signature } };
    if (typeof part.functionCall === "object" && part.functionCall !== null) {
      this.#readCall(asObject(part.functionCall), metadata, parts);
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

  #readCall(call: JsonObject, metadata: Metadata | undefined, parts: StreamPart[]): void {
    const isIncremental = call.partialArgs !== undefined || call.willContinue === true;
    if (isIncremental && asText(call.name) === "" && this.#incrementalCall !== undefined) {
      this.#incrementalCall.args.add(call.partialArgs);
      // Keeps the watchdog from aborting; complete arguments are sent at the end of the call.
      parts.push({ type: "tool-input-delta", delta: "" });
      return;
    }
    this.#endCall(parts);
    if (isIncremental) {
      this.#incrementalCall = { call, metadata, args: new IncrementalArguments() };
      this.#incrementalCall.args.add(call.partialArgs);
      parts.push({ type: "tool-input-start" });
    } else if (Object.keys(call).length > 0) {
      pushCall(call, asArgumentsText(call.args), metadata, parts);
    }
  }

  #endCall(parts: StreamPart[]): void {
    if (this.#incrementalCall === undefined) return;
    const { call, metadata, args } = this.#incrementalCall;
    this.#incrementalCall = undefined;
    pushCall(call, args.toString(), metadata, parts);
  }

  #readUsage(usage: JsonObject): void {
    const thoughtTokens = asCount(usage.thoughtsTokenCount);
    const input = asCount(usage.promptTokenCount);
    const output = (asCount(usage.candidatesTokenCount) ?? 0) + (thoughtTokens ?? 0);
    if (!input && output === 0) return;
    this.#usage = {
      input,
      output,
      cacheRead: asCount(usage.cachedContentTokenCount),
      reasoning: thoughtTokens,
      raw: usage,
    };
  }
}

function pushCall(call: JsonObject, input: string, providerMetadata: Metadata | undefined, parts: StreamPart[]): void {
  const [toolCallId, toolName] = [asText(call.id), asText(call.name)];
  parts.push({ type: "tool-input-delta", delta: input });
  parts.push({ type: "tool-call", toolCallId, toolName, input, providerMetadata });
}

/** Arguments of a call that arrive as single values with their JSON paths, as some Gemini servers stream them. */
class IncrementalArguments {
  readonly #root: Container = {};

  add(partials: unknown): void {
    for (const entry of asList(partials)) {
      const partial = asObject(entry);
      const steps = [...asText(partial.jsonPath).matchAll(PATH_STEP_PATTERN)].map(([, ...groups]) =>
        groups[1] === undefined ? (groups[0] ?? groups[2] ?? groups[3] ?? "") : Number(groups[1]),
      );
      if (steps.length > 0 && steps.every((step) => typeof step === "string" || step < MAX_ARRAY_LENGTH))
        this.#setValue(steps, partial);
    }
  }

  toString(): string {
    return JSON.stringify(this.#root);
  }

  #setValue(steps: readonly (string | number)[], partial: Readonly<Record<string, unknown>>): void {
    let container = this.#root;
    for (const [index, step] of steps.slice(0, -1).entries()) {
      let next = getOwn(container, step);
      if (typeof next !== "object" || next === null) {
        next = typeof steps[index + 1] === "number" ? [] : {};
        setOwn(container, step, next);
      }
      container = next as Container;
    }
    const lastStep = steps.at(-1)!;
    const previousValue = getOwn(container, lastStep);
    if (typeof partial.stringValue === "string")
      setOwn(
        container,
        lastStep,
        typeof previousValue === "string" ? previousValue + partial.stringValue : partial.stringValue,
      );
    else if (partial.numberValue !== undefined) setOwn(container, lastStep, partial.numberValue);
    else if (partial.boolValue !== undefined) setOwn(container, lastStep, partial.boolValue);
    else if ("nullValue" in partial) setOwn(container, lastStep, null);
  }
}

function getOwn(container: Container, step: string | number): unknown {
  return Object.hasOwn(container, step) ? container[step] : undefined;
}

/** Defines the property, so that names like `__proto__` are safe. */
function setOwn(container: Container, step: string | number, value: unknown): void {
  Object.defineProperty(container, step, { value, writable: true, enumerable: true, configurable: true });
}
