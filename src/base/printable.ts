/**
 * Control characters, invisible characters, characters that change the text direction, Unicode line separators, and
 * lone surrogates.
 */
const INVISIBLE =
  /[\p{Cc}\u00AD\u061C\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF\u{E0000}-\u{E007F}\p{Surrogate}]/u;
const ALL_INVISIBLE =
  /[\p{Cc}\u00AD\u061C\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF\u{E0000}-\u{E007F}\p{Surrogate}]/gu;

/**
 * Makes a name safe to print in a line of text. Returns it unchanged if all its characters are visible, otherwise as an
 * escaped JSON string that breaks no line and no terminal.
 */
export function toPrintable(name: string): string {
  if (!INVISIBLE.test(name)) return name;
  return escapeInvisible(JSON.stringify(name));
}

/**
 * Makes text safe for a terminal: writes invisible and control characters as escapes. Line feeds and tabs stay if
 * `isText`.
 */
export function escapeInvisible(text: string, isText = false): string {
  return text.replace(ALL_INVISIBLE, (character) =>
    isText && (character === "\n" || character === "\t")
      ? character
      : character.replace(/[^]/g, (codeUnit) => `\\u${codeUnit.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
}

/** Makes a text of several lines safe to print: normalizes line ends to line feeds and escapes invisible characters. */
export function toPrintableLines(text: string): string {
  return escapeInvisible(text.replace(/\r\n?/g, "\n"), true);
}
