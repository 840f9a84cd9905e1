/** Maximum difference between the lengths of two similar words, in characters. */
const MAX_LENGTH_DIFFERENCE = 8;

/** Returns the name most similar to a mistyped word. Undefined if no name is similar. */
export function findNearest(word: string, names: readonly string[]): string | undefined {
  let nearest: { name: string; distance: number } | undefined;
  for (const name of names) {
    const distance = name.startsWith(word) && word.length > 2 ? 1 : computeEditDistance(word, name);
    // A name is similar if at most a third of its characters differ.
    if (distance <= Math.max(1, Math.floor(name.length / 3)) && (nearest === undefined || distance < nearest.distance))
      nearest = { name, distance };
  }
  return nearest?.name;
}

/**
 * Computes the edit distance: insertions, deletions, replacements and swaps of neighbours. Returns Infinity if the
 * lengths differ by more than `MAX_LENGTH_DIFFERENCE`, to save time.
 */
function computeEditDistance(left: string, right: string): number {
  if (Math.abs(left.length - right.length) > MAX_LENGTH_DIFFERENCE) return Infinity;
  const rows: number[][] = [[...Array(right.length + 1).keys()]];
  for (let i = 1; i <= left.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= right.length; j += 1) {
      const isSame = left[i - 1] === right[j - 1];
      let minDistance = Math.min(row[j - 1]! + 1, rows[i - 1]![j]! + 1, rows[i - 1]![j - 1]! + (isSame ? 0 : 1));
      if (i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1])
        minDistance = Math.min(minDistance, rows[i - 2]![j - 2]! + 1);
      row.push(minDistance);
    }
    rows.push(row);
  }
  return rows[left.length]![right.length]!;
}
