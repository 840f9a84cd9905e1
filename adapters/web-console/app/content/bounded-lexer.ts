import { Lexer, type Token, type Tokens, type TokensList } from "marked";
import { pairTags } from "./bare-tags.js";
import { sectionsOf } from "./sections.js";

/**
 * Minimum and maximum length of running text that is parsed at once, in characters. Longer text is parsed in pieces,
 * because the work grows with the square of a piece. The longer the text, the shorter its pieces. A normal paragraph is
 * shorter than the minimum.
 */
const [MIN_PIECE_CHARACTERS, MAX_PIECE_CHARACTERS] = [1_000, 4_000];
/** Maximum emphasis characters in a piece: the parser scans the whole piece at each. */
const MAX_EMPHASIS_MARKS = 200;
/** Limit for the text's length multiplied by the piece length. */
const MAX_PIECE_WORK = 50_000_000;
/** Maximum nesting of lists and of emphasis. Deeper content is plain text. */
const MAX_DEPTH = 32;
/** Average number of times that each character may be parsed, about once for each nesting level. */
const MAX_READINGS = 20;
/** Characters of work that any text is granted in addition. */
const BASE_BUDGET_CHARACTERS = 50_000;
/** Cost of a cell or a paragraph, even an empty one, in characters. */
const INLINE_COST_CHARACTERS = 50;

/** Parsing the text needs more work than any normal text does. */
export class MarkdownLimitError extends Error {}

/**
 * Parses Markdown in time linear in the length of any text. marked alone is quadratic: its rules look ahead to the end
 * of the text and parse nested content again for each level. Short input can also produce much output: rows of cells,
 * or a long link address that is used often.
 */
export class BoundedLexer extends Lexer {
  #remainingCharacters = BASE_BUDGET_CHARACTERS;
  #piece = MAX_PIECE_CHARACTERS;
  #blockDepth = 0;
  #inlineDepth = 0;

  /** Throws the error above if the text exceeds the work limit. */
  override lex(text: string): TokensList {
    this.#remainingCharacters = BASE_BUDGET_CHARACTERS + MAX_READINGS * text.length;
    this.#piece = Math.max(
      MIN_PIECE_CHARACTERS,
      Math.min(MAX_PIECE_CHARACTERS, Math.floor(MAX_PIECE_WORK / text.length)),
    );
    const sections = sectionsOf(text.replace(/\r\n|\r/g, "\n"), (section) => new Outline(this.options).of(section));
    const last = sections.pop() ?? "";
    for (const section of sections) this.blockTokens(section, this.tokens);
    return super.lex(last);
  }

  override blockTokens(text: string, tokens?: Token[], clipped?: boolean): Token[];
  override blockTokens(text: string, tokens?: TokensList, clipped?: boolean): TokensList;
  override blockTokens(text: string, tokens: Token[] = [], clipped?: boolean): Token[] {
    if (this.#blockDepth === MAX_DEPTH) {
      tokens.push(asText(text));
      this.state.top = true;
      return tokens;
    }
    this.#take(text.length);
    this.#blockDepth += 1;
    super.blockTokens(text, tokens, clipped);
    this.#blockDepth -= 1;
    return tokens;
  }

  override inline(text: string, tokens: Token[] = []): Token[] {
    this.#take(INLINE_COST_CHARACTERS);
    return super.inline(text, tokens);
  }

  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    if (this.#inlineDepth === MAX_DEPTH) {
      tokens.push(asText(text));
      return tokens;
    }
    this.#take(text.length);
    this.#inlineDepth += 1;
    for (const piece of piecesOf(text, this.#piece)) super.inlineTokens(piece, tokens);
    this.#inlineDepth -= 1;
    for (const token of tokens) if (isLink(token)) this.#take(token.href.length + (token.title?.length ?? 0));
    pairTags(tokens);
    return tokens;
  }

  #take(characters: number): void {
    this.#remainingCharacters -= characters;
    if (this.#remainingCharacters < 0)
      throw new MarkdownLimitError("text exceeds the work limit of the Markdown parser");
  }
}

/** Parses only the top-level blocks of a text, not their contents. */
class Outline extends Lexer {
  #isWithin = false;

  of(text: string): readonly Token[] {
    return this.blockTokens(text, []);
  }

  override blockTokens(text: string, tokens?: Token[], clipped?: boolean): Token[];
  override blockTokens(text: string, tokens?: TokensList, clipped?: boolean): TokensList;
  override blockTokens(text: string, tokens: Token[] = [], clipped?: boolean): Token[] {
    if (this.#isWithin) return tokens;
    this.#isWithin = true;
    super.blockTokens(text, tokens, clipped);
    this.#isWithin = false;
    return tokens;
  }
}

function isLink(token: Token): token is Tokens.Link | Tokens.Image {
  return token.type === "link" || token.type === "image";
}

function asText(text: string): Tokens.Text {
  return { type: "text", raw: text, text, escaped: false };
}

/** Splits a text into pieces of about `size` characters that end at a line or a word. */
function* piecesOf(text: string, size: number): Generator<string> {
  let from = 0;
  for (let to = 0; from < text.length; from = to) {
    to = endOfPiece(text, from, size);
    yield text.slice(from, to);
  }
}

function endOfPiece(text: string, from: number, size: number): number {
  let most = from;
  for (let marks = 0; most < text.length && most - from < size && marks < MAX_EMPHASIS_MARKS; most += 1)
    if (/[*_~]/.test(text[most] ?? "")) marks += 1;
  if (most === text.length) return most;
  const least = (from + most) / 2;
  for (const end of ["\n", " "]) {
    const at = text.lastIndexOf(end, most - 1);
    if (at >= least) return at + 1;
  }
  // An embedded image is one long base64 word without Markdown: do not split it.
  const word = /[^A-Za-z0-9+/=]/g;
  word.lastIndex = most;
  const stop = word.exec(text)?.index ?? text.length;
  // Include the characters up to the next space.
  if (stop > most) return stop + text.slice(stop, stop + size / 2).search(/\s|$/);
  // Do not split a surrogate pair.
  return /[\ud800-\udbff]/.test(text[most - 1] ?? "") ? most - 1 : most;
}
