/** Maximum comparisons for the part between the equal start and end of two lists. */
const MAX_COMPARED = 1_000_000;

/** A longest common subsequence of two lists, as pairs of indexes. Undefined if the lists are too long to compare. */
export function commonSubsequence(left: readonly string[], right: readonly string[]): [number, number][] | undefined {
  let start = 0;
  const shorter = Math.min(left.length, right.length);
  while (start < shorter && left[start] === right[start]) start++;
  let end = 0;
  while (end < shorter - start && left[left.length - 1 - end] === right[right.length - 1 - end]) end++;
  const pairs: [number, number][] = [];
  for (let at = 0; at < start; at++) pairs.push([at, at]);
  const between = commonMiddle(left, right, start, end);
  if (!between) return undefined;
  pairs.push(...between);
  for (let at = end; at > 0; at--) pairs.push([left.length - at, right.length - at]);
  return pairs;
}

function commonMiddle(
  left: readonly string[],
  right: readonly string[],
  start: number,
  end: number,
): [number, number][] | undefined {
  const rows = left.length - start - end;
  const columns = right.length - start - end;
  if (rows * columns > MAX_COMPARED) return undefined;
  const width = columns + 1;
  // Length of the longest common subsequence from each position to the end.
  const shared = new Uint32Array((rows + 1) * width);
  const at = (row: number, column: number): number => shared[row * width + column] ?? 0;
  const equal = (row: number, column: number): boolean => left[start + row] === right[start + column];
  for (let row = rows - 1; row >= 0; row--)
    for (let column = columns - 1; column >= 0; column--)
      shared[row * width + column] = equal(row, column)
        ? at(row + 1, column + 1) + 1
        : Math.max(at(row + 1, column), at(row, column + 1));
  const pairs: [number, number][] = [];
  for (let row = 0, column = 0; row < rows && column < columns;)
    if (equal(row, column)) pairs.push([start + row++, start + column++]);
    else if (at(row + 1, column) >= at(row, column + 1)) row++;
    else column++;
  return pairs;
}
