/** Number of characters of a text that the engine searches for first. */
const PREFIX_CHARACTERS = 64;

/**
 * Offsets of `part` in `text`, ascending. Overlapping matches are included only if `overlapping`.
 *
 * Takes linear time (Knuth, Morris and Pratt). The engine's own search can take the product of both lengths and cannot
 * be interrupted, even by ending its thread.
 */
export function findOffsets(text: string, part: string, overlapping = false): number[] {
  const offsets: number[] = [];
  if (part === "" || part.length > text.length) return offsets;
  // The engine's search is fast, and its time is bounded for so few characters.
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
    matchedLength = overlapping ? (fallbacks[matchedLength - 1] ?? 0) : 0;
  }
  return offsets;
}

/** Replaces `length` characters with `replacement` at each of these offsets. */
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
