/** Control characters, what changes the direction of text or shows nothing, other line ends, and halves of characters. */
const UNSEEN =
  /[\p{Cc}\u00AD\u061C\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF\u{E0000}-\u{E007F}\p{Surrogate}]/u;
const EACH =
  /[\p{Cc}\u00AD\u061C\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF\u{E0000}-\u{E007F}\p{Surrogate}]/gu;

/**
 * A name as it can stand in a line of text: as it is where every character of it is seen, else as a JSON string, which
 * says what it is and breaks no line and no terminal.
 */
export function printable(name: string): string {
  if (!UNSEEN.test(name)) return name;
  return seen(JSON.stringify(name));
}

/** Text as a terminal may show it: what is not seen, and what would steer the terminal, is written out. Line feeds and tabs stay where `isText`. */
export function seen(text: string, isText = false): string {
  return text.replace(EACH, (character) =>
    isText && (character === "\n" || character === "\t")
      ? character
      : character.replace(/[^]/g, (half) => `\\u${half.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
}

/** Text of many lines in which nothing hides: its lines end alike, and what is not seen is written out. */
export function lines(text: string): string {
  return seen(text.replace(/\r\n?/g, "\n"), true);
}
