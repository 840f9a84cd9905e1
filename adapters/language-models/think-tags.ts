/** A piece of an answer, told apart. */
export interface Told {
  kind: "text" | "reasoning";
  text: string;
}

const OPEN = "<think>";
const CLOSE = "</think>";

/**
 * Takes thoughts out of an answer that begins with `<think>`, as local servers send it that do not know the model's format.
 * Tags further on are left alone: they are what the model talks about.
 */
export class ThinkTags {
  #state: "start" | "thinking" | "behind" | "text" = "start";
  /** What may be the beginning of a tag. */
  #held = "";

  /** Whether all that comes from now on is the answer. */
  get over(): boolean {
    return this.#state === "text";
  }

  push(piece: string): Told[] {
    if (this.#state === "text") return piece === "" ? [] : [{ kind: "text", text: piece }];
    let rest = this.#held + piece;
    this.#held = "";
    const told: Told[] = [];
    if (this.#state === "start") {
      const begun = rest.trimStart();
      if (begun.length < OPEN.length && OPEN.startsWith(begun)) {
        this.#held = rest;
        return [];
      }
      if (!begun.startsWith(OPEN)) {
        this.#state = "text";
        return [{ kind: "text", text: rest }];
      }
      rest = begun.slice(OPEN.length);
      this.#state = "thinking";
    }
    if (this.#state === "thinking") {
      const end = rest.indexOf(CLOSE);
      if (end === -1) {
        const keep = partOfTag(rest);
        this.#held = rest.slice(rest.length - keep);
        return thought(rest.slice(0, rest.length - keep));
      }
      told.push(...thought(rest.slice(0, end)));
      rest = rest.slice(end + CLOSE.length);
      this.#state = "behind";
    }
    // The empty lines between thoughts and answer belong to neither.
    const text = rest.trimStart();
    if (text === "") return told;
    this.#state = "text";
    return [...told, { kind: "text", text }];
  }

  /** What was held back, when the answer is over. */
  end(): Told[] {
    const held = this.#held;
    this.#held = "";
    if (held === "") return [];
    return [{ kind: this.#state === "thinking" ? "reasoning" : "text", text: held }];
  }
}

function thought(text: string): Told[] {
  return text === "" ? [] : [{ kind: "reasoning", text }];
}

/** How many characters at the end may begin the closing tag. */
function partOfTag(text: string): number {
  for (let length = Math.min(CLOSE.length - 1, text.length); length > 0; length--) {
    if (CLOSE.startsWith(text.slice(text.length - length))) return length;
  }
  return 0;
}
