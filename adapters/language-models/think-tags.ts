/** A piece of an answer, as text or reasoning. */
export interface TaggedText {
  kind: "text" | "reasoning";
  text: string;
}

const OPEN = "<think>";
const CLOSE = "</think>";

/**
 * Separates reasoning from an answer that begins with `<think>`, as local servers send it for models with an unknown
 * format. Later tags are part of the answer.
 */
export class ThinkTags {
  #state: "start" | "thinking" | "behind" | "text" = "start";
  /** Text that may be the beginning of a tag. */
  #possibleTag = "";

  /** Whether everything from now on is the answer. */
  get isOver(): boolean {
    return this.#state === "text";
  }

  push(piece: string): TaggedText[] {
    if (this.#state === "text") return piece === "" ? [] : [{ kind: "text", text: piece }];
    let remainingText = this.#possibleTag + piece;
    this.#possibleTag = "";
    const pieces: TaggedText[] = [];
    if (this.#state === "start") {
      const begun = remainingText.trimStart();
      if (begun.length < OPEN.length && OPEN.startsWith(begun)) {
        this.#possibleTag = remainingText;
        return [];
      }
      if (!begun.startsWith(OPEN)) {
        this.#state = "text";
        return [{ kind: "text", text: remainingText }];
      }
      remainingText = begun.slice(OPEN.length);
      this.#state = "thinking";
    }
    if (this.#state === "thinking") {
      const end = remainingText.indexOf(CLOSE);
      if (end === -1) {
        const keep = possibleTagLength(remainingText);
        this.#possibleTag = remainingText.slice(remainingText.length - keep);
        return toReasoning(remainingText.slice(0, remainingText.length - keep));
      }
      pieces.push(...toReasoning(remainingText.slice(0, end)));
      remainingText = remainingText.slice(end + CLOSE.length);
      this.#state = "behind";
    }
    // Empty lines between reasoning and answer are dropped.
    const text = remainingText.trimStart();
    if (text === "") return pieces;
    this.#state = "text";
    return [...pieces, { kind: "text", text }];
  }

  /** Returns the held text at the end of the answer. */
  end(): TaggedText[] {
    const held = this.#possibleTag;
    this.#possibleTag = "";
    if (held === "") return [];
    return [{ kind: this.#state === "thinking" ? "reasoning" : "text", text: held }];
  }
}

function toReasoning(text: string): TaggedText[] {
  return text === "" ? [] : [{ kind: "reasoning", text }];
}

/** Number of characters at the end that may begin the closing tag. */
function possibleTagLength(text: string): number {
  for (let length = Math.min(CLOSE.length - 1, text.length); length > 0; length--) {
    if (CLOSE.startsWith(text.slice(text.length - length))) return length;
  }
  return 0;
}
