/**
 * PostgreSQL text can contain neither NUL nor a lone surrogate. Plain text columns store such a character as two
 * characters: a mark that valid text does not contain, and a code. The mark itself is stored twice. The encoding is
 * reversible, and an order by encoded ids stays consistent. JSON columns need no encoding, because `JSON.stringify`
 * escapes NUL and lone surrogates.
 */
const ESCAPE_MARK = "\ufdd0";
const ENCODED_NUL = "\ufdd1";
/** Offset to which surrogates, U+D800 to U+DFFF, are moved. */
const SURROGATE_OFFSET = 0xe000 - 0xd800;

const UNSUPPORTED_CHARACTER_PATTERN = /[\0\ufdd0]|\p{Surrogate}/u;
const UNSUPPORTED_CHARACTERS_PATTERN = new RegExp(UNSUPPORTED_CHARACTER_PATTERN, "gu");
const MARKED_CHARACTERS_PATTERN = /\ufdd0([^])/g;

/** Encodes a text for a column. */
export function encodeText(text: string): string {
  if (!UNSUPPORTED_CHARACTER_PATTERN.test(text)) return text;
  return text.replace(UNSUPPORTED_CHARACTERS_PATTERN, (character) => {
    if (character === "\0") return ESCAPE_MARK + ENCODED_NUL;
    return (
      ESCAPE_MARK +
      (character === ESCAPE_MARK ? ESCAPE_MARK : String.fromCharCode(character.charCodeAt(0) + SURROGATE_OFFSET))
    );
  });
}

/** Decodes the text of a column. */
export function decodeText(text: string): string {
  if (!text.includes(ESCAPE_MARK)) return text;
  return text.replace(MARKED_CHARACTERS_PATTERN, (_, encodedCharacter: string) => {
    if (encodedCharacter === ENCODED_NUL) return "\0";
    return encodedCharacter === ESCAPE_MARK
      ? ESCAPE_MARK
      : String.fromCharCode(encodedCharacter.charCodeAt(0) - SURROGATE_OFFSET);
  });
}
