/** Number of characters of a text that the engine searches for first. */
const PREFIX_CHARACTERS = 64;

/**
 * Returns the ascending offsets of `part` in `text`; none for an empty `part`. `includesOverlaps`: whether matches may
 * overlap.
 *
 * Takes linear time (Knuth, Morris and Pratt). The engine's own search can take the product of both lengths and cannot
 * be interrupted, even by ending its thread.
 */
export function findOffsets(text: string, part: string, includesOverlaps = false): number[] {
  const offsets: number[] = [];
  if (part === "" || part.length > text.length) return offsets;
  // The engine's search is fast, and the short prefix bounds its time.
  const firstCandidate = text.indexOf(part.slice(0, PREFIX_CHARACTERS));
  if (firstCandidate < 0) return offsets;
  const fallbacks = new Int32Array(part.length);
  for (let index = 1, matchedLength = 0; index < part.length; index++) {
    while (matchedLength > 0 && part.charCodeAt(index) !== part.charCodeAt(matchedLength))
      matchedLength = fallbacks[matchedLength - 1] ?? 0;
    if (part.charCodeAt(index) === part.charCodeAt(matchedLength)) matchedLength++;
    fallbacks[index] = matchedLength;
  }
  for (let index = firstCandidate, matchedLength = 0; index < text.length; index++) {
    const char = text.charCodeAt(index);
    while (matchedLength > 0 && char !== part.charCodeAt(matchedLength))
      matchedLength = fallbacks[matchedLength - 1] ?? 0;
    if (char === part.charCodeAt(matchedLength)) matchedLength++;
    if (matchedLength < part.length) continue;
    offsets.push(index + 1 - part.length);
    matchedLength = includesOverlaps ? (fallbacks[matchedLength - 1] ?? 0) : 0;
  }
  return offsets;
}

/** Replaces `length` characters with `replacement` at each offset. The offsets must ascend by at least `length`. */
export function replaceAt(text: string, offsets: readonly number[], length: number, replacement: string): string {
  const pieces: string[] = [];
  let copiedEnd = 0;
  for (const offset of offsets) {
    pieces.push(text.slice(copiedEnd, offset), replacement);
    copiedEnd = offset + length;
  }
  pieces.push(text.slice(copiedEnd));
  return pieces.join("");
}
