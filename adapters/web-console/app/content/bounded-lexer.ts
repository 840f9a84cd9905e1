import { Lexer, type Token, type Tokens, type TokensList } from "marked";
import { pairTags } from "./bare-tags.js";
import { sectionsOf } from "./sections.js";

/**
 * Characters of running text that are read at once; what is longer is read in pieces, and those of long texts are shorter.
 * The work grows with the square of a piece. A paragraph that somebody wrote is shorter than the least.
 */
const [SHORTEST, LONGEST] = [1_000, 4_000];
/** Signs of emphasis in a piece: at each of them all of it is looked through. */
const MARKS = 200;
/** A text's length by that of its pieces. */
const WORK = 50_000_000;
/** Lists in lists, emphasis in emphasis; what is deeper is text. */
const DEEPEST = 32;
/** How often a character may be read, on the average: about once for each level that it is in. */
const READINGS = 20;
/** Characters that any text may be read again. */
const GRANTED = 50_000;
/** What a cell or a paragraph costs, be it empty, in characters. */
const EACH = 50;

/** That a text is more work than any that is written to be read. */
export class TooMuchError extends Error {}

/**
 * Reads Markdown in a time that grows with the length of a text and not with its square, whatever the text is. marked's rules
 * look as far ahead as a text goes, read what is nested anew for each level, and make much of little: rows of cells, long
 * addresses that are said once and used often.
 */
export class BoundedLexer extends Lexer {
  #left = GRANTED;
  #piece = LONGEST;
  #blockDepth = 0;
  #inlineDepth = 0;

  /** Throws `TooMuchError`. */
  override lex(text: string): TokensList {
    this.#left = GRANTED + READINGS * text.length;
    this.#piece = Math.max(SHORTEST, Math.min(LONGEST, Math.floor(WORK / text.length)));
    const sections = sectionsOf(text.replace(/\r\n|\r/g, "\n"), (section) => new Outline(this.options).of(section));
    const last = sections.pop() ?? "";
    for (const section of sections) this.blockTokens(section, this.tokens);
    return super.lex(last);
  }

  override blockTokens(text: string, tokens?: Token[], clipped?: boolean): Token[];
  override blockTokens(text: string, tokens?: TokensList, clipped?: boolean): TokensList;
  override blockTokens(text: string, tokens: Token[] = [], clipped?: boolean): Token[] {
    if (this.#blockDepth === DEEPEST) {
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
    this.#take(EACH);
    return super.inline(text, tokens);
  }

  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    if (this.#inlineDepth === DEEPEST) {
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
    this.#left -= characters;
    if (this.#left < 0) throw new TooMuchError("more work than a text is worth");
  }
}

/** The blocks of a text alone, not what is in them. */
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

/** A text in pieces of at most `size` that end where a line or a word does. */
function* piecesOf(text: string, size: number): Generator<string> {
  let from = 0;
  for (let to = 0; from < text.length; from = to) {
    to = endOfPiece(text, from, size);
    yield text.slice(from, to);
  }
}

function endOfPiece(text: string, from: number, size: number): number {
  let most = from;
  for (let marks = 0; most < text.length && most - from < size && marks < MARKS; most += 1)
    if (/[*_~]/.test(text[most] ?? "")) marks += 1;
  if (most === text.length) return most;
  const least = (from + most) / 2;
  for (const end of ["\n", " "]) {
    const at = text.lastIndexOf(end, most - 1);
    if (at >= least) return at + 1;
  }
  // A picture stands in a text as one word of base64, in which nothing is looked for.
  const word = /[^A-Za-z0-9+/=]/g;
  word.lastIndex = most;
  const stop = word.exec(text)?.index ?? text.length;
  // With what is right behind it.
  if (stop > most) return stop + text.slice(stop, stop + size / 2).search(/\s|$/);
  // Not within what is one letter.
  return /[\ud800-\udbff]/.test(text[most - 1] ?? "") ? most - 1 : most;
}
