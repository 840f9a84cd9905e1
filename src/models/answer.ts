import { newId } from "../base/ids.js";
import { ProviderError } from "../ports/errors.js";
import type { Part, ReasoningPart, TextPart, ToolCallPart } from "../ports/message.js";
import type { FinishReason, ModelChunk, ModelUsage } from "../ports/model-provider.js";

/** A model's answer, complete or partial. */
export interface Answer {
  parts: Part[];
  reason: FinishReason;
  usage: ModelUsage;
}

/** Called for received text or reasoning. `partIndex` is the index of the part in the answer. */
export type OnText = (type: "text" | "reasoning", partIndex: number, text: string) => void;

/** A part that receives text. */
interface Block {
  readonly name: string;
  /** Index of the part in the answer. */
  readonly index: number;
  readonly part: TextPart | ReasoningPart;
  /**
   * Joined once at the end. Appending to a string 20,000 times and reading the string each time takes quadratic time.
   */
  readonly pieces: string[];
}

/** Collects the parts of an answer while it arrives. */
export class AnswerAccumulator {
  readonly #provider: string;
  readonly #model: string;
  readonly #onText: OnText | undefined;
  readonly #limits: AnswerLimits;
  readonly #parts: Part[] = [];
  /** Blocks by type and name. */
  readonly #blocks = new Map<string, Block>();
  /** The block that received the last piece, and usually receives the next piece. */
  #lastBlock: Block | undefined;
  #finishChunk: Extract<ModelChunk, { type: "finish" }> | undefined;
  /** Whether any chunk has arrived, visible or not. */
  hasStarted = false;

  constructor(provider: string, model: string, onText: OnText | undefined) {
    this.#provider = provider;
    this.#model = model;
    this.#onText = onText;
    this.#limits = new AnswerLimits(provider);
  }

  get isFinished(): boolean {
    return this.#finishChunk !== undefined;
  }

  /** Adds a chunk. Throws `ProviderError` if the answer has ended or is too large. */
  addChunk(chunk: ModelChunk): void {
    if (this.#finishChunk) throw new ProviderError(this.#provider, "protocol", "the answer continued after its end");
    this.#limits.countChunk(chunk);
    this.hasStarted = true;
    switch (chunk.type) {
      case "text":
      case "reasoning":
        this.#addText(chunk);
        break;
      case "tool_call": {
        const call: ToolCallPart = { type: "tool_call", id: chunk.id, name: chunk.name, arguments: chunk.arguments };
        if (chunk.opaque !== undefined) call.opaque = this.#toOpaque(chunk.opaque);
        this.#parts.push(call);
        break;
      }
      case "finish":
        this.#finishChunk = chunk;
        break;
      case "tool_input":
        break;
    }
  }

  /** Returns the complete answer. Throws `ProviderError` if no `finish` chunk was added. */
  buildAnswer(): Answer {
    if (!this.#finishChunk) throw new ProviderError(this.#provider, "protocol", "the answer ended without a finish");
    return { parts: this.#joinParts(), reason: this.#finishChunk.reason, usage: this.#finishChunk.usage };
  }

  /** Returns the text and reasoning added until now. */
  joinVisibleParts(): Part[] {
    return toVisibleParts(this.#joinParts());
  }

  #addText(chunk: Extract<ModelChunk, { type: "text" | "reasoning" }>): void {
    const lastBlock = this.#lastBlock;
    const block =
      lastBlock?.part.type === chunk.type && lastBlock.name === chunk.block
        ? lastBlock
        : this.#findOrCreateBlock(chunk);
    this.#lastBlock = block;
    if (chunk.opaque !== undefined) block.part.opaque = this.#toOpaque(chunk.opaque);
    if (chunk.text === "") return;
    block.pieces.push(chunk.text);
    this.#onText?.(chunk.type, block.index, chunk.text);
  }

  #findOrCreateBlock({ type, block: name }: Extract<ModelChunk, { type: "text" | "reasoning" }>): Block {
    const key = `${type}:${name}`;
    const existingBlock = this.#blocks.get(key);
    if (existingBlock) return existingBlock;
    const part: TextPart | ReasoningPart = { type, text: "" };
    // Reasoning belongs to the pair of provider and model that created it, with or without a signature.
    if (type === "reasoning") part.opaque = this.#toOpaque(null);
    const block = { name, index: this.#parts.length, part, pieces: [] };
    this.#blocks.set(key, block);
    this.#limits.countBlock();
    this.#parts.push(part);
    return block;
  }

  #toOpaque(data: unknown) {
    return { provider: this.#provider, model: this.#model, data };
  }

  #joinParts(): Part[] {
    for (const block of this.#blocks.values()) block.part.text = block.pieces.join("");
    return this.#parts.filter((part) => !(part.type === "text" && part.text === "" && part.opaque === undefined));
  }
}

/** Maximum size of one model answer, far beyond any real one. */
const ANSWER_LIMITS = {
  /** Characters of text, reasoning and calls together. */
  characters: 4_000_000,
  /** Tool calls. Each would be executed. */
  calls: 128,
  /** Blocks of text and reasoning. */
  blocks: 1_000,
};

/** Counts an answer while it arrives, from any provider. An endless answer would fill the memory and the store. */
class AnswerLimits {
  readonly #provider: string;
  #blockCount = 0;
  #textCharacters = 0;
  /** Characters of arguments: streamed, and in complete calls. Both are the same text if a provider sends both. */
  #streamedArgumentCharacters = 0;
  #callArgumentCharacters = 0;
  #callCount = 0;

  constructor(provider: string) {
    this.#provider = provider;
  }

  /** Counts a chunk. Throws `ProviderError` of kind `too_large`, which a retry cannot fix. */
  countChunk(chunk: ModelChunk): void {
    switch (chunk.type) {
      case "text":
      case "reasoning":
        this.#textCharacters += chunk.text.length;
        break;
      case "tool_input":
        this.#streamedArgumentCharacters += chunk.text.length;
        break;
      case "tool_call":
        this.#callArgumentCharacters += chunk.arguments.length;
        this.#textCharacters += chunk.name.length + chunk.id.length;
        this.#callCount += 1;
        break;
      case "finish":
        break;
    }
    const { characters, calls } = ANSWER_LIMITS;
    if (this.#textCharacters + Math.max(this.#streamedArgumentCharacters, this.#callArgumentCharacters) > characters)
      this.#throwTooLarge(characters, "characters");
    if (this.#callCount > calls) this.#throwTooLarge(calls, "tool calls");
  }

  /** Counts a new block of text or reasoning. Throws the same error as `countChunk`. */
  countBlock(): void {
    this.#blockCount += 1;
    if (this.#blockCount > ANSWER_LIMITS.blocks)
      this.#throwTooLarge(ANSWER_LIMITS.blocks, "blocks of text and reasoning");
  }

  #throwTooLarge(limit: number, unit: string): never {
    throw new ProviderError(
      this.#provider,
      "too_large",
      `an answer of more than ${limit.toLocaleString("en")} ${unit}`,
    );
  }
}

/** Visible parts of an answer: text and reasoning, without signed data. No provider accepts incomplete signed data. */
export function toVisibleParts(parts: readonly Part[]): Part[] {
  return parts.flatMap((part): Part[] =>
    (part.type === "text" || part.type === "reasoning") && part.text !== ""
      ? [{ type: part.type, text: part.text }]
      : [],
  );
}

/** Makes call ids unique within a session. Models repeat ids, and some send none. */
export function makeCallIdsUnique(parts: readonly Part[], usedIds: Set<string>): Part[] {
  return parts.map((part) => {
    if (part.type !== "tool_call") return part;
    let { id } = part;
    if (id === "" || usedIds.has(id)) id = `call_${newId().replaceAll("-", "")}`;
    usedIds.add(id);
    return id === part.id ? part : { ...part, id };
  });
}
