/** Returns the name most similar to a mistyped word. Undefined if no name is similar. */
export function findNearest(word: string, names: readonly string[]): string | undefined {
  let nearest: { name: string; distance: number } | undefined;
  for (const name of names) {
    const distance = name.startsWith(word) && word.length > 2 ? 1 : computeEditDistance(word, name);
    if (distance <= Math.max(1, Math.floor(name.length / 3)) && (nearest === undefined || distance < nearest.distance))
      nearest = { name, distance };
  }
  return nearest?.name;
}

/**
 * Computes the edit distance: insertions, deletions, replacements and swaps of neighbours. Returns Infinity if the
 * lengths differ by more than 8, to save time.
 */
function computeEditDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 8) return Infinity;
  const rows: number[][] = [[...Array(b.length + 1).keys()]];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const isSame = a[i - 1] === b[j - 1];
      let minDistance = Math.min(row[j - 1]! + 1, rows[i - 1]![j]! + 1, rows[i - 1]![j - 1]! + (isSame ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        minDistance = Math.min(minDistance, rows[i - 2]![j - 2]! + 1);
      row.push(minDistance);
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
