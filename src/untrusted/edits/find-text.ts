/** Number of characters of a text that the engine searches for first. */
const PREFIX_CHARACTERS = 64;

/**
 * Offsets of `part` in `text`, ascending. Overlapping matches are included only if `overlapping`.
 *
 * Takes linear time (Knuth, Morris and Pratt). The engine's own search can take the product of both lengths and cannot
 * be interrupted, even by ending its thread.
 */
export function offsetsOf(text: string, part: string, overlapping = false): number[] {
  const places: number[] = [];
  if (part === "" || part.length > text.length) return places;
  // The engine's search is fast, and its time is bounded for so few characters.
  const begin = text.indexOf(part.slice(0, PREFIX_CHARACTERS));
  if (begin < 0) return places;
  const back = new Int32Array(part.length);
  for (let at = 1, matched = 0; at < part.length; at++) {
    while (matched > 0 && part.charCodeAt(at) !== part.charCodeAt(matched)) matched = back[matched - 1] ?? 0;
    if (part.charCodeAt(at) === part.charCodeAt(matched)) matched++;
    back[at] = matched;
  }
  for (let at = begin, matched = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    while (matched > 0 && char !== part.charCodeAt(matched)) matched = back[matched - 1] ?? 0;
    if (char === part.charCodeAt(matched)) matched++;
    if (matched < part.length) continue;
    places.push(at + 1 - part.length);
    matched = overlapping ? (back[matched - 1] ?? 0) : 0;
  }
  return places;
}

/** Replaces `length` characters with `fresh` at each of these offsets. */
export function replaceAt(text: string, places: readonly number[], length: number, fresh: string): string {
  const pieces: string[] = [];
  let from = 0;
  for (const place of places) {
    pieces.push(text.slice(from, place), fresh);
    from = place + length;
  }
  pieces.push(text.slice(from));
  return pieces.join("");
}
