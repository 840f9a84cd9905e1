import { indentOf } from "./text-views.js";

/**
 * Maps an indentation of a text to that of the file. Returns undefined if the file's indentation cannot be determined.
 */
export type Reindent = (indent: string) => string | undefined;

/**
 * Finds the rule by which a file's indentation differs from that of a text: a constant shift, or another unit per
 * level.
 *
 * `pairs`: for each line, the indentation in the text and in the file. Returns undefined if `pairs` is undefined or
 * empty, or if no rule explains all lines.
 */
export function findIndentRule(
  pairs: readonly (readonly [textIndent: string, fileIndent: string])[] = [],
): Reindent | undefined {
  if (pairs.length === 0) return undefined;
  const fileIndents = new Map<string, string>();
  const textIndents = new Map<string, string>();
  for (const [textIndent, fileIndent] of pairs) {
    // Lines on one level in the text must be on one level in the file.
    if (
      (fileIndents.get(textIndent) ?? fileIndent) !== fileIndent ||
      (textIndents.get(fileIndent) ?? textIndent) !== textIndent
    )
      return undefined;
    fileIndents.set(textIndent, fileIndent);
    textIndents.set(fileIndent, textIndent);
  }
  const rule = [shiftRight, shiftLeft, convertUnits]
    .map((createRule) => createRule(fileIndents))
    .find(
      (candidate) =>
        candidate && [...fileIndents].every(([textIndent, fileIndent]) => candidate(textIndent) === fileIndent),
    );
  return rule && ((indent) => fileIndents.get(indent) ?? rule(indent));
}

/**
 * Indentation of each non-blank line in the text and in the file. Undefined if the file indents with typographic
 * spaces, which no rule could produce.
 */
export function pairIndents(
  textLines: readonly string[],
  fileLines: readonly string[],
): [string, string][] | undefined {
  if (fileLines.some((fileLine) => /^[ \t]*(?:\xc2\xa0|\xe2\x80[\x80-\x8b\xaf]|\xe3\x80\x80)/.test(fileLine)))
    return undefined;
  return textLines.flatMap((line, i): [string, string][] =>
    line.trim() === "" ? [] : [[indentOf(line), indentOf(fileLines[i] ?? "")]],
  );
}

type FileIndents = ReadonlyMap<string, string>;

/** Rule: the file has the same additional blanks before each line. */
function shiftRight(fileIndents: FileIndents): Reindent | undefined {
  const [[textIndent, fileIndent] = ["", ""]] = fileIndents;
  if (!fileIndent.endsWith(textIndent)) return undefined;
  const addedIndent = fileIndent.slice(0, fileIndent.length - textIndent.length);
  return (indent) =>
    addedIndent === "" || indent === "" || !mixesBlanks(addedIndent, indent, fileIndents)
      ? addedIndent + indent
      : undefined;
}

/** Whether the result would mix tabs and spaces although no line of the file does. */
function mixesBlanks(addedIndent: string, indent: string, fileIndents: FileIndents): boolean {
  const hasBoth = (text: string): boolean => text.includes("\t") && text.includes(" ");
  return hasBoth(addedIndent + indent) && ![...fileIndents.values()].some(hasBoth);
}

/** Rule: each line of the file has the same number of blanks less. */
function shiftLeft(fileIndents: FileIndents): Reindent | undefined {
  const [[textIndent, fileIndent] = ["", ""]] = fileIndents;
  if (!textIndent.endsWith(fileIndent)) return undefined;
  const removedIndent = textIndent.slice(0, textIndent.length - fileIndent.length);
  return (indent) => (indent.startsWith(removedIndent) ? indent.slice(removedIndent.length) : undefined);
}

/** Rule: a unit of blanks in the text corresponds to a unit in the file, beyond the level that all lines share. */
function convertUnits(fileIndents: FileIndents): Reindent | undefined {
  const pairs = [...fileIndents].sort(([left], [right]) => left.length - right.length);
  const [[base, fileBase] = ["", ""]] = pairs;
  const deeperPairs = pairs
    .slice(1)
    .map(([textIndent, fileIndent]) => [textIndent.slice(base.length), fileIndent.slice(fileBase.length)] as const);
  if (!pairs.every(([textIndent, fileIndent]) => textIndent.startsWith(base) && fileIndent.startsWith(fileBase)))
    return undefined;
  // A single level is enough to find the unit if one text uses tabs and the other spaces.
  const measuredPairs = deeperPairs.length > 0 ? deeperPairs : [[base, fileBase] as const];
  const [[textPart, filePart] = ["", ""]] = measuredPairs;
  if (
    !measuredPairs.every(
      ([textIndent, fileIndent]) =>
        isRepeated(textPart.charAt(0), textIndent) && isRepeated(filePart.charAt(0), fileIndent),
    )
  )
    return undefined;
  const [char, fileChar] = [textPart.charAt(0), filePart.charAt(0)];
  if (deeperPairs.length === 0 && char === fileChar) return undefined;
  const commonDivisor = measuredPairs
    .flatMap(([textIndent, fileIndent]) => [textIndent.length, fileIndent.length])
    .reduce(greatestDivisor);
  const [unit, fileUnit] = [textPart.length / commonDivisor, filePart.length / commonDivisor];
  if (deeperPairs.length === 0 && Math.min(unit, fileUnit) !== 1) return undefined;
  return (indent) => {
    if (indent.length < base.length) {
      const missingIndent = base.slice(indent.length);
      const removedFileIndent = fileChar.repeat((missingIndent.length / unit) * fileUnit);
      if (!base.startsWith(indent) || !isRepeated(char, missingIndent) || missingIndent.length % unit !== 0)
        return undefined;
      return fileBase.endsWith(removedFileIndent)
        ? fileBase.slice(0, fileBase.length - removedFileIndent.length)
        : undefined;
    }
    const extraIndent = indent.slice(base.length);
    if (!indent.startsWith(base) || !(extraIndent === "" || isRepeated(char, extraIndent))) return undefined;
    const alignmentSpaces = extraIndent.length % unit;
    // Spaces that align text stay spaces.
    if (alignmentSpaces > 0 && !(char === " " && fileChar === "\t")) return undefined;
    return fileBase + fileChar.repeat(Math.floor(extraIndent.length / unit) * fileUnit) + " ".repeat(alignmentSpaces);
  };
}

function isRepeated(char: string, text: string): boolean {
  return text !== "" && char !== "" && text === char.repeat(text.length);
}

function greatestDivisor(left: number, right: number): number {
  return right === 0 ? left : greatestDivisor(right, left % right);
}
