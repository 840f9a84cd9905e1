import { Lexer, type Token, type Tokens, type TokensList } from "marked";
import { pairTags } from "./bare-tags.js";
import { splitSections } from "./sections.js";

/**
 * Minimum and maximum length of running text that is parsed at once, in characters. Longer text is parsed in pieces,
 * because the work grows with the square of a piece. The longer the text, the shorter its pieces. A normal paragraph is
 * shorter than the minimum.
 */
const [MIN_PIECE_CHARACTERS, MAX_PIECE_CHARACTERS] = [1_000, 4_000];
/** Maximum emphasis characters in a piece: the parser scans the whole piece for each emphasis character. */
const MAX_EMPHASIS_MARKS = 200;
/** Limit for the length of the text multiplied by the length of a piece, both in characters. */
const MAX_PIECE_WORK = 50_000_000;
/** Maximum nesting of lists and of emphasis. Deeper content is plain text. */
const MAX_DEPTH = 32;
/** Number of times that each character may be parsed on average. Each nesting level parses a character once. */
const MAX_READINGS = 20;
/** Additional characters that may be parsed in any text, even in a short text. */
const BASE_BUDGET_CHARACTERS = 50_000;
/** Cost of a cell or a paragraph in characters, even without text. */
const INLINE_COST_CHARACTERS = 50;

/** Error for a text whose parsing needs more work than any normal text. */
export class MarkdownLimitError extends Error {}

/**
 * Parses Markdown in time linear in the length of any text. marked alone is quadratic: its rules look ahead to the end
 * of the text and parse nested content again for each level. Short input can also produce much output: rows of cells,
 * or a long link address that is used often.
 */
export class BoundedLexer extends Lexer {
  #remainingCharacters = BASE_BUDGET_CHARACTERS;
  #pieceCharacters = MAX_PIECE_CHARACTERS;
  #blockDepth = 0;
  #inlineDepth = 0;

  /** Throws `MarkdownLimitError` if the text exceeds the work limit. */
  override lex(text: string): TokensList {
    this.#remainingCharacters = BASE_BUDGET_CHARACTERS + MAX_READINGS * text.length;
    this.#pieceCharacters = Math.max(
      MIN_PIECE_CHARACTERS,
      Math.min(MAX_PIECE_CHARACTERS, Math.floor(MAX_PIECE_WORK / text.length)),
    );
    const sections = splitSections(text.replace(/\r\n|\r/g, "\n"), (section) =>
      new OutlineLexer(this.options).parse(section),
    );
    const lastSection = sections.pop() ?? "";
    for (const section of sections) this.blockTokens(section, this.tokens);
    return super.lex(lastSection);
  }

  override blockTokens(text: string, tokens?: Token[], clipped?: boolean): Token[];
  override blockTokens(text: string, tokens?: TokensList, clipped?: boolean): TokensList;
  override blockTokens(text: string, tokens: Token[] = [], clipped?: boolean): Token[] {
    if (this.#blockDepth === MAX_DEPTH) {
      tokens.push(toTextToken(text));
      this.state.top = true;
      return tokens;
    }
    this.#spend(text.length);
    this.#blockDepth += 1;
    super.blockTokens(text, tokens, clipped);
    this.#blockDepth -= 1;
    return tokens;
  }

  override inline(text: string, tokens: Token[] = []): Token[] {
    this.#spend(INLINE_COST_CHARACTERS);
    return super.inline(text, tokens);
  }

  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    if (this.#inlineDepth === MAX_DEPTH) {
      tokens.push(toTextToken(text));
      return tokens;
    }
    this.#spend(text.length);
    this.#inlineDepth += 1;
    for (const piece of splitIntoPieces(text, this.#pieceCharacters)) super.inlineTokens(piece, tokens);
    this.#inlineDepth -= 1;
    for (const token of tokens) if (isLink(token)) this.#spend(token.href.length + (token.title?.length ?? 0));
    pairTags(tokens);
    return tokens;
  }

  /** Throws `MarkdownLimitError` if the budget is used up. */
  #spend(characters: number): void {
    this.#remainingCharacters -= characters;
    if (this.#remainingCharacters < 0)
      throw new MarkdownLimitError("text exceeds the work limit of the Markdown parser");
  }
}

/** Parses only the top-level blocks of a text, not their contents. */
class OutlineLexer extends Lexer {
  #isNested = false;

  parse(text: string): readonly Token[] {
    return this.blockTokens(text, []);
  }

  override blockTokens(text: string, tokens?: Token[], clipped?: boolean): Token[];
  override blockTokens(text: string, tokens?: TokensList, clipped?: boolean): TokensList;
  override blockTokens(text: string, tokens: Token[] = [], clipped?: boolean): Token[] {
    if (this.#isNested) return tokens;
    this.#isNested = true;
    super.blockTokens(text, tokens, clipped);
    this.#isNested = false;
    return tokens;
  }
}

function isLink(token: Token): token is Tokens.Link | Tokens.Image {
  return token.type === "link" || token.type === "image";
}

function toTextToken(text: string): Tokens.Text {
  return { type: "text", raw: text, text, escaped: false };
}

/** Splits a text into pieces of about `size` characters that end at a line or a word. */
function* splitIntoPieces(text: string, size: number): Generator<string> {
  let from = 0;
  for (let to = 0; from < text.length; from = to) {
    to = findPieceEnd(text, from, size);
    yield text.slice(from, to);
  }
}

/** End of the piece at `from`: after a line, otherwise after a word, otherwise after about `size` characters. */
function findPieceEnd(text: string, from: number, size: number): number {
  let maxEnd = from;
  for (let markCount = 0; maxEnd < text.length && maxEnd - from < size && markCount < MAX_EMPHASIS_MARKS; maxEnd += 1)
    if (/[*_~]/.test(text[maxEnd] ?? "")) markCount += 1;
  if (maxEnd === text.length) return maxEnd;
  const minEnd = (from + maxEnd) / 2;
  for (const separator of ["\n", " "]) {
    const separatorIndex = text.lastIndexOf(separator, maxEnd - 1);
    if (separatorIndex >= minEnd) return separatorIndex + 1;
  }
  // Do not split an embedded image, which is one long base64 word without Markdown.
  const nonBase64 = /[^A-Za-z0-9+/=]/g;
  nonBase64.lastIndex = maxEnd;
  const wordEnd = nonBase64.exec(text)?.index ?? text.length;
  // Include the characters up to the next space.
  if (wordEnd > maxEnd) return wordEnd + text.slice(wordEnd, wordEnd + size / 2).search(/\s|$/);
  // Do not split a surrogate pair.
  return /[\ud800-\udbff]/.test(text[maxEnd - 1] ?? "") ? maxEnd - 1 : maxEnd;
}
