/**
 * Characters that can make a line look like another: control characters, line breaks, direction marks, invisible
 * characters and lone surrogates. Joiners of scripts and emoji are allowed.
 */
const DECEPTIVE_PATTERN =
  /[\p{Cc}\p{Cs}\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

const SHORT_ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\u001b": "\\e" };

/** Text of a model or repository as one safe line: misleading characters are escaped. */
export function escapeInvisible(text: string): string {
  return text.replace(DECEPTIVE_PATTERN, (character) => SHORT_ESCAPES[character] ?? toUnicodeEscape(character));
}

function toUnicodeEscape(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
}
