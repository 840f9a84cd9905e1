/** Control, bidirectional and invisible characters, except tab and line feed. */
const INVISIBLE_CHARACTERS_PATTERN =
  // eslint-disable-next-line no-control-regex -- matches control characters
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF]|\p{Surrogate}|[\u{E0000}-\u{E007F}]/gu;

/** Removes invisible characters from a server's text. */
export function removeInvisible(text: string): string {
  return text.replace(INVISIBLE_CHARACTERS_PATTERN, "");
}

/** Returns the text on one line, without invisible characters. Values that are not strings give `""`. */
export function toLine(value: unknown): string {
  return typeof value === "string" ? removeInvisible(value.replace(/\s+/g, " ")).trim() : "";
}
