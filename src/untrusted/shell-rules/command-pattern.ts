import { MAX_TRIED_PROGRAMS, findStarter } from "./command-starters.js";
import { splitNames, PathPattern } from "../search/glob-match.js";
import type { ShellCommand, ShellWord } from "./shell-line.js";

/** Whether a command matches. `"maybe"`: the shell or the program determines which command runs. */
export type Fit = "yes" | "maybe" | "no";

interface WordPattern {
  readonly glob: PathPattern;
  /** Whether further words that match may follow. */
  readonly repeats: boolean;
  /**
   * The text before the first wildcard, after which no `..` is matched. Undefined if the word is not a path with a
   * wildcard.
   */
  readonly folder: string | undefined;
}
/** `"any"`: any number of words. */
type PatternItem = WordPattern | "any";

/**
 * Globs for the words of one command, for example `git push*`. A separate `*`, or a `*` at the end, matches any number
 * of words, including none.
 */
export class CommandPattern {
  readonly #words: readonly string[];
  readonly #allowItems: readonly PatternItem[];
  readonly #denyItems: readonly PatternItem[];

  constructor(text: string) {
    this.#words = text.trim().split(/\s+/);
    this.#allowItems = createItems(this.#words, true);
    this.#denyItems = createItems(text.trim().toLowerCase().split(/\s+/), false);
  }

  /** Whether an `allow` with this pattern permits the command. */
  covers(command: ShellCommand): boolean {
    const { words, hasFiles } = command;
    // A variable in the program or the subcommand can select another command.
    if (hasFiles || words.slice(0, 2).some(({ expansion }) => expansion)) return false;
    if (words.some(({ expansion }) => expansion === "tilde")) return false;
    const { fixedWords = 0, starts = "nothing" } = findStarter(command) ?? {};
    // A shell or interpreter without arguments runs its input, which may be the output of another command.
    if (starts === "anything" && words.length === 1 && this.#allowItems.includes("any")) return false;
    if (!words.slice(0, fixedWords).every((word, i) => this.#namesLiterally(word, i))) return false;
    return matchesItems(this.#allowItems, words, { matchesUnknown: false, skipsOptions: false });
  }

  /**
   * Whether a rule with action `deny` or `ask` applies to the command. Options between words, letter case and the
   * program's folder are ignored.
   */
  forbids(command: ShellCommand): Fit {
    const { words } = command;
    const starter = findStarter(command);
    // A program that starts others may start any of its arguments.
    const startCount = starter && starter.starts !== "nothing" ? Math.min(words.length, MAX_TRIED_PROGRAMS) : 1;
    const results = new Set(Array.from({ length: startCount }, (_, start) => this.#matchWords(words.slice(start))));
    if (results.has("yes")) return "yes";
    const isUnknown = starter?.starts === "anything" || (starter !== undefined && words.length > MAX_TRIED_PROGRAMS);
    return isUnknown || results.has("maybe") ? "maybe" : "no";
  }

  /** Whether the pattern contains the word literally, without a wildcard. */
  #namesLiterally({ text, isLiteral }: ShellWord, at: number): boolean {
    const word = this.#words[at] ?? "";
    const literalText = at === this.#words.length - 1 ? word.replace(/\*$/, "") : word;
    return isLiteral && text === literalText && findWildcard(literalText) < 0;
  }

  #matchWords(words: readonly ShellWord[]): Fit {
    const [program, ...args] = words;
    if (!program) return "no";
    const name = removeFolder(program);
    const wordLists = [[name, ...args], words];
    // `git-push` is also a separate program.
    if (/^git-./i.test(name.text))
      wordLists.push([...["git", name.text.slice(4)].map((text) => ({ ...name, text })), ...args]);
    for (const matchesUnknown of [false, true])
      for (const wordList of wordLists)
        if (matchesItems(this.#denyItems, wordList.map(toLowerCaseWord), { matchesUnknown, skipsOptions: true }))
          return matchesUnknown ? "maybe" : "yes";
    return "no";
  }
}

/** `isStrict`: if the last word contains a slash, as in `cat src/*`, further words must match that word too. */
function createItems(words: readonly string[], isStrict: boolean): PatternItem[] {
  const lastWord = words.at(-1) ?? "";
  const lastRepeats = isStrict && lastWord.includes("/") && lastWord.endsWith("*");
  const items = words.map((word, i): PatternItem => {
    if (/^\*+$/.test(word)) return "any";
    const isPathPattern = isStrict && word.includes("/") && findWildcard(word) >= 0;
    return {
      glob: new PathPattern(replaceSlashes(word)),
      repeats: lastRepeats && i === words.length - 1,
      folder: isPathPattern ? word.slice(0, findWildcard(word)) : undefined,
    };
  });
  return !lastRepeats && items.at(-1) !== "any" && lastWord.endsWith("*") ? [...items, "any"] : items;
}

function findWildcard(word: string): number {
  return word.search(/[*?[\\]/);
}

/** Within a word, a slash is an ordinary character. */
function replaceSlashes(word: string): string {
  return word.replaceAll("/", "\0");
}

function toLowerCaseWord(word: ShellWord): ShellWord {
  return { ...word, text: word.text.toLowerCase() };
}

function removeFolder(word: ShellWord): ShellWord {
  return word.isLiteral ? { ...word, text: word.text.slice(word.text.lastIndexOf("/") + 1) } : word;
}

function matchesWord({ glob, folder }: WordPattern, { text, isLiteral }: ShellWord): boolean {
  if (!isLiteral || !glob.matches(splitNames(replaceSlashes(text)))) return false;
  if (folder === undefined) return true;
  return !/(^|\/)\.\.(\/|$)/.test(text.slice(folder.lastIndexOf("/") + 1));
}

/**
 * `matchesUnknown`: a word that is not literal may become any word. `skipsOptions`: options, with or without a value,
 * may precede each word but the first.
 */
function matchesItems(
  items: readonly PatternItem[],
  words: readonly ShellWord[],
  options: { matchesUnknown: boolean; skipsOptions: boolean },
): boolean {
  /** Positions in `items` after the words processed so far. */
  let positions = new Set([0]);
  /** Positions in `items` if the next word is the value of an option. */
  let positionsAfterOption = new Set<number>();
  const skipAny = (): void => {
    for (const i of positions) if (items[i] === "any") positions.add(i + 1);
  };
  skipAny();
  for (const word of words) {
    const nextPositions = new Set(positionsAfterOption);
    const optionPositions = new Set<number>();
    for (const i of positions) {
      const item = items[i];
      if (item === "any") nextPositions.add(i);
      if (!word.isLiteral && options.matchesUnknown && i <= items.length) {
        if (item && item !== "any") nextPositions.add(i + 1);
        // The word may become no word, or several.
        if (word.isSplit) for (let position = i; position <= items.length; position++) nextPositions.add(position);
      }
      if (!item || item === "any") continue;
      if (matchesWord(item, word)) {
        nextPositions.add(i + 1);
        if (item.repeats) nextPositions.add(i);
      }
      if (options.skipsOptions && i > 0 && word.isLiteral && word.text.startsWith("-")) {
        nextPositions.add(i);
        optionPositions.add(i);
      }
    }
    positions = nextPositions;
    positionsAfterOption = optionPositions;
    skipAny();
    if (positions.size === 0 && positionsAfterOption.size === 0) return false;
  }
  return positions.has(items.length);
}
