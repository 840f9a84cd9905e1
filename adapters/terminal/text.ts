import stringWidth from "string-width";

/** Replacement for a tab: a fixed width, independent of the column. */
const TAB_SPACES = "    ";
/**
 * Escape sequences. A string sequence (OSC and similar) matches only if it ends in its line: otherwise an unterminated
 * sequence would remove all following text. A string sequence contains no start of another sequence, so that each
 * character is scanned once.
 */
const ESCAPE_SEQUENCES =
  // eslint-disable-next-line no-control-regex -- matches control characters
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\n\u0080-\u009f]*(?:\u0007|\u001b\\|\u009c)|\u001b[ -/]*[0-~]/g;
/** Remaining control characters, other line ends, direction controls, invisible characters and lone surrogates. */
const INVISIBLE_CHARACTERS =
  // eslint-disable-next-line no-control-regex -- as above
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;
/** More than eight combining marks on one character, which no script uses. The second group has the excess marks. */
const EXCESS_MARKS = /(\p{M}{8})(\p{M}+)/gu;
/**
 * Text in which each character is one grapheme and one column: ASCII, Latin letters, dashes and quotes, box-drawing
 * lines, and the prompt sign. Such text needs neither a segmenter nor a width table, whose loading takes 20 ms.
 */
const PLAIN_TEXT = /^[\n\u0020-\u007e\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u2500-\u259f\u276f]*$/;
/**
 * Eight or more characters that are one grapheme each, unless a combining mark follows. This pattern is much faster
 * than the segmenter.
 */
const SINGLE_GRAPHEMES =
  /[\u0020-\u007e\u00a1-\u00ac\u00ae-\u02ff\u0400-\u0482\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]{8,}/g;
/** Maximum characters per call of the segmenter: its time per grapheme grows with the length of the text. */
const MAX_SEGMENTER_CHARACTERS = 256;
/** Maximum number of cached widths. */
const MAX_CACHED_WIDTHS = 4_096;

/**
 * Prepares untrusted text for the terminal and keeps its lines. Removes escape sequences; shows other control and
 * invisible characters by name. For content that the user is about to permit, use `escapeInvisible`, which removes
 * nothing.
 */
export function cleanText(text: string): string {
  return PLAIN_TEXT.test(text) ? text : escapeInvisible(text.replace(ESCAPE_SEQUENCES, ""));
}

/** Shows invisible characters by name and removes nothing. For permission requests, names and file contents. */
export function escapeInvisible(text: string): string {
  if (PLAIN_TEXT.test(text)) return text;
  return text
    .replace(/\r\n/g, "\n")
    .replaceAll("\t", TAB_SPACES)
    .replace(EXCESS_MARKS, (_, marks: string, excessMarks: string) => `${marks}<${excessMarks.length} more marks>`)
    .replace(INVISIBLE_CHARACTERS, (character) => {
      const code = character.codePointAt(0) ?? 0;
      if (code < 0x20) return String.fromCodePoint(0x2400 + code);
      if (code === 0x7f) return "\u2421";
      return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
    });
}

/**
 * Escapes text like `escapeInvisible`, in one line. A sign marks each line break, so that text after a `#` comment does
 * not look like a part of the comment.
 */
export function escapeLine(text: string): string {
  const escapedText = escapeInvisible(text);
  if (!escapedText.includes("\n")) return escapedText;
  return escapedText
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join(" ⏎ ");
}

export function trimLineBreaks(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "\n") end -= 1;
  return text.slice(0, end);
}

let segmenter: Intl.Segmenter | undefined;

/** Splits text into grapheme clusters, which are characters as a reader counts them. */
export function toGraphemes(text: string): string[] {
  if (PLAIN_TEXT.test(text)) return text.split("");
  const activeSegmenter = (segmenter ??= new Intl.Segmenter(undefined, { granularity: "grapheme" }));
  const allGraphemes: string[] = [];
  let startIndex = 0;
  const addSegments = (endIndex: number) => {
    while (startIndex < endIndex) {
      const pieceEnd = Math.min(endIndex, startIndex + MAX_SEGMENTER_CHARACTERS);
      const segments = Array.from(activeSegmenter.segment(text.slice(startIndex, pieceEnd)), ({ segment }) => segment);
      // The last grapheme may continue in the next piece.
      if (pieceEnd < endIndex && segments.length > 1) segments.pop();
      for (const grapheme of segments) {
        allGraphemes.push(grapheme);
        startIndex += grapheme.length;
      }
    }
  };
  for (const { 0: singles, index } of text.matchAll(SINGLE_GRAPHEMES)) {
    addSegments(index);
    // A combining mark may follow the last character.
    for (let i = 0; i < singles.length - 1; i += 1) allGraphemes.push(singles[i] ?? "");
    startIndex = index + singles.length - 1;
  }
  addSegments(text.length);
  return allGraphemes;
}

/** Returns the width of a text on the terminal, in columns. */
export function textWidth(text: string): number {
  if (PLAIN_TEXT.test(text)) return text.length;
  let width = 0;
  for (const grapheme of toGraphemes(text)) width += graphemeWidth(grapheme);
  return width;
}

/** Width in columns by grapheme. */
const widthsByGrapheme = new Map<string, number>();

/** Returns the width of one grapheme, in columns. */
export function graphemeWidth(grapheme: string): number {
  const code = grapheme.charCodeAt(0);
  if (grapheme.length === 1) {
    if (code >= 0x20 && code < 0x300 && (code < 0x7f || code > 0xa0) && code !== 0xad) return 1;
    if ((code >= 0x4e00 && code <= 0x9fff) || (code >= 0xac00 && code <= 0xd7a3)) return 2;
  }
  const cachedWidth = widthsByGrapheme.get(grapheme);
  if (cachedWidth !== undefined) return cachedWidth;
  const width = stringWidth(grapheme);
  if (widthsByGrapheme.size >= MAX_CACHED_WIDTHS) widthsByGrapheme.clear();
  widthsByGrapheme.set(grapheme, width);
  return width;
}

/** Shortens a line to `columns`; an ellipsis replaces the removed end. */
export function truncate(text: string, columns: number): string {
  if (textWidth(text) <= columns) return text;
  let prefix = "";
  let usedColumns = 1;
  for (const grapheme of toGraphemes(text)) {
    usedColumns += graphemeWidth(grapheme);
    if (usedColumns > columns) break;
    prefix += grapheme;
  }
  return columns < 1 ? "" : `${prefix}…`;
}

/** Formats `1234567` as `1.2M`. */
export function formatCount(count: number): string {
  if (count < 1000) return String(count);
  if (count < 999_950) return `${(count / 1000).toFixed(count < 99_950 ? 1 : 0)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}
