import type { Message } from "../../ports/message.js";
import type { MessageMatch } from "../../ports/session-queries.js";
import { isAscii, isUnspaced, listForms, listRunTerms, normalizeRun, normalizeWord, wordPatternOf } from "./words.js";

/** Maximum length of the searched text of a message, in characters. The rest is not found. */
const MAX_SEARCHED_CHARACTERS = 100_000;
/** Characters of a snippet before and after the start of its match. */
const SNIPPET_CHARACTERS = { before: 60, after: 140 };
/** Maximum number of characters by which a snippet is shortened, so that it starts and ends with complete words. */
const MAX_EDGE_CHARACTERS = 20;

/** A word of a query, normalized. `isUnspaced`: the word matches any part of a run without spaces. */
export interface QueryWord {
  text: string;
  isPrefix: boolean;
  isUnspaced: boolean;
}

/** A term of an index that a message must have. With `isPrefix`, any term that starts with `text`. */
export interface QueryTerm {
  text: string;
  isPrefix: boolean;
}

type Range = readonly [start: number, end: number];

/** Parses the text of a search. Only the last word matches as a prefix. Empty for a text without words. */
export function parseSearchText(text: string): QueryWord[] {
  const words = (text.match(wordPatternOf(text)) ?? []).map((word): QueryWord => {
    const isRun = isUnspaced(word);
    return { text: isRun ? normalizeRun(word) : normalizeWord(word), isPrefix: false, isUnspaced: isRun };
  });
  const queryWords = words.filter((word) => word.text !== "");
  const lastWord = queryWords.at(-1);
  if (lastWord) lastWord.isPrefix = true;
  return queryWords;
}

/** Lists the terms that the index entry of each match has. Terms consist of letters, digits and marks. */
export function toQueryTerms(words: readonly QueryWord[]): QueryTerm[] {
  return words.flatMap(({ text, isPrefix, isUnspaced: isRun }) => {
    if (!isRun) return [{ text, isPrefix }];
    const terms = listRunTerms(text).map((term) => ({ text: term, isPrefix: false }));
    // A single character starts the term of every run that contains it.
    return terms.length > 1 ? terms.slice(0, -1) : terms.map((term) => ({ ...term, isPrefix: true }));
  });
}

/** Lists the terms of a message for an index, each once. */
export function toIndexTerms(message: Pick<Message, "parts">): string[] {
  const text = readSearchedText(message);
  const terms = new Set<string>();
  // The set comes first, because most words repeat.
  for (const word of new Set(text.match(wordPatternOf(text)))) {
    if (isUnspaced(word)) for (const term of listRunTerms(normalizeRun(word))) terms.add(term);
    else for (const form of listForms(word)) terms.add(form.text);
  }
  terms.delete("");
  return [...terms];
}

/** Returns the text around a match; undefined if the message does not contain all words. */
export function findSnippet(
  message: Pick<Message, "parts">,
  words: readonly QueryWord[],
): Pick<MessageMatch, "snippet" | "ranges"> | undefined {
  const text = readSearchedText(message);
  if (words.length === 0 || !mayContain(text, words)) return undefined;
  const missingWords = new Set(words);
  // The longest word is usually the rarest.
  const longestWord = words.reduce((longest, word) => (word.text.length > longest.text.length ? word : longest));
  let position: number | undefined;
  for (const [start, , word] of listMatches(text, words)) {
    missingWords.delete(word);
    if (word === longestWord) position ??= start;
    if (missingWords.size === 0) return createSnippet(text, position ?? start, words);
  }
  return undefined;
}

/** The text of a message that a search reads: its text parts, as people see them. */
function readSearchedText({ parts }: Pick<Message, "parts">): string {
  let text = "";
  for (const part of parts) {
    if (part.type !== "text") continue;
    text += `${text === "" ? "" : "\n"}${part.originalText ?? part.text}`;
    if (text.length >= MAX_SEARCHED_CHARACTERS) return text.slice(0, MAX_SEARCHED_CHARACTERS);
  }
  return text;
}

/** False only if a word is certainly missing. Much faster than a complete comparison. */
function mayContain(text: string, words: readonly QueryWord[]): boolean {
  if (!isAscii(text)) return true;
  const lowerCaseText = text.toLowerCase();
  return words.every((word) => lowerCaseText.includes(word.text));
}

/** Lists the matches of query words in a text, ascending by their word of the text. */
function* listMatches(text: string, words: readonly QueryWord[]): Generator<[...Range, QueryWord]> {
  for (const { 0: word, index } of text.matchAll(wordPatternOf(text))) {
    if (isUnspaced(word)) {
      for (const match of listRunMatches(word, words)) yield [match[0] + index, match[1] + index, match[2]];
      continue;
    }
    for (const form of listForms(word))
      for (const queryWord of words) {
        if (queryWord.isUnspaced || !matches(form.text, queryWord)) continue;
        const rawCharacters = form.end - form.start;
        // Without a change of length, the range covers only the prefix.
        const end = form.text.length === rawCharacters ? form.start + queryWord.text.length : form.end;
        yield [index + form.start, index + end, queryWord];
      }
  }
}

function matches(form: string, { text, isPrefix }: QueryWord): boolean {
  return isPrefix ? form.startsWith(text) : form === text;
}

function* listRunMatches(word: string, words: readonly QueryWord[]): Generator<[...Range, QueryWord]> {
  const run = normalizeRun(word);
  for (const queryWord of words) {
    if (!queryWord.isUnspaced) continue;
    const { text } = queryWord;
    for (let start = run.indexOf(text); start >= 0; start = run.indexOf(text, start + text.length))
      yield run.length === word.length ? [start, start + text.length, queryWord] : [0, word.length, queryWord];
  }
}

/** Creates a snippet on one line, without control characters. `position`: start of a match in `text`. */
function createSnippet(
  text: string,
  position: number,
  words: readonly QueryWord[],
): Pick<MessageMatch, "snippet" | "ranges"> {
  const firstStart = Math.max(0, position - SNIPPET_CHARACTERS.before);
  const lastEnd = Math.min(text.length, position + SNIPPET_CHARACTERS.after);
  const leadingText = text.slice(firstStart, Math.min(position, firstStart + MAX_EDGE_CHARACTERS));
  const trailingText = text.slice(lastEnd - MAX_EDGE_CHARACTERS, lastEnd);
  const start = firstStart === 0 ? 0 : firstStart + Math.max(0, leadingText.search(/\s/));
  const lastSpace = trailingText.search(/\s\S*$/);
  const end = lastEnd === text.length || lastSpace < 0 ? lastEnd : lastEnd - MAX_EDGE_CHARACTERS + lastSpace;
  const line = text
    .slice(start, end)
    .replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, "")
    .replace(/[\s\p{Cc}]+/gu, " ");
  const snippet = `${start > 0 ? "…" : ""}${line.trim()}${end < text.length ? "…" : ""}`;
  return { snippet, ranges: mergeRanges([...listMatches(snippet, words)]) };
}

/** Sorts ranges and joins those that overlap. */
function mergeRanges(matchedRanges: readonly (readonly [...Range, QueryWord])[]): Range[] {
  const ranges: [number, number][] = [];
  for (const [start, end] of matchedRanges.toSorted((a, b) => a[0] - b[0])) {
    const lastRange = ranges.at(-1);
    if (lastRange && start < lastRange[1]) lastRange[1] = Math.max(lastRange[1], end);
    else ranges.push([start, end]);
  }
  return ranges;
}
