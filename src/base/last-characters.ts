/** The last characters of a text, at most `most` UTF-16 units. Never starts with half of a surrogate pair. */
export function lastCharacters(text: string, maxUnits: number): string {
  if (text.length <= maxUnits) return text;
  const end = text.slice(-maxUnits);
  const first = end.charCodeAt(0);
  return first >= 0xdc00 && first <= 0xdfff ? end.slice(1) : end;
}
