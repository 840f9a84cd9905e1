/** A piece of an answer, as text or reasoning. */
export interface TaggedText {
  kind: "text" | "reasoning";
  text: string;
}

const OPEN_TAG = "<think>";
const CLOSE_TAG = "</think>";

/**
 * Separates reasoning from an answer that begins with `<think>`, as local servers send it for models with an unknown
 * format. Later tags are part of the answer.
 */
export class ThinkTags {
  /** `separator`: the white space after the closing tag. */
  #state: "start" | "thinking" | "separator" | "text" = "start";
  /** Text that may be the beginning of a tag. */
  #possibleTag = "";

  /** Whether the remaining text contains no more reasoning. */
  get isOver(): boolean {
    return this.#state === "text";
  }

  /** Returns the parts of the text that are certain, and holds back a possible tag. */
  push(piece: string): TaggedText[] {
    if (this.#state === "text") return piece === "" ? [] : [{ kind: "text", text: piece }];
    let remainingText = this.#possibleTag + piece;
    this.#possibleTag = "";
    const pieces: TaggedText[] = [];
    if (this.#state === "start") {
      const trimmedText = remainingText.trimStart();
      if (trimmedText.length < OPEN_TAG.length && OPEN_TAG.startsWith(trimmedText)) {
        this.#possibleTag = remainingText;
        return [];
      }
      if (!trimmedText.startsWith(OPEN_TAG)) {
        this.#state = "text";
        return [{ kind: "text", text: remainingText }];
      }
      remainingText = trimmedText.slice(OPEN_TAG.length);
      this.#state = "thinking";
    }
    if (this.#state === "thinking") {
      const end = remainingText.indexOf(CLOSE_TAG);
      if (end === -1) {
        const heldLength = getPossibleTagLength(remainingText);
        this.#possibleTag = remainingText.slice(remainingText.length - heldLength);
        return toReasoning(remainingText.slice(0, remainingText.length - heldLength));
      }
      pieces.push(...toReasoning(remainingText.slice(0, end)));
      remainingText = remainingText.slice(end + CLOSE_TAG.length);
      this.#state = "separator";
    }
    // Empty lines between reasoning and answer are dropped.
    const text = remainingText.trimStart();
    if (text === "") return pieces;
    this.#state = "text";
    return [...pieces, { kind: "text", text }];
  }

  /** Returns the held text at the end of the answer. */
  end(): TaggedText[] {
    const heldText = this.#possibleTag;
    this.#possibleTag = "";
    if (heldText === "") return [];
    return [{ kind: this.#state === "thinking" ? "reasoning" : "text", text: heldText }];
  }
}

function toReasoning(text: string): TaggedText[] {
  return text === "" ? [] : [{ kind: "reasoning", text }];
}

/** Number of characters at the end that may begin the closing tag. */
function getPossibleTagLength(text: string): number {
  for (let length = Math.min(CLOSE_TAG.length - 1, text.length); length > 0; length--) {
    if (CLOSE_TAG.startsWith(text.slice(text.length - length))) return length;
  }
  return 0;
}
