import { randomUUID } from "node:crypto";
import { ProviderError } from "gantry";
import type { FinishReason, ModelChunk, ModelRequest, ModelUsage } from "gantry/plugin";
import { toProviderError, type FaultContext } from "./errors.js";
import type { Metadata, StreamPart } from "./language-model.js";
import {
  EMPTY_ANSWER,
  UNNAMED_CALL,
  MISSING_CALL,
  SLIPS,
  REASONING_ONLY,
  type InvalidAnswer,
} from "./invalid-answers.js";
import { ThinkTags, type Told } from "./think-tags.js";
import { estimateUsage, readReason, readUsage, type ReportedUsage } from "./usage.js";
import type { Wire } from "./wires/wire.js";

export interface Reading extends FaultContext {
  readonly wire: Pick<Wire, "thinkTags" | "answerData">;
  /** Opaque data that each reasoning part gets. */
  readonly mark: Metadata | undefined;
  /** Fill in the cost. */
  price(reported: ReportedUsage): Promise<ModelUsage>;
}

type Kind = "text" | "reasoning";

/** So many chunks of one read are told apart. What a burst brings beyond is joined, so that it costs little all the way to a client. */
const APART = 8;

interface Block {
  readonly kind: Kind;
  readonly name: string;
  opaque: Record<string, Record<string, unknown>> | undefined;
  /** Whether `opaque` has changed since it was last reported. */
  isChanged: boolean;
}

export class Answer {
  finish: StreamPart | undefined;
  readonly #reading: Reading;
  readonly #open: Readonly<Record<Kind, Map<string, Block>>> = { text: new Map(), reasoning: new Map() };
  #blocks = 0;
  #firstReasoning: Block | undefined;
  #calls = 0;
  readonly #ids = new Set<string>();
  /** Whether a call had no name. */
  #nameless = false;
  /** Whether anything was said beside thoughts: words, or what the kernel does not know. */
  #said = false;
  #thought = false;
  #bytes = 0;
  #tags: ThinkTags | undefined;

  constructor(reading: Reading) {
    this.#reading = reading;
    if (reading.wire.thinkTags === true) this.#tags = new ThinkTags();
  }

  /** Take a part; what it tells is added to `chunks`. */
  read(part: StreamPart, chunks: ModelChunk[]): void {
    switch (part.type) {
      case "text-start":
      case "reasoning-start": {
        const kind = part.type === "text-start" ? "text" : "reasoning";
        // Ids are used again by some packages: a start is always a new part.
        this.#open[kind].delete(part.id ?? "");
        this.#grow(kind, part, "", chunks);
        break;
      }
      case "text-delta":
        if (this.#tags === undefined) this.#grow("text", part, part.delta ?? "", chunks);
        else {
          this.#told(this.#tags.push(part.delta ?? ""), part, chunks);
          if (this.#tags.over) this.#tags = undefined;
        }
        break;
      case "reasoning-delta":
        // Who tells thoughts apart needs no help.
        this.#tags = undefined;
        this.#grow("reasoning", part, part.delta ?? "", chunks);
        break;
      case "text-end":
      case "reasoning-end": {
        const kind = part.type === "text-end" ? "text" : "reasoning";
        if (kind === "text") this.#told(this.#tags?.end() ?? [], part, chunks);
        // Signatures come with the end.
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
        // Tools that run at the provider are no business of the kernel.
        if (part.providerExecuted === true) {
          this.#said = true;
          break;
        }
        this.#calls++;
        if (typeof part.toolName !== "string" || part.toolName.trim() === "") {
          this.#nameless = true;
          break;
        }
        const opaque = filled(part.providerMetadata);
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
        // A malformed chunk is followed by a finish that looks well: the attempt has failed all the same.
        throw toProviderError(part.error, this.#reading);
      case "finish":
        this.finish = part;
        break;
      case "file":
      case "source":
      case "tool-result":
      case "other":
        this.#said = true;
        break;
      default:
      // Metadata of the answer, raw chunks, and what later versions bring.
    }
  }

  /** What is told at its end. Rejects with `ProviderError` where the answer is none. */
  async end(request: ModelRequest): Promise<ModelChunk[]> {
    const chunks: ModelChunk[] = [];
    const finish = this.finish!;
    const { reason, failed, raw, message } = readReason(finish.finishReason);
    const slip = this.#slip(reason, raw);
    if (slip !== undefined) throw slip.toError(this.#reading, message);
    if (failed) throw new ProviderError(this.#reading.provider, "server", "the model's answer ended with an error");
    const data = this.#reading.wire.answerData?.(finish.providerMetadata ?? {});
    if (data !== undefined) {
      const block = this.#firstReasoning?.name ?? `b${this.#blocks++}`;
      chunks.push({ type: "reasoning", block, text: "", opaque: data });
    }
    const reported = readUsage(finish.usage);
    chunks.push({
      type: "finish",
      // Some servers say `stop` behind a tool call.
      reason: this.#calls > 0 && (reason === "stop" || reason === null) ? "tool_calls" : reason,
      usage:
        reported === undefined
          ? estimateUsage(request, this.#bytes)
          : await this.#reading.price({ ...reported, metadata: finish.providerMetadata ?? {} }),
    });
    return chunks;
  }

  /** Some models give no ids, or one to several calls. */
  #newId(told: string | undefined): string {
    const id = told === undefined || told === "" || this.#ids.has(told) ? freshId() : told;
    this.#ids.add(id);
    return id;
  }

  /** What was wrong with an answer that a model mostly does better when it is told. */
  #slip(reason: FinishReason, raw: unknown): InvalidAnswer | undefined {
    const named = typeof raw === "string" ? SLIPS[raw] : undefined;
    if (named !== undefined) return named;
    if (this.#nameless) return UNNAMED_CALL;
    // Cut off or filtered: asked again it would be the same.
    if (this.#calls > 0 || reason === "length" || reason === "content_filter") return undefined;
    if (reason === "tool_calls") return MISSING_CALL;
    if (this.#said) return undefined;
    return this.#thought ? REASONING_ONLY : EMPTY_ANSWER;
  }

  #told(told: readonly Told[], part: StreamPart, chunks: ModelChunk[]): void {
    for (const { kind, text } of told)
      this.#grow(kind, kind === "text" ? part : { type: "reasoning-delta", id: "think" }, text, chunks);
  }

  #grow(kind: Kind, part: StreamPart, text: string, chunks: ModelChunk[]): void {
    const open = this.#open[kind];
    const id = part.id ?? "";
    let block = open.get(id);
    let isNews = false;
    if (block === undefined) {
      const mark = kind === "reasoning" ? this.#reading.mark : undefined;
      const opaque = mark && ({ ...mark } as Record<string, Record<string, unknown>>);
      // The mark goes with the first text.
      block = { kind, name: `b${this.#blocks++}`, opaque, isChanged: mark !== undefined };
      open.set(id, block);
      if (kind === "reasoning") this.#firstReasoning ??= block;
    }
    for (const [provider, fields] of part.providerMetadata === undefined ? [] : Object.entries(part.providerMetadata)) {
      for (const [name, value] of Object.entries(fields ?? {})) {
        // Some packages say the same with every delta.
        if (value === undefined || value === null || block.opaque?.[provider]?.[name] === value) continue;
        // A new object each time: what was emitted belongs to the kernel.
        block.opaque = { ...block.opaque, [provider]: { ...block.opaque?.[provider], [name]: value } };
        block.isChanged = true;
        isNews = true;
      }
    }
    if (text === "" && !isNews) return;
    if (kind === "reasoning") this.#thought = true;
    else this.#said ||= text.trim() !== "";
    this.#bytes += Buffer.byteLength(text);
    const last = lastOf(chunks);
    const { isChanged } = block;
    block.isChanged = false;
    const joins = !isChanged && last?.type === kind && last.block === block.name && last.opaque === undefined;
    if (joins) last.text += text;
    else chunks.push({ type: kind, block: block.name, text, ...(isChanged ? { opaque: block.opaque } : {}) });
  }
}

/** The chunk that the next piece of the same kind is joined to; undefined: it stands alone. */
function lastOf(chunks: readonly ModelChunk[]): ModelChunk | undefined {
  return chunks.length < APART ? undefined : chunks.at(-1);
}

function freshId(): string {
  return `call_${randomUUID().replaceAll("-", "").slice(0, 24)}`;
}

function filled(metadata: Metadata | undefined): Metadata | undefined {
  const kept = Object.entries(metadata ?? {}).filter(([, fields]) =>
    Object.values(fields ?? {}).some((value) => value !== undefined && value !== null),
  );
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

/** JSON text as the model gave it; models that call without arguments give an empty one. */
function argumentsText(input: unknown): string {
  if (typeof input === "string") return input.trim() === "" ? "{}" : input;
  return JSON.stringify(input ?? {});
}
