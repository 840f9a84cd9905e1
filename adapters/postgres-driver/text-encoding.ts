/**
 * PostgreSQL's text holds neither NUL nor half of a surrogate pair. In columns that are plain text each of them stands as two
 * characters that no text has, the first of which stands for itself twice, so that all comes back as it was and order by
 * id stays one. What is stored as JSON needs none of this: `JSON.stringify` escapes both.
 */
const MARK = "\ufdd0";
const NUL = "\ufdd1";
/** Where the halves of pairs, U+D800 to U+DFFF, are put. */
const HALVES = 0xe000 - 0xd800;

const ODD = /[\0\ufdd0]|\p{Surrogate}/u;
const ALL_ODD = new RegExp(ODD, "gu");
const MARKED = /\ufdd0([^])/g;

/** A text as a column holds it. */
export function stored(text: string): string {
  if (!ODD.test(text)) return text;
  return text.replace(ALL_ODD, (odd) => {
    if (odd === "\0") return MARK + NUL;
    return MARK + (odd === MARK ? MARK : String.fromCharCode(odd.charCodeAt(0) + HALVES));
  });
}

/** A text of a column as it was given. */
export function told(text: string): string {
  if (!text.includes(MARK)) return text;
  return text.replace(MARKED, (_, kept: string) => {
    if (kept === NUL) return "\0";
    return kept === MARK ? MARK : String.fromCharCode(kept.charCodeAt(0) - HALVES);
  });
}
