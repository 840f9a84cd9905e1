import { toLf } from "../../files/line-ends.js";
import { findOffsets, replaceAt } from "./find-text.js";

/** Ascending offsets in a file by matched text. The matched texts differ only in their line ends. */
export type MatchOffsets = ReadonlyMap<string, readonly number[]>;

/**
 * Finds a text in a file, both with one character per byte.
 *
 * All line ends are treated as equal, because a reader of the file does not see them. If the text contains Windows line
 * ends, exact matches are tried first. No match starts or ends within a line end.
 */
export function findMatchOffsets(latin1Text: string, part: string): MatchOffsets {
  const lineEndOffsets = findCrlfOffsets(latin1Text);
  if (part.includes("\r") && lineEndOffsets.length > 0) {
    const exactOffsets = findOffsets(latin1Text, part);
    const unsplitOffsets = exactOffsets.filter(
      (at) => !isWithinLineEnd(latin1Text, at) && !isWithinLineEnd(latin1Text, at + part.length),
    );
    if (unsplitOffsets.length > 0) return new Map([[part, unsplitOffsets]]);
  }
  const plainPart = toLf(part);
  if (lineEndOffsets.length === 0) return groupOffsets(plainPart, findOffsets(latin1Text, plainPart));
  const offsetsByText = new Map<string, number[]>();
  // Number of Windows line ends before an offset. Offsets must ascend.
  let passedLineEnds = 0;
  const toFileOffset = (at: number): number => {
    while (passedLineEnds < lineEndOffsets.length && (lineEndOffsets[passedLineEnds] ?? 0) < at) passedLineEnds++;
    return at + passedLineEnds;
  };
  for (const offset of findOffsets(toLf(latin1Text), plainPart)) {
    const start = toFileOffset(offset);
    const text = latin1Text.slice(start, toFileOffset(offset + plainPart.length));
    const sameTextOffsets = offsetsByText.get(text);
    if (sameTextOffsets) sameTextOffsets.push(start);
    else offsetsByText.set(text, [start]);
  }
  return offsetsByText;
}

/** Returns the text with a replacement for each match. */
export function replaceMatches(
  text: string,
  offsetsByText: MatchOffsets,
  getReplacement: (old: string) => string,
): string {
  const [firstGroup, ...otherGroups] = offsetsByText;
  if (firstGroup && otherGroups.length === 0)
    return replaceAt(text, firstGroup[1], firstGroup[0].length, getReplacement(firstGroup[0]));
  const sortedMatches = [...offsetsByText]
    .flatMap(([old, offsets]) => offsets.map((at) => ({ at, old })))
    .sort((left, right) => left.at - right.at);
  const pieces: string[] = [];
  let copiedEnd = 0;
  for (const { at, old } of sortedMatches) {
    pieces.push(text.slice(copiedEnd, at), getReplacement(old));
    copiedEnd = at + old.length;
  }
  pieces.push(text.slice(copiedEnd));
  return pieces.join("");
}

function groupOffsets(text: string, offsets: readonly number[]): MatchOffsets {
  return offsets.length > 0 ? new Map([[text, offsets]]) : new Map<string, number[]>();
}

function isWithinLineEnd(latin1Text: string, at: number): boolean {
  return latin1Text[at - 1] === "\r" && latin1Text[at] === "\n";
}

/** Returns the offset of each Windows line end in the text that has one character for each line end. */
function findCrlfOffsets(latin1Text: string): number[] {
  const offsets: number[] = [];
  for (let index = latin1Text.indexOf("\r\n"); index >= 0; index = latin1Text.indexOf("\r\n", index + 2))
    offsets.push(index - offsets.length);
  return offsets;
}
