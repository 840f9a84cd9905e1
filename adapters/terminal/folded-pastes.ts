/** A pasted text with fewer lines and characters is inserted as it is. */
const MIN_FOLDED_LINES = 11;
const MIN_FOLDED_CHARACTERS = 1_001;
/** Code of the character for the first text, in an area without assigned characters. */
const FIRST_CODE = 0x10_0000;
const STAND_INS = /[\u{100000}-\u{10fffd}]/gu;

/** Long pasted texts of the prompt. In the editor, one character stands for each, which is moved and deleted as such. */
export class FoldedPastes {
  readonly #texts: string[] = [];

  /** Returns the character for a long text, or a short text unchanged. */
  fold(text: string): string {
    if (text.length < MIN_FOLDED_CHARACTERS && countLines(text) < MIN_FOLDED_LINES) return text;
    return String.fromCodePoint(FIRST_CODE + this.#texts.push(text) - 1);
  }

  /** Replaces the characters by the pasted texts. */
  expand(text: string): string {
    return this.#replace(text, (pastedText) => pastedText);
  }

  /** Replaces the characters by labels for the screen. */
  label(text: string): string {
    return this.#replace(text, (pastedText, number) => {
      const lineCount = countLines(pastedText);
      const size = lineCount === 1 ? `${pastedText.length} characters` : `${lineCount} lines`;
      return `[Pasted text #${number}, ${size}]`;
    });
  }

  #replace(text: string, replaceWith: (pastedText: string, number: number) => string): string {
    return text.replace(STAND_INS, (character) => {
      const index = (character.codePointAt(0) ?? 0) - FIRST_CODE;
      const pastedText = this.#texts[index];
      return pastedText === undefined ? character : replaceWith(pastedText, index + 1);
    });
  }
}

function countLines(text: string): number {
  return text.trimEnd().split("\n").length;
}
