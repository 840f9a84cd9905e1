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
  REASONING_ONLY_ANSWER,
  type InvalidAnswer,
} from "./invalid-answers.js";
import { ThinkTags, type TaggedText } from "./think-tags.js";
import { estimateUsage, readReason, readUsage, type ReportedUsage } from "./usage.js";
import type { Wire } from "./wires/wire.js";

/** Data of the wire and the provider for reading an answer. */
export interface AnswerContext extends FaultContext {
  readonly wire: Pick<Wire, "mayUseThinkTags" | "readAnswerData">;
  /** Opaque data that is added to each reasoning part. */
  readonly reasoningMark: Metadata | undefined;
  /** Adds the cost to the reported usage. */
  addCost(reportedUsage: ReportedUsage): Promise<ModelUsage>;
}

type TextKind = "text" | "reasoning";

/** Maximum number of separate chunks of one read. Joining the further chunks saves work in each later step. */
const MAX_SEPARATE_CHUNKS = 8;

interface Block {
  readonly kind: TextKind;
  readonly name: string;
  opaque: Record<string, Record<string, unknown>> | undefined;
  /** Whether `opaque` has changed since it was last emitted. */
  isChanged: boolean;
}

/** Converts the stream parts of one answer to chunks, and rejects an invalid answer at its end. */
export class AnswerBuilder {
  /** The `finish` part; undefined until it arrives. */
  finishPart: StreamPart | undefined;
  readonly #context: AnswerContext;
  readonly #openBlocks: Readonly<Record<TextKind, Map<string, Block>>> = { text: new Map(), reasoning: new Map() };
  #blockCount = 0;
  #firstReasoning: Block | undefined;
  #callCount = 0;
  readonly #callIds = new Set<string>();
  /** Whether a call had no name. */
  #hasUnnamedCall = false;
  /** Whether the answer has content besides reasoning: text, or parts that the kernel does not know. */
  #hasContent = false;
  #hasReasoning = false;
  #outputBytes = 0;
  #thinkTags: ThinkTags | undefined;

  constructor(context: AnswerContext) {
    this.#context = context;
    if (context.wire.mayUseThinkTags === true) this.#thinkTags = new ThinkTags();
  }

  /** Appends the chunks of a part to `chunks`. Throws `ProviderError` for an error part. */
  read(part: StreamPart, chunks: ModelChunk[]): void {
    switch (part.type) {
      case "text-start":
      case "reasoning-start": {
        const kind = part.type === "text-start" ? "text" : "reasoning";
        // Some packages reuse ids: a start always begins a new part.
        this.#openBlocks[kind].delete(part.id ?? "");
        this.#addText(kind, part, "", chunks);
        break;
      }
      case "text-delta":
        if (this.#thinkTags === undefined) this.#addText("text", part, part.delta ?? "", chunks);
        else {
          this.#addTaggedText(this.#thinkTags.push(part.delta ?? ""), part, chunks);
          if (this.#thinkTags.isOver) this.#thinkTags = undefined;
        }
        break;
      case "reasoning-delta":
        // A stream that marks reasoning itself contains no think tags.
        this.#thinkTags = undefined;
        this.#addText("reasoning", part, part.delta ?? "", chunks);
        break;
      case "text-end":
      case "reasoning-end": {
        const kind = part.type === "text-end" ? "text" : "reasoning";
        if (kind === "text") this.#addTaggedText(this.#thinkTags?.end() ?? [], part, chunks);
        // Some signatures arrive with the end of a part.
        if (part.providerMetadata !== undefined) this.#addText(kind, part, "", chunks);
        this.#openBlocks[kind].delete(part.id ?? "");
        break;
      }
      case "tool-input-start":
        chunks.push({ type: "tool_input", text: "" });
        break;
      case "tool-input-delta":
        this.#addCallInput(part.delta ?? "", chunks);
        break;
      case "tool-call":
        // Tools that run at the provider are not passed to the kernel.
        if (part.providerExecuted === true) this.#hasContent = true;
        else this.#addCall(part, chunks);
        break;
      case "error":
        // The attempt has failed, even if a normal finish follows the malformed chunk.
        throw toProviderError(part.error, this.#context);
      case "finish":
        this.finishPart = part;
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

  /**
   * The last chunks of the answer; requires the `finish` part. Rejects with `ProviderError` if the answer is invalid.
   */
  async end(request: ModelRequest): Promise<ModelChunk[]> {
    const chunks: ModelChunk[] = [];
    const finish = this.finishPart!;
    const { reason, hasFailed, raw, message } = readReason(finish.finishReason);
    const invalidAnswer = this.#findInvalidAnswer(reason, raw);
    if (invalidAnswer !== undefined) throw invalidAnswer.toError(this.#context, message);
    if (hasFailed) throw new ProviderError(this.#context.provider, "server", "the model's answer ended with an error");
    const data = this.#context.wire.readAnswerData?.(finish.providerMetadata ?? {});
    if (data !== undefined) {
      const block = this.#firstReasoning?.name ?? `b${this.#blockCount++}`;
      chunks.push({ type: "reasoning", block, text: "", opaque: data });
    }
    const reported = readUsage(finish.usage);
    chunks.push({
      type: "finish",
      // Some servers report `stop` after a tool call.
      reason: this.#callCount > 0 && (reason === "stop" || reason === null) ? "tool_calls" : reason,
      usage:
        reported === undefined
          ? estimateUsage(request, this.#outputBytes)
          : await this.#context.addCost({ ...reported, metadata: finish.providerMetadata ?? {} }),
    });
    return chunks;
  }

  #addCallInput(text: string, chunks: ModelChunk[]): void {
    this.#outputBytes += text.length;
    const joinableChunk = findJoinableChunk(chunks);
    if (joinableChunk?.type === "tool_input") joinableChunk.text += text;
    else chunks.push({ type: "tool_input", text });
  }

  #addCall({ toolCallId, toolName, input, providerMetadata }: StreamPart, chunks: ModelChunk[]): void {
    this.#callCount++;
    if (typeof toolName !== "string" || toolName.trim() === "") {
      this.#hasUnnamedCall = true;
      return;
    }
    const opaque = removeEmptyMetadata(providerMetadata);
    chunks.push({
      type: "tool_call",
      id: this.#createCallId(toolCallId),
      name: toolName,
      arguments: toArgumentsText(input),
      ...(opaque === undefined ? {} : { opaque }),
    });
  }

  /** A unique call id. Some models send no ids, or the same id for several calls. */
  #createCallId(providerId: string | undefined): string {
    const id =
      providerId === undefined || providerId === "" || this.#callIds.has(providerId)
        ? createRandomCallId()
        : providerId;
    this.#callIds.add(id);
    return id;
  }

  /** A fault that models mostly correct after a hint; undefined if the answer has no such fault. */
  #findInvalidAnswer(reason: FinishReason, raw: unknown): InvalidAnswer | undefined {
    const invalidAnswer = typeof raw === "string" ? INVALID_FINISH_REASONS[raw] : undefined;
    if (invalidAnswer !== undefined) return invalidAnswer;
    if (this.#hasUnnamedCall) return UNNAMED_CALL;
    // A retry of a truncated or filtered answer would give the same result.
    if (this.#callCount > 0 || reason === "length" || reason === "content_filter") return undefined;
    if (reason === "tool_calls") return MISSING_CALL;
    if (this.#hasContent) return undefined;
    return this.#hasReasoning ? REASONING_ONLY_ANSWER : EMPTY_ANSWER;
  }

  #addTaggedText(pieces: readonly TaggedText[], part: StreamPart, chunks: ModelChunk[]): void {
    for (const { kind, text } of pieces)
      this.#addText(kind, kind === "text" ? part : { type: "reasoning-delta", id: "think" }, text, chunks);
  }

  #addText(kind: TextKind, part: StreamPart, text: string, chunks: ModelChunk[]): void {
    const blocks = this.#openBlocks[kind];
    const id = part.id ?? "";
    let block = blocks.get(id);
    let hasNewData = false;
    if (block === undefined) {
      const mark = kind === "reasoning" ? this.#context.reasoningMark : undefined;
      const opaque = mark && ({ ...mark } as Record<string, Record<string, unknown>>);
      // The mark is emitted with the first text.
      block = { kind, name: `b${this.#blockCount++}`, opaque, isChanged: mark !== undefined };
      blocks.set(id, block);
      if (kind === "reasoning") this.#firstReasoning ??= block;
    }
    for (const [provider, fields] of part.providerMetadata === undefined ? [] : Object.entries(part.providerMetadata)) {
      for (const [name, value] of Object.entries(fields ?? {})) {
        // Some packages repeat the same value with every delta.
        if (value === undefined || value === null || block.opaque?.[provider]?.[name] === value) continue;
        // Create a new object: an emitted object belongs to the kernel.
        block.opaque = { ...block.opaque, [provider]: { ...block.opaque?.[provider], [name]: value } };
        block.isChanged = true;
        hasNewData = true;
      }
    }
    if (text === "" && !hasNewData) return;
    if (kind === "reasoning") this.#hasReasoning = true;
    else this.#hasContent ||= text.trim() !== "";
    this.#outputBytes += Buffer.byteLength(text);
    const joinableChunk = findJoinableChunk(chunks);
    const { isChanged } = block;
    block.isChanged = false;
    const canJoin =
      !isChanged &&
      joinableChunk?.type === kind &&
      joinableChunk.block === block.name &&
      joinableChunk.opaque === undefined;
    if (canJoin) joinableChunk.text += text;
    else chunks.push({ type: kind, block: block.name, text, ...(isChanged ? { opaque: block.opaque } : {}) });
  }
}

/** The last chunk, to which text of the same kind is joined. Undefined while separate chunks are still allowed. */
function findJoinableChunk(chunks: readonly ModelChunk[]): ModelChunk | undefined {
  return chunks.length < MAX_SEPARATE_CHUNKS ? undefined : chunks.at(-1);
}

function createRandomCallId(): string {
  // 24 hexadecimal digits, so that the id fits the 40 characters of `messages.ts`.
  return `call_${randomUUID().replaceAll("-", "").slice(0, 24)}`;
}

function removeEmptyMetadata(metadata: Metadata | undefined): Metadata | undefined {
  const entries = Object.entries(metadata ?? {}).filter(([, fields]) =>
    Object.values(fields ?? {}).some((value) => value !== undefined && value !== null),
  );
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/** Arguments as JSON text: text stays as the model wrote it. `{}` for a call without arguments. */
function toArgumentsText(input: unknown): string {
  if (typeof input === "string") return input.trim() === "" ? "{}" : input;
  return JSON.stringify(input ?? {});
}
