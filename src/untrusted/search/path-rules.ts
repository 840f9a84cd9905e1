import { namesOf, PathPattern } from "./glob-match.js";

export interface PathRule {
  pattern: string;
  /** Whether it speaks of folders alone. */
  foldersOnly: boolean;
}

/** Thrown when patterns have had all the time that there is for them. */
export class TimeLimitExceeded extends Error {}

/** The time that the patterns of one search may take together. */
export class Allowance {
  #leftMs: number;
  #since = Infinity;
  #ticks = 0;

  constructor(ms: number) {
    this.#leftMs = ms;
  }

  /** Count the time of `work`, which does not wait for anything. */
  spend<T>(work: () => T): T {
    this.#since = performance.now();
    try {
      return work();
    } finally {
      this.#leftMs -= performance.now() - this.#since;
      this.#since = Infinity;
    }
  }

  /** Called before each match, and for each rule that is read. Throws `OutOfTime`. */
  tick(): void {
    if (++this.#ticks % 16 === 0 && performance.now() - this.#since > this.#leftMs) throw new TimeLimitExceeded();
  }
}

/** Place of the last rule for anything, and for folders; -1 for none. */
interface Last {
  any: number;
  folder: number;
}

const NONE: Last = { any: -1, folder: -1 };

/** Texts with the last rule of each, looked up by their lengths. */
class Index {
  readonly #rules = new Map<string, Last>();
  readonly #lengths = new Set<number>();

  add(text: string, place: number, foldersOnly: boolean): void {
    const known = this.#rules.get(text);
    this.#rules.set(text, { any: foldersOnly ? (known?.any ?? -1) : place, folder: place });
    this.#lengths.add(text.length);
  }

  at(text: string): Last {
    return this.#rules.get(text) ?? NONE;
  }

  /** The last rule whose text `cut` finds in `name`. A name is short, so are the lengths that matter. */
  last(name: string, isFolder: boolean, cut: (length: number) => string): number {
    let place = -1;
    for (const length of this.#lengths)
      if (length <= name.length) place = Math.max(place, placeOf(this.at(cut(length)), isFolder));
    return place;
  }
}

function placeOf(last: Last, isFolder: boolean): number {
  return isFolder ? last.folder : last.any;
}

/**
 * Rules for paths, of which the last that matches counts. The usual ones (`name`, `*.ext`, `name*`, `/a/b`) are looked up,
 * the others looked at one after the other, so that a name costs little however many rules there are.
 */
export class PathRules {
  readonly #paths = new Index();
  readonly #names = new Index();
  readonly #heads = new Index();
  readonly #tails = new Index();
  readonly #others: { pattern: PathPattern; foldersOnly: boolean; place: number }[] = [];
  readonly #allowance: Allowance;

  constructor(rules: readonly PathRule[], allowance: Allowance) {
    this.#allowance = allowance;
    for (const [place, { pattern: text, foldersOnly }] of rules.entries()) {
      allowance.tick();
      const pattern = new PathPattern(text);
      const { simple } = pattern;
      if (simple?.kind === "path") this.#paths.add(simple.path, place, foldersOnly);
      else if (simple?.kind === "name") this.#names.add(simple.text, place, foldersOnly);
      else if (simple?.kind === "head") this.#heads.add(simple.text, place, foldersOnly);
      else if (simple?.kind === "tail") this.#tails.add(simple.text, place, foldersOnly);
      else this.#others.push({ pattern, foldersOnly, place });
    }
  }

  /** Place of the last rule that matches; -1 for none. @param path Relative, with `/`. Throws `OutOfTime`. */
  last(path: string, isFolder: boolean): number {
    const name = path.slice(path.lastIndexOf("/") + 1);
    let place = Math.max(
      placeOf(this.#paths.at(path), isFolder),
      placeOf(this.#names.at(name), isFolder),
      this.#heads.last(name, isFolder, (length) => name.slice(0, length)),
      this.#tails.last(name, isFolder, (length) => name.slice(name.length - length)),
    );
    let names: string[][] | undefined;
    for (let at = this.#others.length - 1; at >= 0; at--) {
      const other = this.#others[at];
      if (!other || other.place < place) break;
      this.#allowance.tick();
      if ((other.foldersOnly && !isFolder) || !other.pattern.fits(path, name)) continue;
      names ??= namesOf(path);
      if (!other.pattern.matches(names)) continue;
      place = other.place;
      break;
    }
    return place;
  }
}
