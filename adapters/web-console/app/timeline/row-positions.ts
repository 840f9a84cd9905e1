/** Positions of rows with different heights, in pixels. The height of a row that was not drawn yet is estimated. */
export class RowPositions {
  /** Returns the estimated height of a row that was not drawn yet. */
  readonly #estimateHeight: (key: string) => number;
  readonly #measuredHeights = new Map<string, number>();
  #keys: readonly string[] = [];
  #indexesByKey = new Map<string, number>();
  /** `#tops[i]` is the top of row `i`. Valid up to the index `#lastValidIndex`. */
  #tops: number[] = [0];
  #lastValidIndex = 0;

  constructor(estimateHeight: (key: string) => number) {
    this.#estimateHeight = estimateHeight;
  }

  get count(): number {
    return this.#keys.length;
  }

  get totalHeight(): number {
    return this.topAt(this.#keys.length);
  }

  /** Whether `keys` is the array of the last `setKeys`, by identity. */
  isCurrent(keys: readonly string[]): boolean {
    return keys === this.#keys;
  }

  /** Replaces the rows and keeps measured heights. */
  setKeys(keys: readonly string[]): void {
    this.#keys = keys;
    this.#indexesByKey = new Map(keys.map((key, index) => [key, index]));
    this.#tops = [0];
    this.#lastValidIndex = 0;
  }

  /** Stores a measured height. Returns true if it differs from the height used before. */
  setHeight(key: string, height: number): boolean {
    const index = this.#indexesByKey.get(key);
    const previousHeight = this.#measuredHeights.get(key) ?? this.#estimateHeight(key);
    this.#measuredHeights.set(key, height);
    if (index === undefined || previousHeight === height) return false;
    this.#lastValidIndex = Math.min(this.#lastValidIndex, index);
    return true;
  }

  /** Index of a row; undefined if the list has no such row. */
  indexOf(key: string): number | undefined {
    return this.#indexesByKey.get(key);
  }

  keyAt(index: number): string | undefined {
    return this.#keys[index];
  }

  /** Top of row `index`; for `count`, the end of the last row. */
  topAt(index: number): number {
    this.#computeTops(index);
    return this.#tops[Math.min(index, this.#keys.length)] ?? 0;
  }

  /** Makes `#tops` valid up to the index. */
  #computeTops(index: number): void {
    const endIndex = Math.min(index, this.#keys.length);
    for (; this.#lastValidIndex < endIndex; this.#lastValidIndex += 1) {
      const key = this.#keys[this.#lastValidIndex] ?? "";
      this.#tops[this.#lastValidIndex + 1] =
        (this.#tops[this.#lastValidIndex] ?? 0) + (this.#measuredHeights.get(key) ?? this.#estimateHeight(key));
    }
  }

  /** Index of the row at a vertical position. Positions outside give the first or last row; 0 without rows. */
  indexAt(position: number): number {
    this.#computeTops(this.#keys.length);
    let [low, high] = [0, Math.max(0, this.#keys.length - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#tops[middle] ?? 0) <= position) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
