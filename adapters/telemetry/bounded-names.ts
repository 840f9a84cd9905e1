/** The value of a label for all names beyond the limit. */
export const OTHER = "other";

/** Values of a label. Names beyond `maxNames` become `other`, so that no client can add labels without limit. */
export class BoundedNames {
  readonly #maxNames: number;
  readonly #names = new Set<string>();

  constructor(maxNames: number) {
    this.#maxNames = maxNames;
  }

  get(name: string): string {
    if (this.#names.has(name)) return name;
    if (this.#names.size >= this.#maxNames) return OTHER;
    this.#names.add(name);
    return name;
  }
}
