/** Things kept in an order that is theirs alone: no two are equal. Quick where what is new comes last. */
export class Sorted<T> {
  readonly #items: T[] = [];
  readonly #compare: (a: T, b: T) => number;

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  /** In their order. */
  get items(): readonly T[] {
    return this.#items;
  }

  add(item: T): void {
    const last = this.#items.at(-1);
    if (last === undefined || this.#compare(last, item) < 0) this.#items.push(item);
    else this.#items.splice(this.#placeOf(item), 0, item);
  }

  /** Before anything of it changes that the order looks at. */
  remove(item: T): void {
    const place = this.#placeOf(item);
    if (this.#items[place] === item) this.#items.splice(place, 1);
  }

  /** How many come first for which `isEarlier` holds; it holds for none behind one for which it does not. */
  count(isEarlier: (item: T) => boolean): number {
    let from = 0;
    let to = this.#items.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (isEarlier(this.#items[middle] as T)) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  #placeOf(item: T): number {
    return this.count((other) => this.#compare(other, item) < 0);
  }
}

/** The order of lists: by time, ties by id, the greatest first. */
export function newestFirst(time: string, id: string, otherTime: string, otherId: string): number {
  if (time !== otherTime) return time > otherTime ? -1 : 1;
  return id === otherId ? 0 : id > otherId ? -1 : 1;
}
