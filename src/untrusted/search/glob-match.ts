/**
 * Matches globs without regular expressions, because a glob can come from a model or a cloned repository.
 *
 * As a regular expression, `*a*a*a*a*b` takes minutes on a long name. Here the worst case is pattern length times text
 * length.
 */

type CharTest = (char: string) => boolean;
type Token = { kind: "star" } | { kind: "any" } | { kind: "char"; char: string } | { kind: "class"; has: CharTest };
type Segment = "globstar" | readonly Token[];

const CHARACTER_CLASSES: Readonly<Record<string, CharTest>> = {
  alpha: (c) => /^[a-z]$/i.test(c),
  digit: (c) => /^\d$/.test(c),
  alnum: (c) => /^[a-z\d]$/i.test(c),
  upper: (c) => /^[A-Z]$/.test(c),
  lower: (c) => /^[a-z]$/.test(c),
  space: (c) => /^\s$/.test(c),
  punct: (c) => /^[!-/:-@[-`{-~]$/.test(c),
  xdigit: (c) => /^[\da-f]$/i.test(c),
};

/**
 * Matches greedily and backtracks only to the last star, which is sufficient. Used for the characters of a name and for
 * the names of a path.
 */
function matchWildcards<P, T>(
  pattern: readonly P[],
  text: readonly T[],
  isStar: (p: P) => boolean,
  fits: (p: P, t: T) => boolean,
): boolean {
  const isStarAt = (index: number): boolean => index < pattern.length && isStar(pattern[index] as P);
  let patternIndex = 0;
  let starIndex = -1;
  let retryIndex = 0;
  for (let textIndex = 0; textIndex < text.length;) {
    if (isStarAt(patternIndex)) {
      starIndex = patternIndex++;
      retryIndex = textIndex;
    } else if (patternIndex < pattern.length && fits(pattern[patternIndex] as P, text[textIndex] as T)) {
      patternIndex++;
      textIndex++;
    } else if (starIndex >= 0) {
      patternIndex = starIndex + 1;
      textIndex = ++retryIndex;
    } else return false;
  }
  while (isStarAt(patternIndex)) patternIndex++;
  return patternIndex === pattern.length;
}

function matchSegment(tokens: readonly Token[], chars: readonly string[]): boolean {
  return matchWildcards(
    tokens,
    chars,
    (token) => token.kind === "star",
    (token, char) =>
      token.kind === "any" || (token.kind === "char" ? token.char === char : token.kind === "class" && token.has(char)),
  );
}

/**
 * Parses a name of a pattern. Undefined if the name cannot match, for example because of an unclosed bracket or a
 * trailing backslash.
 */
function parseSegment(segment: string): readonly Token[] | undefined {
  const chars = [...segment];
  const tokens: Token[] = [];
  for (let i = 0; i < chars.length; i++) {
    const char = chars[i] ?? "";
    if (char === "*") {
      if (tokens.at(-1)?.kind !== "star") tokens.push({ kind: "star" });
    } else if (char === "?") tokens.push({ kind: "any" });
    else if (char === "\\") {
      const escapedChar = chars[++i];
      if (escapedChar === undefined) return undefined;
      tokens.push({ kind: "char", char: escapedChar });
    } else if (char === "[") {
      const charClass = parseClass(chars, i + 1);
      if (!charClass) return undefined;
      tokens.push({ kind: "class", has: charClass.has });
      i = charClass.end;
    } else tokens.push({ kind: "char", char });
  }
  return tokens;
}

/** Parses a character class. `start`: index after `[`. `end`: index of `]`. Undefined if the class is invalid. */
function parseClass(chars: readonly string[], start: number): { has: CharTest; end: number } | undefined {
  let i = start;
  const isNegated = chars[i] === "!" || chars[i] === "^";
  if (isNegated) i++;
  const tests: CharTest[] = [];
  for (let isFirst = true; ; isFirst = false, i++) {
    let char = chars[i];
    if (char === undefined) return undefined;
    if (char === "]" && !isFirst) break;
    if (char === "[" && chars[i + 1] === ":") {
      const end = chars.indexOf(":", i + 2);
      const test = end > 0 && chars[end + 1] === "]" ? CHARACTER_CLASSES[chars.slice(i + 2, end).join("")] : undefined;
      if (!test) return undefined;
      tests.push(test);
      i = end + 1;
      continue;
    }
    if (char === "\\") char = chars[++i];
    if (char === undefined) return undefined;
    const low = codePoint(char);
    let high = low;
    if (chars[i + 1] === "-" && chars[i + 2] !== undefined && chars[i + 2] !== "]") {
      i += chars[i + 2] === "\\" ? 3 : 2;
      high = codePoint(chars[i]);
    }
    tests.push((candidate) => codePoint(candidate) >= low && codePoint(candidate) <= high);
  }
  return { has: (char) => tests.some((test) => test(char)) !== isNegated, end: i };
}

function codePoint(char: string | undefined): number {
  return char?.codePointAt(0) ?? -1;
}

/** Properties of every match of a pattern, checked before the pattern itself. Most names fail here. */
interface Outline {
  /** The first name of the path; undefined if the pattern does not begin with a literal name. */
  firstName: string | undefined;
  /** Literal start of the last name; `""` if the name starts with a wildcard. */
  namePrefix: string;
  /** Literal end of the last name; `""` if the name ends with a wildcard. */
  nameSuffix: string;
  /** Minimum number of names. */
  minNames: number;
  /** Minimum number of characters, including slashes. */
  minCharacters: number;
}

/** A simple pattern, for which a map look-up replaces the match. */
export type SimplePattern =
  | { kind: "path"; path: string }
  /** Matches the last name of a path at any depth. `text`: the whole name, its start, or its end. */
  | { kind: "name" | "prefix" | "suffix"; text: string };

/** A compiled path pattern of segments separated by `/`. The segment `**` matches any number of segments. */
export class PathPattern {
  readonly #segments: readonly Segment[] | undefined;
  readonly #outline: Outline | undefined;

  constructor(pattern: string) {
    const segments: Segment[] = [];
    for (const part of pattern.split("/")) {
      const segment = part === "**" ? "globstar" : parseSegment(part);
      if (segment === undefined) return;
      if (segment !== "globstar" || segments.at(-1) !== "globstar") segments.push(segment);
    }
    this.#segments = segments;
    this.#outline = createOutline(segments);
  }

  /** The pattern in simple form. Undefined if the pattern is not simple, or cannot match. */
  get simplePattern(): SimplePattern | undefined {
    const [firstSegment, secondSegment, ...otherSegments] = this.#segments ?? [];
    if (this.#segments?.every((segment) => getLiteralText(segment) !== undefined))
      return { kind: "path", path: this.#segments.map(getLiteralText).join("/") };
    if (
      firstSegment !== "globstar" ||
      secondSegment === undefined ||
      secondSegment === "globstar" ||
      otherSegments.length > 0
    )
      return undefined;
    const name = getLiteralText(secondSegment);
    if (name !== undefined) return { kind: "name", text: name };
    const prefix = getLiteralText(secondSegment.slice(0, -1));
    if (prefix !== undefined && secondSegment.at(-1)?.kind === "star") return { kind: "prefix", text: prefix };
    const suffix = getLiteralText(secondSegment.slice(1));
    if (suffix !== undefined && secondSegment[0]?.kind === "star") return { kind: "suffix", text: suffix };
    return undefined;
  }

  /** Whether the pattern may match a path; a fast check. `name`: the last name of the path. */
  mayMatch(path: string, name: string): boolean {
    const outline = this.#outline;
    if (!outline || path.length < outline.minCharacters) return false;
    const { firstName, namePrefix, nameSuffix } = outline;
    if (!name.startsWith(namePrefix) || !name.endsWith(nameSuffix)) return false;
    return (
      firstName === undefined ||
      (path.startsWith(firstName) && (path.length === firstName.length || path[firstName.length] === "/"))
    );
  }

  /** Whether the pattern matches a path. `names`: the names of the path, each split into characters. */
  matches(names: readonly (readonly string[])[]): boolean {
    if (!this.#segments || !this.#outline || names.length < this.#outline.minNames) return false;
    return matchWildcards(
      this.#segments,
      names,
      (segment) => segment === "globstar",
      (segment, name) => matchSegment(segment as readonly Token[], name),
    );
  }
}

/** Splits a path into the form that `matches` requires. */
export function splitNames(path: string): string[][] {
  return path.split("/").map((name) => [...name]);
}

/** Returns the text of a segment; undefined if the segment has wildcards. */
function getLiteralText(segment: Segment): string | undefined {
  if (segment === "globstar") return undefined;
  return segment.every((token) => token.kind === "char") ? charsOf(segment) : undefined;
}

function charsOf(tokens: readonly Token[]): string {
  return tokens.map((token) => (token.kind === "char" ? token.char : "")).join("");
}

function createOutline(segments: readonly Segment[]): Outline {
  const nameSegments = segments.filter((segment) => segment !== "globstar");
  const characters = nameSegments.reduce((sum, tokens) => sum + tokens.filter(({ kind }) => kind !== "star").length, 0);
  const [firstSegment] = segments;
  const lastSegment = segments.at(-1);
  const tokens = lastSegment === undefined || lastSegment === "globstar" ? [] : lastSegment;
  const isWildcard = (token: Token): boolean => token.kind !== "char";
  const wildcardIndex = tokens.findIndex(isWildcard);
  return {
    firstName: firstSegment === undefined ? undefined : getLiteralText(firstSegment),
    namePrefix: charsOf(wildcardIndex < 0 ? tokens : tokens.slice(0, wildcardIndex)),
    nameSuffix: charsOf(tokens.slice(tokens.findLastIndex(isWildcard) + 1)),
    minNames: nameSegments.length,
    // Characters outside the basic plane count twice in a path, but once here.
    minCharacters: characters + Math.max(0, nameSegments.length - 1),
  };
}
