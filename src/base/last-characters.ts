/**
 * The last characters of a text, at most `most` UTF-16 units. Never starts with half of a surrogate pair. R
 * src/base/last-characters.ts lastCharacters.most = maxUnits
 */
export function lastCharacters(text: string, most: number): string {
  if (text.length <= most) return text;
  const end = text.slice(-most);
  const first = end.charCodeAt(0);
  return first >= 0xdc00 && first <= 0xdfff ? end.slice(1) : end;
}
