/** Maximum length of a search term, in characters. The rest of a longer word is ignored. */
const MAX_TERM_CHARACTERS = 64;
/** Maximum number of parts of a name in camel case. A word with more parts is data, for instance Base64. */
const MAX_NAME_PARTS = 8;

const ASCII_WORD_PATTERN = /[A-Za-z0-9]+/g;
/** A run of characters of a script that writes words without spaces, or a word of another script. */
const WORD_PATTERN =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー][\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー\p{M}]*|(?:(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー])[\p{L}\p{N}\p{M}])+/gu;
const UNSPACED_PATTERN =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー]/u;
const NON_ASCII_PATTERN = /[^\0-\x7f]/;
const ACCENT_PATTERN = /[\u0300-\u036f]/g;
const NON_WORD_PATTERN = /[^\p{L}\p{N}\p{M}]/gu;
const NAME_PATTERN = /[\p{Ll}\p{N}]\p{Lu}|\p{Lu}{2}\p{Ll}/u;
const NAME_PART_PATTERN = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/u;

/** A part of a word that a query can name. `text` is normalized; `start` and `end` are indexes in the word. */
export interface WordForm {
  text: string;
  start: number;
  end: number;
}

/** Whether a text has only ASCII characters. */
export function isAscii(text: string): boolean {
  return !NON_ASCII_PATTERN.test(text);
}

/** Pattern of the words of a text. A run of characters of a script without spaces counts as one word. */
export function wordPatternOf(text: string): RegExp {
  return isAscii(text) ? ASCII_WORD_PATTERN : WORD_PATTERN;
}

/** Whether a word belongs to a script without spaces. A query then matches any part of the word. */
export function isUnspaced(word: string): boolean {
  return UNSPACED_PATTERN.test(word);
}

/** Returns a word without case and accents, with letters, digits and marks only. The result may be empty. */
export function normalizeWord(word: string): string {
  if (isAscii(word)) return word.slice(0, MAX_TERM_CHARACTERS).toLowerCase();
  const characters = word.normalize("NFKD").toLowerCase().replace(ACCENT_PATTERN, "").normalize("NFC");
  return truncate(characters.replace(NON_WORD_PATTERN, ""));
}

/** Returns a word of a script without spaces, without variants of its characters. */
export function normalizeRun(run: string): string {
  return run.normalize("NFKC").toLowerCase().replace(NON_WORD_PATTERN, "");
}

/**
 * Lists the forms of a word: the word, and the parts and the ends of a name in camel case. `parseHttpBody` has the
 * forms `parsehttpbody`, `parse`, `http`, `httpbody` and `body`.
 */
export function listForms(word: string): WordForm[] {
  const forms = [{ text: normalizeWord(word), start: 0, end: word.length }];
  if (word.length > MAX_TERM_CHARACTERS || !NAME_PATTERN.test(word)) return forms;
  const parts = word.split(NAME_PART_PATTERN);
  if (parts.length > MAX_NAME_PARTS) return forms;
  let start = 0;
  for (const part of parts) {
    const end = start + part.length;
    forms.push({ text: normalizeWord(part), start, end });
    if (start > 0 && end < word.length) forms.push({ text: normalizeWord(word.slice(start)), start, end: word.length });
    start = end;
  }
  return forms;
}

/** Lists each pair of neighboring characters of a normalized run, and its last character. */
export function listRunTerms(run: string): string[] {
  const characters = Array.from(run);
  return characters.map((character, index) => character + (characters[index + 1] ?? ""));
}

/** Truncates a term without splitting a character. */
function truncate(term: string): string {
  if (term.length <= MAX_TERM_CHARACTERS) return term;
  const lastUnit = term.charCodeAt(MAX_TERM_CHARACTERS - 1);
  return term.slice(0, lastUnit >= 0xd800 && lastUnit < 0xdc00 ? MAX_TERM_CHARACTERS - 1 : MAX_TERM_CHARACTERS);
}
