import stringWidth from "string-width";

/** Columns that a tab takes, whatever stands before it. */
const TAB = "    ";
const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

const SEQUENCES =
  // eslint-disable-next-line no-control-regex -- control characters are what is looked for
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]/g;
/** What is left of them, other line ends, what turns the direction of text or is not seen, and halves of characters. */
const UNSEEN =
  // eslint-disable-next-line no-control-regex -- as above
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;
const PLAIN = /^[\n\u0020-\u007e]*$/;

/**
 * Text of a stranger as it may stand on a terminal: lines and what is seen. Escape sequences are taken out whole; any
 * other character that a terminal would act on, or nobody would see, is named.
 */
export function clean(text: string): string {
  if (PLAIN.test(text)) return text;
  return text
    .replace(SEQUENCES, "")
    .replace(/\r\n/g, "\n")
    .replaceAll("\t", TAB)
    .replace(UNSEEN, (character) => {
      const code = character.codePointAt(0) ?? 0;
      if (code < 0x20) return String.fromCodePoint(0x2400 + code);
      if (code === 0x7f) return "\u2421";
      return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
    });
}

/** The same in one line. */
export function cleanLine(text: string): string {
  return clean(text).replace(/\s*\n\s*/g, " ");
}

/** Characters as people count them. */
export function graphemes(text: string): string[] {
  return PLAIN.test(text) ? text.split("") : Array.from(segmenter.segment(text), ({ segment }) => segment);
}

/** Columns that it takes on a terminal. */
export function widthOf(text: string): number {
  return PLAIN.test(text) ? text.length : stringWidth(text);
}

/** As much of the line as fits into so many columns, with an ellipsis where it does not. */
export function cut(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let kept = "";
  let used = 1;
  for (const one of graphemes(text)) {
    used += widthOf(one);
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
