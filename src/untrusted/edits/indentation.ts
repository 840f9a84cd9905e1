import { indentOf } from "./text-views.js";

/** What an indentation becomes in the file; undefined where that cannot be said. */
export type Reindent = (indent: string) => string | undefined;

/**
 * How a file indents what a text indents otherwise: all of it shifted, or by other blanks for each level. Of each line the
 * indentation in the text and the one in the file; undefined where the lines do not agree on one rule.
 */
export function indentRule(pairs: readonly (readonly [wanted: string, file: string])[] = []): Reindent | undefined {
  if (pairs.length === 0) return undefined;
  const known = new Map<string, string>();
  const back = new Map<string, string>();
  for (const [wanted, file] of pairs) {
    // Lines that were on one level are on one level.
    if ((known.get(wanted) ?? file) !== file || (back.get(file) ?? wanted) !== wanted) return undefined;
    known.set(wanted, file);
    back.set(file, wanted);
  }
  const rule = [deeper, shallower, byUnits]
    .map((make) => make(known))
    .find((one) => one && [...known].every(([wanted, file]) => one(wanted) === file));
  return rule && ((indent) => known.get(indent) ?? rule(indent));
}

/**
 * The indentation of lines as they were asked for, and as they are in the file; nothing is known of blank ones. Undefined
 * where the file has spaces of print before a word, which no rule could make.
 */
export function indentsOf(wanted: readonly string[], raws: readonly string[]): [string, string][] | undefined {
  if (raws.some((raw) => /^[ \t]*(?:\xc2\xa0|\xe2\x80[\x80-\x8b\xaf]|\xe3\x80\x80)/.test(raw))) return undefined;
  return wanted.flatMap((line, at): [string, string][] =>
    line.trim() === "" ? [] : [[indentOf(line), indentOf(raws[at] ?? "")]],
  );
}

type Known = ReadonlyMap<string, string>;

/** The same blanks before each line. */
function deeper(known: Known): Reindent | undefined {
  const [[wanted, file] = ["", ""]] = known;
  if (!file.endsWith(wanted)) return undefined;
  const added = file.slice(0, file.length - wanted.length);
  return (indent) => (added === "" || indent === "" || !mixes(added, indent, known) ? added + indent : undefined);
}

/** Whether tabs would stand beside spaces where the file has shown none that do. */
function mixes(added: string, indent: string, known: Known): boolean {
  const both = (text: string): boolean => text.includes("\t") && text.includes(" ");
  return both(added + indent) && ![...known.values()].some(both);
}

/** The same blanks less before each line. */
function shallower(known: Known): Reindent | undefined {
  const [[wanted, file] = ["", ""]] = known;
  if (!wanted.endsWith(file)) return undefined;
  const removed = wanted.slice(0, wanted.length - file.length);
  return (indent) => (indent.startsWith(removed) ? indent.slice(removed.length) : undefined);
}

/** So many blanks of the text are so many of the file, from the level on that the lines share. */
function byUnits(known: Known): Reindent | undefined {
  const pairs = [...known].sort(([one], [other]) => one.length - other.length);
  const [[base, fileBase] = ["", ""]] = pairs;
  const rests = pairs
    .slice(1)
    .map(([wanted, file]) => [wanted.slice(base.length), file.slice(fileBase.length)] as const);
  if (!pairs.every(([wanted, file]) => wanted.startsWith(base) && file.startsWith(fileBase))) return undefined;
  // One level alone tells the unit where it is in tabs here and in spaces there.
  const measured = rests.length > 0 ? rests : [[base, fileBase] as const];
  const [[from, to] = ["", ""]] = measured;
  if (!measured.every(([wanted, file]) => isOf(from.charAt(0), wanted) && isOf(to.charAt(0), file))) return undefined;
  const [char, fileChar] = [from.charAt(0), to.charAt(0)];
  if (rests.length === 0 && char === fileChar) return undefined;
  const common = measured.flatMap(([wanted, file]) => [wanted.length, file.length]).reduce(divisor);
  const [unit, fileUnit] = [from.length / common, to.length / common];
  if (rests.length === 0 && Math.min(unit, fileUnit) !== 1) return undefined;
  return (indent) => {
    if (indent.length < base.length) {
      const less = base.slice(indent.length);
      const gone = fileChar.repeat((less.length / unit) * fileUnit);
      if (!base.startsWith(indent) || !isOf(char, less) || less.length % unit !== 0) return undefined;
      return fileBase.endsWith(gone) ? fileBase.slice(0, fileBase.length - gone.length) : undefined;
    }
    const rest = indent.slice(base.length);
    if (!indent.startsWith(base) || !(rest === "" || isOf(char, rest))) return undefined;
    const left = rest.length % unit;
    // Spaces that line something up stay spaces.
    if (left > 0 && !(char === " " && fileChar === "\t")) return undefined;
    return fileBase + fileChar.repeat(Math.floor(rest.length / unit) * fileUnit) + " ".repeat(left);
  };
}

function isOf(char: string, text: string): boolean {
  return text !== "" && char !== "" && text === char.repeat(text.length);
}

function divisor(one: number, other: number): number {
  return other === 0 ? one : divisor(other, one % other);
}
