/**
 * Control characters, invisible characters, characters that change the text direction, Unicode line separators, and
 * lone surrogates.
 */
const INVISIBLE_CHARACTER =
  /[\p{Cc}\u00AD\u061C\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF\u{E0000}-\u{E007F}\p{Surrogate}]/u;
/** The same characters for `replace`. A global pattern cannot be used with `test`, which starts at the last match. */
const INVISIBLE_CHARACTERS =
  /[\p{Cc}\u00AD\u061C\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF\u{E0000}-\u{E007F}\p{Surrogate}]/gu;

/**
 * Makes a name safe to print in a line of text. Returns it unchanged if all its characters are visible, otherwise as a
 * JSON string in which invisible characters are escaped.
 */
export function toPrintable(name: string): string {
  if (!INVISIBLE_CHARACTER.test(name)) return name;
  return escapeInvisible(JSON.stringify(name));
}

/**
 * Makes text safe for a terminal: writes invisible and control characters as escapes. Line feeds and tabs stay if
 * `isMultiline`.
 */
export function escapeInvisible(text: string, isMultiline = false): string {
  return text.replace(INVISIBLE_CHARACTERS, (character) =>
    isMultiline && (character === "\n" || character === "\t")
      ? character
      : character.replace(/[^]/g, (codeUnit) => `\\u${codeUnit.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
}

/** Makes a text of several lines safe to print: normalizes line ends to line feeds and escapes invisible characters. */
export function toPrintableLines(text: string): string {
  return escapeInvisible(text.replace(/\r\n?/g, "\n"), true);
}
