import { splitNames, PathPattern } from "./glob-match.js";

export interface PathRule {
  pattern: string;
  /** Whether the rule applies only to folders. */
  foldersOnly: boolean;
}

/** Thrown when the patterns of a search have used up their time. */
export class TimeLimitExceeded extends Error {}

/** The clock is read only at every 16th tick, because a reading costs more than most matches. */
const TICKS_PER_CLOCK_READ = 16;

/** Time limit for all patterns of one search together. */
export class TimeBudget {
  #remainingMs: number;
  /** Start of the current measurement. Infinity outside a measurement, where no limit applies. */
  #startedMs = Infinity;
  #tickCount = 0;

  constructor(limitMs: number) {
    this.#remainingMs = limitMs;
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

  /** Checks the time limit. Called for each rule that is read and before each match. Throws `TimeLimitExceeded`. */
  tick(): void {
    if (++this.#tickCount % TICKS_PER_CLOCK_READ === 0 && performance.now() - this.#startedMs > this.#remainingMs)
      throw new TimeLimitExceeded();
  }
}

/** Index of the last rule for any path, and of the last rule for folders; -1 if there is none. */
interface LastRule {
  anyPath: number;
  folder: number;
}

const NO_RULE: LastRule = { anyPath: -1, folder: -1 };

/** The last rule for each text. Finds texts by their lengths. */
class TextIndex {
  readonly #rules = new Map<string, LastRule>();
  readonly #lengths = new Set<number>();

  add(text: string, index: number, foldersOnly: boolean): void {
    const earlierRule = this.#rules.get(text);
    this.#rules.set(text, { anyPath: foldersOnly ? (earlierRule?.anyPath ?? -1) : index, folder: index });
    this.#lengths.add(text.length);
  }

  lookUp(text: string): LastRule {
    return this.#rules.get(text) ?? NO_RULE;
  }

  /**
   * Returns the index of the last rule whose text equals the part of `name` that `getPart` returns; -1 if there is
   * none. Names are short, so few lengths are tried.
   */
  findLast(name: string, isFolder: boolean, getPart: (length: number) => string): number {
    let index = -1;
    for (const length of this.#lengths)
      if (length <= name.length) index = Math.max(index, selectIndex(this.lookUp(getPart(length)), isFolder));
    return index;
  }
}

function selectIndex(lastRule: LastRule, isFolder: boolean): number {
  return isFolder ? lastRule.folder : lastRule.anyPath;
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
  readonly #prefixes = new TextIndex();
  readonly #suffixes = new TextIndex();
  readonly #complexRules: { pattern: PathPattern; foldersOnly: boolean; index: number }[] = [];
  readonly #timeBudget: TimeBudget;

  constructor(rules: readonly PathRule[], timeBudget: TimeBudget) {
    this.#timeBudget = timeBudget;
    for (const [index, { pattern: text, foldersOnly }] of rules.entries()) {
      timeBudget.tick();
      const pattern = new PathPattern(text);
      const { simplePattern } = pattern;
      if (simplePattern?.kind === "path") this.#paths.add(simplePattern.path, index, foldersOnly);
      else if (simplePattern?.kind === "name") this.#names.add(simplePattern.text, index, foldersOnly);
      else if (simplePattern?.kind === "prefix") this.#prefixes.add(simplePattern.text, index, foldersOnly);
      else if (simplePattern?.kind === "suffix") this.#suffixes.add(simplePattern.text, index, foldersOnly);
      else this.#complexRules.push({ pattern, foldersOnly, index });
    }
  }

  /**
   * Returns the index of the last rule that matches; -1 for none. Throws `TimeLimitExceeded`. `path`: a relative path,
   * with `/` as separator.
   */
  findLast(path: string, isFolder: boolean): number {
    const name = path.slice(path.lastIndexOf("/") + 1);
    let lastIndex = Math.max(
      selectIndex(this.#paths.lookUp(path), isFolder),
      selectIndex(this.#names.lookUp(name), isFolder),
      this.#prefixes.findLast(name, isFolder, (length) => name.slice(0, length)),
      this.#suffixes.findLast(name, isFolder, (length) => name.slice(name.length - length)),
    );
    let names: string[][] | undefined;
    for (let i = this.#complexRules.length - 1; i >= 0; i--) {
      const complexRule = this.#complexRules[i];
      if (!complexRule || complexRule.index < lastIndex) break;
      this.#timeBudget.tick();
      if ((complexRule.foldersOnly && !isFolder) || !complexRule.pattern.mayMatch(path, name)) continue;
      names ??= splitNames(path);
      if (!complexRule.pattern.matches(names)) continue;
      lastIndex = complexRule.index;
      break;
    }
    return lastIndex;
  }
}
