import { namesOf, PathPattern } from "./glob-match.js";
import type { Command, Word } from "./command.js";

/** Whether a command fits: surely, perhaps (what is not known of it may make it fit), or surely not. */
export type Fit = "yes" | "maybe" | "no";

/** A pattern for one word; null for any number of words. */
type Item = PathPattern | null;

/**
 * Words of a command, each a glob: `git push*`. A `*` alone, and one at the end, stand for any number of words, none too.
 */
export class CommandPattern {
  readonly #text: string;
  readonly #exact: readonly Item[];
  readonly #folded: readonly Item[];

  constructor(text: string) {
    this.#text = text;
    this.#exact = itemsOf(text);
    this.#folded = itemsOf(text.toLowerCase());
  }

  /** Whether it names a program, and does not fit all of them. */
  get namesProgram(): boolean {
    return !this.#text.trim().startsWith("*");
  }

  /** Whether the command is one of those that it stands for, in every word and nothing beside. */
  covers({ words, files }: Command): boolean {
    return !files && fits(this.#exact, words, { perhaps: false, gaps: false });
  }

  /** As who wants to stop a command means it: options before a word, another case, the program's path make no difference. */
  meets({ words, assigned }: Command): Fit {
    const [program, ...rest] = words.slice(assigned);
    const ways =
      program === undefined
        ? []
        : [
            [named(program), ...rest],
            [program, ...rest],
          ];
    for (const perhaps of [false, true])
      for (const way of [...ways, words])
        if (fits(this.#folded, way.map(folded), { perhaps, gaps: true })) return perhaps ? "maybe" : "yes";
    // It may be one that starts others: `env`, `eval`, a shell.
    return program?.known === false ? "maybe" : "no";
  }
}

function itemsOf(text: string): Item[] {
  const words = text.trim().split(/\s+/);
  const items = words.map((word) => (/^\*+$/.test(word) ? null : new PathPattern(wordOf(word))));
  return items.at(-1) !== null && text.trim().endsWith("*") ? [...items, null] : items;
}

/** A slash in a word is a character like the others. */
function wordOf(text: string): string {
  return text.replaceAll("/", "\0");
}

function folded(word: Word): Word {
  return { ...word, text: word.text.toLowerCase() };
}

function named(word: Word): Word {
  return word.known ? { ...word, text: word.text.slice(word.text.lastIndexOf("/") + 1) } : word;
}

/**
 * `perhaps`: what is not known may be what is wanted. `gaps`: before each word but the first there may be options, each
 * with a value or without.
 */
function fits(items: readonly Item[], words: readonly Word[], how: { perhaps: boolean; gaps: boolean }): boolean {
  /** Places in `items` that the words so far may have led to. */
  let at = new Set([0]);
  /** Of a word that may be the value of an option. */
  let after = new Set<number>();
  const open = (): void => {
    for (const i of at) if (i < items.length && items[i] === null) at.add(i + 1);
  };
  open();
  for (const word of words) {
    const next = new Set<number>();
    const skipped = new Set<number>();
    for (const i of after) next.add(i);
    for (const i of at) {
      const item = items[i];
      if (item === null) next.add(i);
      if (!word.known && how.perhaps && i <= items.length) {
        if (item) next.add(i + 1);
        // It may become no word, or all that follow.
        if (word.many) for (let to = i; to <= items.length; to++) next.add(to);
      }
      if (!item) continue;
      if (word.known && item.matches(namesOf(wordOf(word.text)))) next.add(i + 1);
      if (how.gaps && i > 0 && word.known && word.text.startsWith("-")) {
        next.add(i);
        skipped.add(i);
      }
    }
    at = next;
    after = skipped;
    open();
    if (at.size === 0 && after.size === 0) return false;
  }
  return at.has(items.length);
}
