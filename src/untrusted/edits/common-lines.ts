/** Maximum comparisons for the part between the equal start and end of two lists. */
const MAX_COMPARISONS = 1_000_000;

/** A longest common subsequence of two lists, as pairs of indexes. Undefined if the lists are too long to compare. */
export function commonSubsequence(left: readonly string[], right: readonly string[]): [number, number][] | undefined {
  let start = 0;
  const minLength = Math.min(left.length, right.length);
  while (start < minLength && left[start] === right[start]) start++;
  let end = 0;
  while (end < minLength - start && left[left.length - 1 - end] === right[right.length - 1 - end]) end++;
  const pairs: [number, number][] = [];
  for (let i = 0; i < start; i++) pairs.push([i, i]);
  const middlePairs = findMiddlePairs(left, right, start, end);
  if (!middlePairs) return undefined;
  pairs.push(...middlePairs);
  for (let i = end; i > 0; i--) pairs.push([left.length - i, right.length - i]);
  return pairs;
}

function findMiddlePairs(
  left: readonly string[],
  right: readonly string[],
  start: number,
  end: number,
): [number, number][] | undefined {
  const rows = left.length - start - end;
  const columns = right.length - start - end;
  if (rows * columns > MAX_COMPARISONS) return undefined;
  const width = columns + 1;
  // Length of the longest common subsequence from each position to the end.
  const lengths = new Uint32Array((rows + 1) * width);
  const lengthAt = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  const isEqual = (row: number, column: number): boolean => left[start + row] === right[start + column];
  for (let row = rows - 1; row >= 0; row--)
    for (let column = columns - 1; column >= 0; column--)
      lengths[row * width + column] = isEqual(row, column)
        ? lengthAt(row + 1, column + 1) + 1
        : Math.max(lengthAt(row + 1, column), lengthAt(row, column + 1));
  const pairs: [number, number][] = [];
  for (let row = 0, column = 0; row < rows && column < columns;)
    if (isEqual(row, column)) pairs.push([start + row++, start + column++]);
    else if (lengthAt(row + 1, column) >= lengthAt(row, column + 1)) row++;
    else column++;
  return pairs;
}
