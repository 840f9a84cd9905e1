import { MAX_STARTS, starterOf } from "./command-starters.js";
import { namesOf, PathPattern } from "../search/glob-match.js";
import type { ShellCommand, ShellWord } from "./shell-line.js";

/** Whether a command matches. `"maybe"`: the shell or the program determines which command runs. */
export type Fit = "yes" | "maybe" | "no";

interface WordPattern {
  readonly glob: PathPattern;
  /** Whether further words that match may follow. */
  readonly repeats: boolean;
  /** For paths: the text before the first wildcard, after which no `..` is matched. */
  readonly folder: string | undefined;
}
/** `"any"`: any number of words. */
type Item = WordPattern | "any";

/**
 * Globs for the words of one command, for example `git push*`. A separate `*`, or a `*` at the end, matches any number
 * of words, including none.
 */
export class CommandPattern {
  readonly #words: readonly string[];
  readonly #allowed: readonly Item[];
  readonly #forbidden: readonly Item[];

  constructor(text: string) {
    this.#words = text.trim().split(/\s+/);
    this.#allowed = itemsOf(this.#words, true);
    this.#forbidden = itemsOf(text.trim().toLowerCase().split(/\s+/), false);
  }

  /** Whether an `allow` with this pattern permits the command. */
  covers(command: ShellCommand): boolean {
    const { words, hasFiles } = command;
    if (hasFiles || words.slice(0, 2).some(({ expansion }) => expansion)) return false;
    if (words.some(({ expansion }) => expansion === "tilde")) return false;
    const { fixedWords = 0, starts = "nothing" } = starterOf(command) ?? {};
    // A shell or interpreter without arguments runs its input, which may be the output of another command.
    if (starts === "anything" && words.length === 1 && this.#allowed.includes("any")) return false;
    if (!words.slice(0, fixedWords).every((word, at) => this.#isWritten(word, at))) return false;
    return fits(this.#allowed, words, { perhaps: false, gaps: false });
  }

  /**
   * Whether a rule with action `deny` or `ask` applies to the command. Options between words, letter case and the
   * program's folder are ignored.
   */
  forbids(command: ShellCommand): Fit {
    const { words } = command;
    const starter = starterOf(command);
    // A program that starts others may start any of its arguments.
    const starts = starter && starter.starts !== "nothing" ? Math.min(words.length, MAX_STARTS) : 1;
    const results = new Set(Array.from({ length: starts }, (_, at) => this.#meetsWords(words.slice(at))));
    if (results.has("yes")) return "yes";
    const isUnknown = starter?.starts === "anything" || (starter !== undefined && words.length > MAX_STARTS);
    return isUnknown || results.has("maybe") ? "maybe" : "no";
  }

  /** Whether the pattern contains the word literally, without a wildcard. */
  #isWritten({ text, isLiteral }: ShellWord, at: number): boolean {
    const word = this.#words[at] ?? "";
    const written = at === this.#words.length - 1 ? word.replace(/\*$/, "") : word;
    return isLiteral && text === written && wildcardIn(written) < 0;
  }

  #meetsWords(words: readonly ShellWord[]): Fit {
    const [program, ...args] = words;
    if (!program) return "no";
    const name = withoutFolder(program);
    const ways = [[name, ...args], words];
    // `git-push` is also a separate program.
    if (/^git-./i.test(name.text))
      ways.push([...["git", name.text.slice(4)].map((text) => ({ ...name, text })), ...args]);
    for (const perhaps of [false, true])
      for (const way of ways)
        if (fits(this.#forbidden, way.map(lowerCase), { perhaps, gaps: true })) return perhaps ? "maybe" : "yes";
    return "no";
  }
}

/** `isStrict`: after a last word with a slash, as in `cat src/*`, further words must match that word too. */
function itemsOf(words: readonly string[], isStrict: boolean): Item[] {
  const last = words.at(-1) ?? "";
  const repeats = isStrict && last.includes("/") && last.endsWith("*");
  const items = words.map((word, at): Item => {
    if (/^\*+$/.test(word)) return "any";
    const isPaths = isStrict && word.includes("/") && wildcardIn(word) >= 0;
    return {
      glob: new PathPattern(withoutSlashes(word)),
      repeats: repeats && at === words.length - 1,
      folder: isPaths ? word.slice(0, wildcardIn(word)) : undefined,
    };
  });
  return !repeats && items.at(-1) !== "any" && last.endsWith("*") ? [...items, "any"] : items;
}

function wildcardIn(word: string): number {
  return word.search(/[*?[\\]/);
}

/** Within a word, a slash is an ordinary character. */
function withoutSlashes(word: string): string {
  return word.replaceAll("/", "\0");
}

function lowerCase(word: ShellWord): ShellWord {
  return { ...word, text: word.text.toLowerCase() };
}

function withoutFolder(word: ShellWord): ShellWord {
  return word.isLiteral ? { ...word, text: word.text.slice(word.text.lastIndexOf("/") + 1) } : word;
}

function matchesWord({ glob, folder }: WordPattern, { text, isLiteral }: ShellWord): boolean {
  if (!isLiteral || !glob.matches(namesOf(withoutSlashes(text)))) return false;
  if (folder === undefined) return true;
  return !/(^|\/)\.\.(\/|$)/.test(text.slice(folder.lastIndexOf("/") + 1));
}

/**
 * `perhaps`: a word that is not literal may become any word. `gaps`: options, with or without a value, may precede each
 * word but the first.
 */
function fits(items: readonly Item[], words: readonly ShellWord[], how: { perhaps: boolean; gaps: boolean }): boolean {
  /** Positions in `items` after the words so far. */
  let at = new Set([0]);
  /** The same if the next word is the value of an option. */
  let afterOption = new Set<number>();
  const skipAny = (): void => {
    for (const i of at) if (items[i] === "any") at.add(i + 1);
  };
  skipAny();
  for (const word of words) {
    const next = new Set(afterOption);
    const skipped = new Set<number>();
    for (const i of at) {
      const item = items[i];
      if (item === "any") next.add(i);
      if (!word.isLiteral && how.perhaps && i <= items.length) {
        if (item && item !== "any") next.add(i + 1);
        // The word may become no word, or several.
        if (word.isSplit) for (let to = i; to <= items.length; to++) next.add(to);
      }
      if (!item || item === "any") continue;
      if (matchesWord(item, word)) {
        next.add(i + 1);
        if (item.repeats) next.add(i);
      }
      if (how.gaps && i > 0 && word.isLiteral && word.text.startsWith("-")) {
        next.add(i);
        skipped.add(i);
      }
    }
    at = next;
    afterOption = skipped;
    skipAny();
    if (at.size === 0 && afterOption.size === 0) return false;
  }
  return at.has(items.length);
}
