import { AnswerLimits } from "./answer-limits.js";
import { newId } from "../base/ids.js";
import { ProviderError } from "../ports/errors.js";
import type { Part, ReasoningPart, TextPart, ToolCallPart } from "../ports/message.js";
import type { FinishReason, ModelChunk, ModelUsage } from "../ports/model-provider.js";

/** What a model answered, whole or as far as it came. */
export interface Answer {
  parts: Part[];
  reason: FinishReason;
  usage: ModelUsage;
}

/** Text or reasoning that came; `part` is its place in the answer. */
export type OnText = (type: "text" | "reasoning", part: number, text: string) => void;

/** A part that grows. */
interface Block {
  readonly name: string;
  /** Its place in the answer. */
  readonly index: number;
  readonly part: TextPart | ReasoningPart;
  /** Joined once, since adding to a string 20,000 times and reading it each time is quadratic. */
  readonly pieces: string[];
}

/** The parts of an answer as they come. */
export class Gathering {
  readonly #provider: string;
  readonly #model: string;
  readonly #onText: OnText | undefined;
  readonly #limits: AnswerLimits;
  readonly #parts: Part[] = [];
  /** By type and name. */
  readonly #blocks = new Map<string, Block>();
  /** The one that grew last: the next piece is most often its own. */
  #growing: Block | undefined;
  #finish: Extract<ModelChunk, { type: "finish" }> | undefined;
  /** Whether anything of the answer came, told or not. */
  begun = false;

  constructor(provider: string, model: string, onText: OnText | undefined) {
    this.#provider = provider;
    this.#model = model;
    this.#onText = onText;
    this.#limits = new AnswerLimits(provider);
  }

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  take(chunk: ModelChunk): void {
    if (this.#finish) throw new ProviderError(this.#provider, "protocol", "the answer went on after its end");
    this.#limits.take(chunk);
    this.begun = true;
    switch (chunk.type) {
      case "text":
      case "reasoning":
        this.#takeText(chunk);
        break;
      case "tool_call": {
        const call: ToolCallPart = { type: "tool_call", id: chunk.id, name: chunk.name, arguments: chunk.arguments };
        if (chunk.opaque !== undefined) call.opaque = this.#opaque(chunk.opaque);
        this.#parts.push(call);
        break;
      }
      case "finish":
        this.#finish = chunk;
        break;
      case "tool_input":
        break;
    }
  }

  whole(): Answer {
    if (!this.#finish) throw new ProviderError(this.#provider, "protocol", "the answer ended without a finish");
    return { parts: this.#joined(), reason: this.#finish.reason, usage: this.#finish.usage };
  }

  told(): Part[] {
    return toldOf(this.#joined());
  }

  #takeText(chunk: Extract<ModelChunk, { type: "text" | "reasoning" }>): void {
    const last = this.#growing;
    const block = last?.part.type === chunk.type && last.name === chunk.block ? last : this.#block(chunk);
    this.#growing = block;
    if (chunk.opaque !== undefined) block.part.opaque = this.#opaque(chunk.opaque);
    if (chunk.text === "") return;
    block.pieces.push(chunk.text);
    this.#onText?.(chunk.type, block.index, chunk.text);
  }

  #block({ type, block: name }: Extract<ModelChunk, { type: "text" | "reasoning" }>): Block {
    const key = `${type}:${name}`;
    const known = this.#blocks.get(key);
    if (known) return known;
    const part: TextPart | ReasoningPart = { type, text: "" };
    // Reasoning is bound to the pair that made it, with or without a signature.
    if (type === "reasoning") part.opaque = this.#opaque(null);
    const block = { name, index: this.#parts.length, part, pieces: [] };
    this.#blocks.set(key, block);
    this.#limits.block();
    this.#parts.push(part);
    return block;
  }

  #opaque(data: unknown) {
    return { provider: this.#provider, model: this.#model, data };
  }

  #joined(): Part[] {
    for (const block of this.#blocks.values()) block.part.text = block.pieces.join("");
    return this.#parts.filter((part) => !(part.type === "text" && part.text === "" && part.opaque === undefined));
  }
}

/** What of an answer was told: text and reasoning, without what a provider signed; half of it nobody takes back. */
export function toldOf(parts: readonly Part[]): Part[] {
  return parts.flatMap((part): Part[] =>
    (part.type === "text" || part.type === "reasoning") && part.text !== ""
      ? [{ type: part.type, text: part.text }]
      : [],
  );
}

/** Call ids made unique within a session: models repeat themselves, and some give none. */
export function uniqueCalls(parts: readonly Part[], used: Set<string>): Part[] {
  return parts.map((part) => {
    if (part.type !== "tool_call") return part;
    let { id } = part;
    if (id === "" || used.has(id)) id = `call_${newId().replaceAll("-", "")}`;
    used.add(id);
    return id === part.id ? part : { ...part, id };
  });
}
