/** Where rows of different heights are, of which most were never drawn. */
export class Heights {
  /** Of a row that was not drawn yet. */
  readonly #guess: (key: string) => number;
  readonly #known = new Map<string, number>();
  #keys: readonly string[] = [];
  #index = new Map<string, number>();
  /** `#tops[i]` is where row `i` begins, right up to and with `#valid`. */
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

  /** Whether these are the rows. */
  has(keys: readonly string[]): boolean {
    return keys === this.#keys;
  }

  /** These are the rows now. Heights that are known stay. */
  setKeys(keys: readonly string[]): void {
    this.#keys = keys;
    this.#index = new Map(keys.map((key, index) => [key, index]));
    this.#tops = [0];
    this.#valid = 0;
  }

  /** A row was measured; true where it is not as high as was thought. */
  measured(key: string, height: number): boolean {
    const index = this.#index.get(key);
    const before = this.#known.get(key) ?? this.#guess(key);
    this.#known.set(key, height);
    if (index === undefined || before === height) return false;
    this.#valid = Math.min(this.#valid, index);
    return true;
  }

  /** Which row it is. */
  indexOf(key: string): number | undefined {
    return this.#index.get(key);
  }

  keyAt(index: number): string | undefined {
    return this.#keys[index];
  }

  /** Where row `index` begins; `count`: where the last one ends. */
  top(index: number): number {
    const last = Math.min(index, this.#keys.length);
    for (; this.#valid < last; this.#valid += 1) {
      const key = this.#keys[this.#valid] ?? "";
      this.#tops[this.#valid + 1] = (this.#tops[this.#valid] ?? 0) + (this.#known.get(key) ?? this.#guess(key));
    }
    return this.#tops[last] ?? 0;
  }

  /** The row that is at this place. */
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
