/**
 * PostgreSQL text can contain neither NUL nor a lone surrogate. Plain text columns store each of them as two
 * characters, starting with a mark that valid text does not contain. The mark itself is stored twice. The encoding is
 * reversible, and an order by encoded ids stays consistent. JSON columns do not need it, because `JSON.stringify`
 * escapes both.
 */
const MARK = "\ufdd0";
const NUL = "\ufdd1";
/** Offset to which surrogates, U+D800 to U+DFFF, are moved. */
const SURROGATE_OFFSET = 0xe000 - 0xd800;

const UNSUPPORTED = /[\0\ufdd0]|\p{Surrogate}/u;
const ALL_UNSUPPORTED = new RegExp(UNSUPPORTED, "gu");
const MARKED = /\ufdd0([^])/g;

/** Encodes a text for a column. */
export function encodeText(text: string): string {
  if (!UNSUPPORTED.test(text)) return text;
  return text.replace(ALL_UNSUPPORTED, (odd) => {
    if (odd === "\0") return MARK + NUL;
    return MARK + (odd === MARK ? MARK : String.fromCharCode(odd.charCodeAt(0) + SURROGATE_OFFSET));
  });
}

/** Decodes the text of a column. */
export function decodeText(text: string): string {
  if (!text.includes(MARK)) return text;
  return text.replace(MARKED, (_, encoded: string) => {
    if (encoded === NUL) return "\0";
    return encoded === MARK ? MARK : String.fromCharCode(encoded.charCodeAt(0) - SURROGATE_OFFSET);
  });
}
