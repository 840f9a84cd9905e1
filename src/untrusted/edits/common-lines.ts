/** Maximum comparisons for the part between the equal start and end of two lists. */
const MAX_COMPARISONS = 1_000_000;

/**
 * Returns a longest common subsequence of two lists, as ascending pairs of indexes. Undefined if the lists are too long
 * to compare.
 */
export function findCommonSubsequence(
  left: readonly string[],
  right: readonly string[],
): [number, number][] | undefined {
  let prefixLength = 0;
  const minLength = Math.min(left.length, right.length);
  while (prefixLength < minLength && left[prefixLength] === right[prefixLength]) prefixLength++;
  let suffixLength = 0;
  while (
    suffixLength < minLength - prefixLength &&
    left[left.length - 1 - suffixLength] === right[right.length - 1 - suffixLength]
  )
    suffixLength++;
  const pairs: [number, number][] = [];
  for (let i = 0; i < prefixLength; i++) pairs.push([i, i]);
  const middlePairs = findMiddlePairs(left, right, prefixLength, suffixLength);
  if (!middlePairs) return undefined;
  pairs.push(...middlePairs);
  for (let i = suffixLength; i > 0; i--) pairs.push([left.length - i, right.length - i]);
  return pairs;
}

function findMiddlePairs(
  left: readonly string[],
  right: readonly string[],
  prefixLength: number,
  suffixLength: number,
): [number, number][] | undefined {
  const rows = left.length - prefixLength - suffixLength;
  const columns = right.length - prefixLength - suffixLength;
  if (rows * columns > MAX_COMPARISONS) return undefined;
  const width = columns + 1;
  // Length of the longest common subsequence from each position to the end.
  const lengths = new Uint32Array((rows + 1) * width);
  const lengthAt = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  const isEqual = (row: number, column: number): boolean => left[prefixLength + row] === right[prefixLength + column];
  for (let row = rows - 1; row >= 0; row--)
    for (let column = columns - 1; column >= 0; column--)
      lengths[row * width + column] = isEqual(row, column)
        ? lengthAt(row + 1, column + 1) + 1
        : Math.max(lengthAt(row + 1, column), lengthAt(row, column + 1));
  const pairs: [number, number][] = [];
  for (let row = 0, column = 0; row < rows && column < columns;)
    if (isEqual(row, column)) pairs.push([prefixLength + row++, prefixLength + column++]);
    else if (lengthAt(row + 1, column) >= lengthAt(row, column + 1)) row++;
    else column++;
  return pairs;
}
