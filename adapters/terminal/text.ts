import stringWidth from "string-width";

/** Columns that a tab takes, whatever stands before it. */
const TAB = "    ";
/**
 * Of strings that begin with OSC and the like those alone that end, in their line: what has no end would take all that
 * follows with it. None holds what could begin another, so that each is looked at once.
 */
const SEQUENCES =
  // eslint-disable-next-line no-control-regex -- control characters are what is looked for
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\n\u0080-\u009f]*(?:\u0007|\u001b\\|\u009c)|\u001b[ -/]*[0-~]/g;
/** What is left of them, other line ends, what turns the direction of text or is not seen, and halves of characters. */
const UNSEEN =
  // eslint-disable-next-line no-control-regex -- as above
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;
/** More marks on one character than any script has. */
const MARKS = /(\p{M}{8})(\p{M}+)/gu;
/**
 * Text of which each character is one grapheme and one column: ASCII, Latin letters, dashes and quotes, lines of boxes,
 * and the sign of the prompt. It needs neither a segmenter nor a table of widths, which take 20 ms of a start.
 */
const PLAIN = /^[\n\u0020-\u007e\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u2500-\u259f\u276f]*$/;
/** Runs of characters each of which is one as people count them, if nothing is put upon it: those are found much faster. */
const SINGLE =
  /[\u0020-\u007e\u00a1-\u00ac\u00ae-\u02ff\u0400-\u0482\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]{8,}/g;
/** Characters that the segmenter is given at once: with the length of a text the time that it takes for each one grows. */
const PIECE = 256;
/** Widths of what is looked up that are kept. */
const KNOWN_WIDTHS = 4_096;

/**
 * What a stranger said as it may stand on a terminal: lines and what is seen. Escape sequences are taken out whole; any
 * other character that a terminal would act on, or nobody would see, is named. Not for what a person is about to allow.
 */
export function clean(text: string): string {
  return PLAIN.test(text) ? text : written(text.replace(SEQUENCES, ""));
}

/**
 * Text of which nothing is taken out: what is not seen is named, each character of it. For what a person decides upon,
 * for names, and for what is in files.
 */
export function written(text: string): string {
  if (PLAIN.test(text)) return text;
  return text
    .replace(/\r\n/g, "\n")
    .replaceAll("\t", TAB)
    .replace(MARKS, (_, first: string, others: string) => `${first}<${others.length} more marks>`)
    .replace(UNSEEN, (character) => {
      const code = character.codePointAt(0) ?? 0;
      if (code < 0x20) return String.fromCodePoint(0x2400 + code);
      if (code === 0x7f) return "\u2421";
      return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
    });
}

/** The same in one line, in which other lines are told by a sign: behind a `#` they are no comment. */
export function writtenLine(text: string): string {
  const said = written(text);
  if (!said.includes("\n")) return said;
  return said
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join(" ⏎ ");
}

/** Text without the empty lines at its end. */
export function trimmedEnd(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "\n") end -= 1;
  return text.slice(0, end);
}

let segmenter: Intl.Segmenter | undefined;

/** Characters as people count them. */
export function graphemes(text: string): string[] {
  if (PLAIN.test(text)) return text.split("");
  const characters = (segmenter ??= new Intl.Segmenter(undefined, { granularity: "grapheme" }));
  const found: string[] = [];
  let from = 0;
  const rest = (to: number) => {
    while (from < to) {
      const end = Math.min(to, from + PIECE);
      const segments = Array.from(characters.segment(text.slice(from, end)), ({ segment }) => segment);
      // The last one may go on behind the piece.
      if (end < to && segments.length > 1) segments.pop();
      for (const one of segments) {
        found.push(one);
        from += one.length;
      }
    }
  };
  for (const { 0: run, index } of text.matchAll(SINGLE)) {
    rest(index);
    // What follows may be put upon the last one.
    for (let i = 0; i < run.length - 1; i += 1) found.push(run[i] ?? "");
    from = index + run.length - 1;
  }
  rest(text.length);
  return found;
}

/** Columns that it takes on a terminal. */
export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const one of graphemes(text)) width += widthOfOne(one);
  return width;
}

const widths = new Map<string, number>();

/** Columns of one character as people count them. */
export function widthOfOne(one: string): number {
  const code = one.charCodeAt(0);
  if (one.length === 1) {
    if (code >= 0x20 && code < 0x300 && (code < 0x7f || code > 0xa0) && code !== 0xad) return 1;
    if ((code >= 0x4e00 && code <= 0x9fff) || (code >= 0xac00 && code <= 0xd7a3)) return 2;
  }
  const known = widths.get(one);
  if (known !== undefined) return known;
  const width = stringWidth(one);
  if (widths.size >= KNOWN_WIDTHS) widths.clear();
  widths.set(one, width);
  return width;
}

/** As much of the line as fits into so many columns, with an ellipsis where it does not. */
export function cut(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let kept = "";
  let used = 1;
  for (const one of graphemes(text)) {
    used += widthOfOne(one);
    if (used > columns) break;
    kept += one;
  }
  return columns < 1 ? "" : `${kept}…`;
}

/** `1234567` as `1.2M`. */
export function short(count: number): string {
  if (count < 1000) return String(count);
  if (count < 999_950) return `${(count / 1000).toFixed(count < 99_950 ? 1 : 0)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}
