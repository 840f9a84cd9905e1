/**
 * Globs without regular expressions. A glob can come from a model or a cloned repository.
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
 * Greedy matching that backtracks only to the last star, which is sufficient. Used for the characters of a name and for
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

/** Undefined for a pattern that cannot match, such as one with an unclosed bracket or a trailing backslash. */
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
  /** The first name of the path, if the pattern begins with a literal name. */
  first: string | undefined;
  /** Literal start and end of the last name; empty if a wildcard is there. */
  head: string;
  tail: string;
  /** Minimum number of names and of characters. */
  names: number;
  length: number;
}

/** A simple pattern, which can be looked up instead of matched. */
export type SimplePattern =
  | { kind: "path"; path: string }
  /** Matches the last name at any depth: equal to `text`, or with that start or end. */
  | { kind: "name" | "head" | "tail"; text: string };

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

  /** Undefined if the pattern must be matched, or cannot match. */
  get simple(): SimplePattern | undefined {
    const [firstSegment, secondSegment, ...otherSegments] = this.#segments ?? [];
    if (this.#segments?.every((segment) => literalText(segment) !== undefined))
      return { kind: "path", path: this.#segments.map(literalText).join("/") };
    if (
      firstSegment !== "globstar" ||
      secondSegment === undefined ||
      secondSegment === "globstar" ||
      otherSegments.length > 0
    )
      return undefined;
    const name = literalText(secondSegment);
    if (name !== undefined) return { kind: "name", text: name };
    const head = literalText(secondSegment.slice(0, -1));
    if (head !== undefined && secondSegment.at(-1)?.kind === "star") return { kind: "head", text: head };
    const tail = literalText(secondSegment.slice(1));
    if (tail !== undefined && secondSegment[0]?.kind === "star") return { kind: "tail", text: tail };
    return undefined;
  }

  /** Whether the pattern may match; a cheap check. @param name Last name of the path. */
  mayMatch(path: string, name: string): boolean {
    const outline = this.#outline;
    if (!outline || path.length < outline.length) return false;
    const { first, head, tail } = outline;
    if (!name.startsWith(head) || !name.endsWith(tail)) return false;
    return (
      first === undefined || (path.startsWith(first) && (path.length === first.length || path[first.length] === "/"))
    );
  }

  /** @param names Names of the path, each split into characters. */
  matches(names: readonly (readonly string[])[]): boolean {
    if (!this.#segments || !this.#outline || names.length < this.#outline.names) return false;
    return matchWildcards(
      this.#segments,
      names,
      (segment) => segment === "globstar",
      (segment, name) => matchSegment(segment as readonly Token[], name),
    );
  }
}

/** Splits a path into the form that `matches` requires. */
export function namesOf(path: string): string[][] {
  return path.split("/").map((name) => [...name]);
}

/** Text of a segment; undefined if it has wildcards. */
function literalText(segment: Segment): string | undefined {
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
    first: firstSegment === undefined ? undefined : literalText(firstSegment),
    head: charsOf(wildcardIndex < 0 ? tokens : tokens.slice(0, wildcardIndex)),
    tail: charsOf(tokens.slice(tokens.findLastIndex(isWildcard) + 1)),
    names: nameSegments.length,
    // Minimum length, including the slashes between names. Characters outside the basic plane count twice in a path.
    length: characters + Math.max(0, nameSegments.length - 1),
  };
}
