import { namesOf, PathPattern } from "./glob-match.js";

export interface PathRule {
  pattern: string;
  /** Whether the rule applies only to folders. */
  foldersOnly: boolean;
}

/** Thrown when the patterns of a search have used up their time. */
export class TimeLimitExceeded extends Error {}

/** Time limit for all patterns of one search together. */
export class TimeBudget {
  #leftMs: number;
  #since = Infinity;
  #ticks = 0;

  constructor(ms: number) {
    this.#leftMs = ms;
  }

  /** Runs `work`, which must be synchronous, and counts its time. */
  measure<T>(work: () => T): T {
    this.#since = performance.now();
    try {
      return work();
    } finally {
      this.#leftMs -= performance.now() - this.#since;
      this.#since = Infinity;
    }
  }

  /** Called for each rule that is read and before each match. Throws `TimeLimitExceeded`. */
  tick(): void {
    if (++this.#ticks % 16 === 0 && performance.now() - this.#since > this.#leftMs) throw new TimeLimitExceeded();
  }
}

/** Index of the last rule for any path, and for folders; -1 if there is none. */
interface LastRule {
  any: number;
  folder: number;
}

const NO_RULE: LastRule = { any: -1, folder: -1 };

/** The last rule for each text, searched by the lengths of the texts. */
class Index {
  readonly #rules = new Map<string, LastRule>();
  readonly #lengths = new Set<number>();

  add(text: string, place: number, foldersOnly: boolean): void {
    const earlierRule = this.#rules.get(text);
    this.#rules.set(text, { any: foldersOnly ? (earlierRule?.any ?? -1) : place, folder: place });
    this.#lengths.add(text.length);
  }

  at(text: string): LastRule {
    return this.#rules.get(text) ?? NO_RULE;
  }

  /**
   * Index of the last rule whose text equals the part of `name` that `cut` returns. Names are short, so few lengths are
   * tried.
   */
  last(name: string, isFolder: boolean, cut: (length: number) => string): number {
    let place = -1;
    for (const length of this.#lengths)
      if (length <= name.length) place = Math.max(place, ruleIndex(this.at(cut(length)), isFolder));
    return place;
  }
}

function ruleIndex(last: LastRule, isFolder: boolean): number {
  return isFolder ? last.folder : last.any;
}

/**
 * Rules for paths; the last match applies.
 *
 * Simple rules (`name`, `*.ext`, `name*`, `/a/b`) are looked up and only the others are matched one by one. The cost
 * per name is small even with many rules.
 */
export class PathRules {
  readonly #paths = new Index();
  readonly #names = new Index();
  readonly #heads = new Index();
  readonly #tails = new Index();
  readonly #others: { pattern: PathPattern; foldersOnly: boolean; place: number }[] = [];
  readonly #allowance: TimeBudget;

  constructor(rules: readonly PathRule[], allowance: TimeBudget) {
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

  /**
   * Index of the last rule that matches; -1 for none. Throws `TimeLimitExceeded`. @param path Relative path, with `/`
   * as separator.
   */
  last(path: string, isFolder: boolean): number {
    const name = path.slice(path.lastIndexOf("/") + 1);
    let place = Math.max(
      ruleIndex(this.#paths.at(path), isFolder),
      ruleIndex(this.#names.at(name), isFolder),
      this.#heads.last(name, isFolder, (length) => name.slice(0, length)),
      this.#tails.last(name, isFolder, (length) => name.slice(name.length - length)),
    );
    let names: string[][] | undefined;
    for (let at = this.#others.length - 1; at >= 0; at--) {
      const complexRule = this.#others[at];
      if (!complexRule || complexRule.place < place) break;
      this.#allowance.tick();
      if ((complexRule.foldersOnly && !isFolder) || !complexRule.pattern.mayMatch(path, name)) continue;
      names ??= namesOf(path);
      if (!complexRule.pattern.matches(names)) continue;
      place = complexRule.place;
      break;
    }
    return place;
  }
}
