/** The last characters of a text, at most `maxUnits` UTF-16 units. Never starts with half of a surrogate pair. */
export function lastCharacters(text: string, maxUnits: number): string {
  if (text.length <= maxUnits) return text;
  const tail = text.slice(-maxUnits);
  const firstUnit = tail.charCodeAt(0);
  const isLowSurrogate = firstUnit >= 0xdc00 && firstUnit <= 0xdfff;
  return isLowSurrogate ? tail.slice(1) : tail;
}
