/**
 * Makes invisible and reordering characters visible as escapes. Without escapes, a command can look like another
 * command.
 */

/** Scripts whose words contain invisible joiners. */
const JOINING_SCRIPTS = "Arab Syrc Nkoo Mong Deva Beng Guru Gujr Orya Taml Telu Knda Mlym Sinh Khmr Mymr Tibt"
  .split(" ")
  .map((script) => `\\p{scx=${script}}`)
  .join("");
/** Controls, other line ends, direction marks, default-ignorable characters and lone surrogates. */
const INVISIBLE_CLASS = "\\p{Cc}\\p{Zl}\\p{Zp}\\p{Bidi_C}\\p{DI}\\p{Cs}\\uFFF9-\\uFFFB";
/** Invisible characters that are part of a visible character: emoji sequences, keycaps, joined letters. */
const VISIBLE_SEQUENCE = [
  "(?<=[\\p{ExtPict}\\p{EMod}\\uFE0F])\\u200D(?=\\p{ExtPict})",
  "(?<=\\p{ExtPict})[\\uFE0E\\uFE0F]",
  "(?<=[0-9#*])\\uFE0F(?=\\u20E3)",
  `(?<=[${JOINING_SCRIPTS}])[\\u200C\\u200D]`,
].join("|");

const INVISIBLE_IN_TEXT_PATTERN = new RegExp(`${VISIBLE_SEQUENCE}|[\\n\\t]|\\r(?=\\n)|([${INVISIBLE_CLASS}])`, "gu");
/** Like `INVISIBLE_IN_TEXT_PATTERN`, and also blanks other than the normal space. */
const INVISIBLE_IN_CODE_PATTERN = new RegExp(
  `${VISIBLE_SEQUENCE}|[\\n\\t ]|([${INVISIBLE_CLASS}\\p{Zs}\\u2800])`,
  "gu",
);
/**
 * More than eight combining marks on one character. No script uses so many marks. They cover the surrounding text, and
 * the browser does not break a line between them.
 */
const EXCESS_MARKS_PATTERN = /(\p{M}{8})(\p{M}+)/gu;
/** Characters that reorder text. Other invisible characters are harmless in prose and occur in legitimate text. */
const REORDERING_PATTERN = /([\u202A-\u202E\u2066-\u2069])/gu;

/** Escapes invisible characters in names, titles and tool output. Converts line ends to "\n". */
export function escapeInvisible(text: string): string {
  return text.replace(INVISIBLE_IN_TEXT_PATTERN, (match: string, invisible: string | undefined) =>
    invisible === undefined ? (match === "\r" ? "" : match) : escapeCharacter(invisible),
  );
}

/** Escapes content of a permission request: every character that is invisible or looks like another character. */
export function escapeExactly(text: string): string {
  const escapedText = text.replace(INVISIBLE_IN_CODE_PATTERN, (match: string, invisible: string | undefined) =>
    invisible === undefined ? match : escapeCharacter(invisible),
  );
  return escapedText.replace(
    EXCESS_MARKS_PATTERN,
    (_match, allowedMarks: string, excessMarks: string) => `${allowedMarks}<${[...excessMarks].length} more marks>`,
  );
}

/** Escapes prose: only characters that would reorder the text. */
export function escapeReordering(text: string): string {
  return text.replace(REORDERING_PATTERN, escapeCharacter);
}

function escapeCharacter(character: string): string {
  const hex = (character.codePointAt(0) ?? 0).toString(16);
  return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`;
}
