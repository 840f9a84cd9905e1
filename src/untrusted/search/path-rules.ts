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
  #remainingMs: number;
  #startedMs = Infinity;
  #tickCount = 0;

  constructor(ms: number) {
    this.#remainingMs = ms;
  }

  /** Runs `work`, which must be synchronous, and counts its time. */
  measure<T>(work: () => T): T {
    this.#startedMs = performance.now();
    try {
      return work();
    } finally {
      this.#remainingMs -= performance.now() - this.#startedMs;
      this.#startedMs = Infinity;
    }
  }

  /** Called for each rule that is read and before each match. Throws `TimeLimitExceeded`. */
  tick(): void {
    if (++this.#tickCount % 16 === 0 && performance.now() - this.#startedMs > this.#remainingMs)
      throw new TimeLimitExceeded();
  }
}

/** Index of the last rule for any path, and for folders; -1 if there is none. */
interface LastRule {
  any: number;
  folder: number;
}

const NO_RULE: LastRule = { any: -1, folder: -1 };

/** The last rule for each text, searched by the lengths of the texts. */
class TextIndex {
  readonly #rules = new Map<string, LastRule>();
  readonly #lengths = new Set<number>();

  add(text: string, index: number, foldersOnly: boolean): void {
    const earlierRule = this.#rules.get(text);
    this.#rules.set(text, { any: foldersOnly ? (earlierRule?.any ?? -1) : index, folder: index });
    this.#lengths.add(text.length);
  }

  lookUp(text: string): LastRule {
    return this.#rules.get(text) ?? NO_RULE;
  }

  /**
   * Index of the last rule whose text equals the part of `name` that `cut` returns. Names are short, so few lengths are
   * tried.
   */
  last(name: string, isFolder: boolean, cut: (length: number) => string): number {
    let index = -1;
    for (const length of this.#lengths)
      if (length <= name.length) index = Math.max(index, selectIndex(this.lookUp(cut(length)), isFolder));
    return index;
  }
}

function selectIndex(lastRule: LastRule, isFolder: boolean): number {
  return isFolder ? lastRule.folder : lastRule.any;
}

/**
 * Rules for paths; the last match applies.
 *
 * Simple rules (`name`, `*.ext`, `name*`, `/a/b`) are looked up and only the others are matched one by one. The cost
 * per name is small even with many rules.
 */
export class PathRules {
  readonly #paths = new TextIndex();
  readonly #names = new TextIndex();
  readonly #heads = new TextIndex();
  readonly #tails = new TextIndex();
  readonly #complexRules: { pattern: PathPattern; foldersOnly: boolean; index: number }[] = [];
  readonly #timeBudget: TimeBudget;

  constructor(rules: readonly PathRule[], timeBudget: TimeBudget) {
    this.#timeBudget = timeBudget;
    for (const [index, { pattern: text, foldersOnly }] of rules.entries()) {
      timeBudget.tick();
      const pattern = new PathPattern(text);
      const { simple } = pattern;
      if (simple?.kind === "path") this.#paths.add(simple.path, index, foldersOnly);
      else if (simple?.kind === "name") this.#names.add(simple.text, index, foldersOnly);
      else if (simple?.kind === "head") this.#heads.add(simple.text, index, foldersOnly);
      else if (simple?.kind === "tail") this.#tails.add(simple.text, index, foldersOnly);
      else this.#complexRules.push({ pattern, foldersOnly, index });
    }
  }

  /**
   * Index of the last rule that matches; -1 for none. Throws `TimeLimitExceeded`. @param path Relative path, with `/`
   * as separator.
   */
  findLast(path: string, isFolder: boolean): number {
    const name = path.slice(path.lastIndexOf("/") + 1);
    let lastIndex = Math.max(
      selectIndex(this.#paths.lookUp(path), isFolder),
      selectIndex(this.#names.lookUp(name), isFolder),
      this.#heads.last(name, isFolder, (length) => name.slice(0, length)),
      this.#tails.last(name, isFolder, (length) => name.slice(name.length - length)),
    );
    let names: string[][] | undefined;
    for (let i = this.#complexRules.length - 1; i >= 0; i--) {
      const complexRule = this.#complexRules[i];
      if (!complexRule || complexRule.index < lastIndex) break;
      this.#timeBudget.tick();
      if ((complexRule.foldersOnly && !isFolder) || !complexRule.pattern.mayMatch(path, name)) continue;
      names ??= namesOf(path);
      if (!complexRule.pattern.matches(names)) continue;
      lastIndex = complexRule.index;
      break;
    }
    return lastIndex;
  }
}
