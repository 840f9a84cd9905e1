/** Maximum number of changes that are searched. */
const MAX_CHANGES = 600;

/** Indexes of equal elements of two sequences. */
export type IndexPair = readonly [oldIndex: number, newIndex: number];

/**
 * Myers' greedy algorithm: index pairs of the common elements with the fewest changes. Returns no pairs if there are
 * more than `MAX_CHANGES`. `k` is a diagonal, `x` an index in `a`, and `x - k` an index in `b`.
 */
export function* findFewestChanges(a: ArrayLike<unknown>, b: ArrayLike<unknown>): Generator<undefined, IndexPair[]> {
  const maxChanges = Math.min(a.length + b.length, MAX_CHANGES);
  const ends = new Int32Array(2 * maxChanges + 3);
  const trace: Int32Array[] = [];
  const middle = maxChanges + 1;
  for (let changes = 0; changes <= maxChanges; changes++) {
    trace.push(ends.slice(middle - changes - 1, middle + changes + 2));
    for (let k = -changes; k <= changes; k += 2) {
      const isDown = k === -changes || (k !== changes && (ends[middle + k - 1] ?? 0) < (ends[middle + k + 1] ?? 0));
      let x = isDown ? (ends[middle + k + 1] ?? 0) : (ends[middle + k - 1] ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      ends[middle + k] = x;
      if (x >= a.length && x - k >= b.length) return tracePath(trace, a.length, b.length);
    }
    // A step with many changes takes longer: yield after every 16 steps.
    if (changes % 16 === 15) yield;
  }
  return [];
}

function tracePath(trace: Int32Array[], aLength: number, bLength: number): IndexPair[] {
  const pairs: IndexPair[] = [];
  let [x, y] = [aLength, bLength];
  for (let changes = trace.length - 1; changes >= 0; changes--) {
    const ends = trace[changes] ?? new Int32Array();
    const endAt = (k: number) => ends[k + changes + 1] ?? 0;
    const k = x - y;
    const isDown = k === -changes || (k !== changes && endAt(k - 1) < endAt(k + 1));
    const beforeK = isDown ? k + 1 : k - 1;
    const beforeX = changes === 0 ? 0 : endAt(beforeK);
    const beforeY = changes === 0 ? 0 : beforeX - beforeK;
    while (x > beforeX && y > beforeY) pairs.push([--x, --y]);
    [x, y] = [beforeX, beforeY];
  }
  return pairs.reverse();
}
