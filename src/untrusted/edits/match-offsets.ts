import { toLf } from "../../files/line-ends.js";
import { offsetsOf, replaceAt } from "./find-text.js";

/** Ascending offsets in a file by matched text. The matched texts differ only in their line ends. */
export type MatchOffsets = ReadonlyMap<string, readonly number[]>;

/**
 * Finds a text in a file, both as one character per byte.
 *
 * All line ends are treated as equal, because a reader of the file does not see them. If the text contains Windows line
 * ends, exact matches are tried first. A match never splits a line end.
 */
export function findMatchOffsets(latin: string, part: string): MatchOffsets {
  const ends = windowsEnds(latin);
  if (part.includes("\r") && ends.length > 0) {
    const exact = offsetsOf(latin, part);
    const unsplitOffsets = exact.filter((at) => !isWithinEnd(latin, at) && !isWithinEnd(latin, at + part.length));
    if (unsplitOffsets.length > 0) return new Map([[part, unsplitOffsets]]);
  }
  const plain = toLf(part);
  if (ends.length === 0) return groups(plain, offsetsOf(latin, plain));
  const offsetsByText = new Map<string, number[]>();
  // Number of Windows line ends before an offset. Offsets must ascend.
  let passed = 0;
  const inFile = (at: number): number => {
    while (passed < ends.length && (ends[passed] ?? 0) < at) passed++;
    return at + passed;
  };
  for (const place of offsetsOf(toLf(latin), plain)) {
    const start = inFile(place);
    const text = latin.slice(start, inFile(place + plain.length));
    const sameTextOffsets = offsetsByText.get(text);
    if (sameTextOffsets) sameTextOffsets.push(start);
    else offsetsByText.set(text, [start]);
  }
  return offsetsByText;
}

/** Returns the text with a replacement at each place. */
export function replaceMatches(text: string, places: MatchOffsets, freshFor: (old: string) => string): string {
  const [first, ...otherGroups] = places;
  if (first && otherGroups.length === 0) return replaceAt(text, first[1], first[0].length, freshFor(first[0]));
  const all = [...places]
    .flatMap(([old, offsets]) => offsets.map((at) => ({ at, old })))
    .sort((left, right) => left.at - right.at);
  const pieces: string[] = [];
  let from = 0;
  for (const { at, old } of all) {
    pieces.push(text.slice(from, at), freshFor(old));
    from = at + old.length;
  }
  pieces.push(text.slice(from));
  return pieces.join("");
}

function groups(text: string, places: readonly number[]): MatchOffsets {
  return places.length > 0 ? new Map([[text, places]]) : new Map<string, number[]>();
}

function isWithinEnd(latin: string, at: number): boolean {
  return latin[at - 1] === "\r" && latin[at] === "\n";
}

/** Offsets of Windows line ends in the text after each is reduced to one character. */
function windowsEnds(latin: string): number[] {
  const ends: number[] = [];
  for (let at = latin.indexOf("\r\n"); at >= 0; at = latin.indexOf("\r\n", at + 2)) ends.push(at - ends.length);
  return ends;
}
