/** Positions of rows with different heights. Most rows have never been drawn, and their height is estimated. */
export class Heights {
  /** Estimated height of a row that was not drawn yet. */
  readonly #guess: (key: string) => number;
  readonly #known = new Map<string, number>();
  #keys: readonly string[] = [];
  #index = new Map<string, number>();
  /** `#tops[i]` is the top of row `i`. It is valid for indexes up to `#valid`. */
  #tops: number[] = [0];
  #valid = 0;

  constructor(guess: (key: string) => number) {
    this.#guess = guess;
  }

  get count(): number {
    return this.#keys.length;
  }

  get total(): number {
    return this.top(this.#keys.length);
  }

  /** Whether these are the current rows, by identity. */
  has(keys: readonly string[]): boolean {
    return keys === this.#keys;
  }

  /** Replaces the rows and keeps measured heights. */
  setKeys(keys: readonly string[]): void {
    this.#keys = keys;
    this.#index = new Map(keys.map((key, index) => [key, index]));
    this.#tops = [0];
    this.#valid = 0;
  }

  /** Stores a measured height. Returns true if it differs from the height used before. */
  measured(key: string, height: number): boolean {
    const index = this.#index.get(key);
    const before = this.#known.get(key) ?? this.#guess(key);
    this.#known.set(key, height);
    if (index === undefined || before === height) return false;
    this.#valid = Math.min(this.#valid, index);
    return true;
  }

  /** Index of a row; undefined if it is not present. */
  indexOf(key: string): number | undefined {
    return this.#index.get(key);
  }

  keyAt(index: number): string | undefined {
    return this.#keys[index];
  }

  /** Top of row `index`; for `count`, the end of the last row. */
  top(index: number): number {
    const last = Math.min(index, this.#keys.length);
    for (; this.#valid < last; this.#valid += 1) {
      const key = this.#keys[this.#valid] ?? "";
      this.#tops[this.#valid + 1] = (this.#tops[this.#valid] ?? 0) + (this.#known.get(key) ?? this.#guess(key));
    }
    return this.#tops[last] ?? 0;
  }

  /** Index of the row at a vertical position. */
  at(place: number): number {
    this.top(this.#keys.length);
    let [low, high] = [0, Math.max(0, this.#keys.length - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#tops[middle] ?? 0) <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
