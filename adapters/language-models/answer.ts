import { randomUUID } from "node:crypto";
import { ProviderError } from "gantry";
import type { FinishReason, ModelChunk, ModelRequest, ModelUsage } from "gantry/plugin";
import { toProviderError, type FaultContext } from "./errors.js";
import type { Metadata, StreamPart } from "./language-model.js";
import {
  EMPTY_ANSWER,
  UNNAMED_CALL,
  MISSING_CALL,
  INVALID_FINISH_REASONS,
  REASONING_ONLY,
  type InvalidAnswer,
} from "./invalid-answers.js";
import { ThinkTags, type TaggedText } from "./think-tags.js";
import { estimateUsage, readReason, readUsage, type ReportedUsage } from "./usage.js";
import type { Wire } from "./wires/wire.js";

export interface Reading extends FaultContext {
  readonly wire: Pick<Wire, "thinkTags" | "answerData">;
  /** Opaque data that is added to each reasoning part. */
  readonly mark: Metadata | undefined;
  /** Adds the cost to the reported usage. */
  price(reported: ReportedUsage): Promise<ModelUsage>;
}

type Kind = "text" | "reasoning";

/**
 * Maximum separate chunks of one read. Further chunks of a burst are joined, which saves work on the whole way to the
 * client.
 */
const MAX_SEPARATE_CHUNKS = 8;

interface Block {
  readonly kind: Kind;
  readonly name: string;
  opaque: Record<string, Record<string, unknown>> | undefined;
  /** Whether `opaque` has changed since it was last emitted. */
  isChanged: boolean;
}

export class AnswerBuilder {
  finish: StreamPart | undefined;
  readonly #reading: Reading;
  readonly #open: Readonly<Record<Kind, Map<string, Block>>> = { text: new Map(), reasoning: new Map() };
  #blocks = 0;
  #firstReasoning: Block | undefined;
  #calls = 0;
  readonly #ids = new Set<string>();
  /** Whether a call had no name. */
  #hasUnnamedCall = false;
  /** Whether the answer has content besides reasoning: text, or parts that the kernel does not know. */
  #hasContent = false;
  #hasReasoning = false;
  #bytes = 0;
  #tags: ThinkTags | undefined;

  constructor(reading: Reading) {
    this.#reading = reading;
    if (reading.wire.thinkTags === true) this.#tags = new ThinkTags();
  }

  /** Handles a part of the stream; appends the resulting chunks to `chunks`. */
  read(part: StreamPart, chunks: ModelChunk[]): void {
    switch (part.type) {
      case "text-start":
      case "reasoning-start": {
        const kind = part.type === "text-start" ? "text" : "reasoning";
        // Some packages reuse ids: a start always begins a new part.
        this.#open[kind].delete(part.id ?? "");
        this.#grow(kind, part, "", chunks);
        break;
      }
      case "text-delta":
        if (this.#tags === undefined) this.#grow("text", part, part.delta ?? "", chunks);
        else {
          this.#addTagged(this.#tags.push(part.delta ?? ""), part, chunks);
          if (this.#tags.isOver) this.#tags = undefined;
        }
        break;
      case "reasoning-delta":
        // A stream that marks reasoning itself contains no think tags.
        this.#tags = undefined;
        this.#grow("reasoning", part, part.delta ?? "", chunks);
        break;
      case "text-end":
      case "reasoning-end": {
        const kind = part.type === "text-end" ? "text" : "reasoning";
        if (kind === "text") this.#addTagged(this.#tags?.end() ?? [], part, chunks);
        // Some signatures arrive with the end of a part.
        if (part.providerMetadata !== undefined) this.#grow(kind, part, "", chunks);
        this.#open[kind].delete(part.id ?? "");
        break;
      }
      case "tool-input-start":
        chunks.push({ type: "tool_input", text: "" });
        break;
      case "tool-input-delta": {
        const text = part.delta ?? "";
        this.#bytes += text.length;
        const last = lastOf(chunks);
        if (last?.type === "tool_input") last.text += text;
        else chunks.push({ type: "tool_input", text });
        break;
      }
      case "tool-call": {
        // Tools that run at the provider are not passed to the kernel.
        if (part.providerExecuted === true) {
          this.#hasContent = true;
          break;
        }
        this.#calls++;
        if (typeof part.toolName !== "string" || part.toolName.trim() === "") {
          this.#hasUnnamedCall = true;
          break;
        }
        const opaque = withoutEmptyMetadata(part.providerMetadata);
        chunks.push({
          type: "tool_call",
          id: this.#newId(part.toolCallId),
          name: part.toolName,
          arguments: argumentsText(part.input),
          ...(opaque === undefined ? {} : { opaque }),
        });
        break;
      }
      case "error":
        // A normal finish may follow a malformed chunk: the attempt has failed all the same.
        throw toProviderError(part.error, this.#reading);
      case "finish":
        this.finish = part;
        break;
      case "file":
      case "source":
      case "tool-result":
      case "other":
        this.#hasContent = true;
        break;
      default:
      // Metadata of the answer, raw chunks, and part types of later versions.
    }
  }

  /** The last chunks of the answer. Rejects with `ProviderError` if the answer is invalid. */
  async end(request: ModelRequest): Promise<ModelChunk[]> {
    const chunks: ModelChunk[] = [];
    const finish = this.finish!;
    const { reason, failed, raw, message } = readReason(finish.finishReason);
    const invalidAnswer = this.#findInvalidAnswer(reason, raw);
    if (invalidAnswer !== undefined) throw invalidAnswer.toError(this.#reading, message);
    if (failed) throw new ProviderError(this.#reading.provider, "server", "the model's answer ended with an error");
    const data = this.#reading.wire.answerData?.(finish.providerMetadata ?? {});
    if (data !== undefined) {
      const block = this.#firstReasoning?.name ?? `b${this.#blocks++}`;
      chunks.push({ type: "reasoning", block, text: "", opaque: data });
    }
    const reported = readUsage(finish.usage);
    chunks.push({
      type: "finish",
      // Some servers report `stop` after a tool call.
      reason: this.#calls > 0 && (reason === "stop" || reason === null) ? "tool_calls" : reason,
      usage:
        reported === undefined
          ? estimateUsage(request, this.#bytes)
          : await this.#reading.price({ ...reported, metadata: finish.providerMetadata ?? {} }),
    });
    return chunks;
  }

  /** Some models send no ids, or the same id for several calls. */
  #newId(providerId: string | undefined): string {
    const id = providerId === undefined || providerId === "" || this.#ids.has(providerId) ? freshId() : providerId;
    this.#ids.add(id);
    return id;
  }

  /** The fault of an answer that models mostly correct after a hint; undefined if there is none. */
  #findInvalidAnswer(reason: FinishReason, raw: unknown): InvalidAnswer | undefined {
    const named = typeof raw === "string" ? INVALID_FINISH_REASONS[raw] : undefined;
    if (named !== undefined) return named;
    if (this.#hasUnnamedCall) return UNNAMED_CALL;
    // A retry of a truncated or filtered answer would give the same result.
    if (this.#calls > 0 || reason === "length" || reason === "content_filter") return undefined;
    if (reason === "tool_calls") return MISSING_CALL;
    if (this.#hasContent) return undefined;
    return this.#hasReasoning ? REASONING_ONLY : EMPTY_ANSWER;
  }

  #addTagged(pieces: readonly TaggedText[], part: StreamPart, chunks: ModelChunk[]): void {
    for (const { kind, text } of pieces)
      this.#grow(kind, kind === "text" ? part : { type: "reasoning-delta", id: "think" }, text, chunks);
  }

  #grow(kind: Kind, part: StreamPart, text: string, chunks: ModelChunk[]): void {
    const open = this.#open[kind];
    const id = part.id ?? "";
    let block = open.get(id);
    let hasNewData = false;
    if (block === undefined) {
      const mark = kind === "reasoning" ? this.#reading.mark : undefined;
      const opaque = mark && ({ ...mark } as Record<string, Record<string, unknown>>);
      // The mark is emitted with the first text.
      block = { kind, name: `b${this.#blocks++}`, opaque, isChanged: mark !== undefined };
      open.set(id, block);
      if (kind === "reasoning") this.#firstReasoning ??= block;
    }
    for (const [provider, fields] of part.providerMetadata === undefined ? [] : Object.entries(part.providerMetadata)) {
      for (const [name, value] of Object.entries(fields ?? {})) {
        // Some packages repeat the same value with every delta.
        if (value === undefined || value === null || block.opaque?.[provider]?.[name] === value) continue;
        // Create a new object: emitted ones belong to the kernel.
        block.opaque = { ...block.opaque, [provider]: { ...block.opaque?.[provider], [name]: value } };
        block.isChanged = true;
        hasNewData = true;
      }
    }
    if (text === "" && !hasNewData) return;
    if (kind === "reasoning") this.#hasReasoning = true;
    else this.#hasContent ||= text.trim() !== "";
    this.#bytes += Buffer.byteLength(text);
    const last = lastOf(chunks);
    const { isChanged } = block;
    block.isChanged = false;
    const joins = !isChanged && last?.type === kind && last.block === block.name && last.opaque === undefined;
    if (joins) last.text += text;
    else chunks.push({ type: kind, block: block.name, text, ...(isChanged ? { opaque: block.opaque } : {}) });
  }
}

/** The chunk to which the next piece of the same kind is joined; undefined: emit it separately. */
function lastOf(chunks: readonly ModelChunk[]): ModelChunk | undefined {
  return chunks.length < MAX_SEPARATE_CHUNKS ? undefined : chunks.at(-1);
}

function freshId(): string {
  return `call_${randomUUID().replaceAll("-", "").slice(0, 24)}`;
}

function withoutEmptyMetadata(metadata: Metadata | undefined): Metadata | undefined {
  const entries = Object.entries(metadata ?? {}).filter(([, fields]) =>
    Object.values(fields ?? {}).some((value) => value !== undefined && value !== null),
  );
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/** JSON text as the model wrote it; `{}` for a call without arguments. */
function argumentsText(input: unknown): string {
  if (typeof input === "string") return input.trim() === "" ? "{}" : input;
  return JSON.stringify(input ?? {});
}
