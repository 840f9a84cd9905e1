/** So many comparisons are made to find what two lists share between their equal ends. */
const MAX_COMPARED = 1_000_000;

/** A longest list of entries that both have, in order: where they are in the one and in the other. Undefined of lists too long to tell. */
export function common(one: readonly string[], other: readonly string[]): [number, number][] | undefined {
  let start = 0;
  const shorter = Math.min(one.length, other.length);
  while (start < shorter && one[start] === other[start]) start++;
  let end = 0;
  while (end < shorter - start && one[one.length - 1 - end] === other[other.length - 1 - end]) end++;
  const pairs: [number, number][] = [];
  for (let at = 0; at < start; at++) pairs.push([at, at]);
  const between = middle(one, other, start, end);
  if (!between) return undefined;
  pairs.push(...between);
  for (let at = end; at > 0; at--) pairs.push([one.length - at, other.length - at]);
  return pairs;
}

function middle(
  one: readonly string[],
  other: readonly string[],
  start: number,
  end: number,
): [number, number][] | undefined {
  const rows = one.length - start - end;
  const columns = other.length - start - end;
  if (rows * columns > MAX_COMPARED) return undefined;
  const width = columns + 1;
  // How many are shared from there on.
  const shared = new Uint32Array((rows + 1) * width);
  const at = (row: number, column: number): number => shared[row * width + column] ?? 0;
  const equal = (row: number, column: number): boolean => one[start + row] === other[start + column];
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
