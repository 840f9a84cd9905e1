/**
 * Globs without regular expressions. A glob can come from a model or a cloned repository.
 *
 * As a regular expression, `*a*a*a*a*b` takes minutes on a long name. Here the worst case is pattern length times text
 * length.
 */

type CharTest = (char: string) => boolean;
type Token = { kind: "star" } | { kind: "any" } | { kind: "char"; char: string } | { kind: "class"; has: CharTest };
type Segment = "globstar" | readonly Token[];

const CLASSES: Readonly<Record<string, CharTest>> = {
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
  const starAt = (at: number): boolean => at < pattern.length && isStar(pattern[at] as P);
  let p = 0;
  let star = -1;
  let from = 0;
  for (let t = 0; t < text.length;) {
    if (starAt(p)) {
      star = p++;
      from = t;
    } else if (p < pattern.length && fits(pattern[p] as P, text[t] as T)) {
      p++;
      t++;
    } else if (star >= 0) {
      p = star + 1;
      t = ++from;
    } else return false;
  }
  while (starAt(p)) p++;
  return p === pattern.length;
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
      const escaped = chars[++i];
      if (escaped === undefined) return undefined;
      tokens.push({ kind: "char", char: escaped });
    } else if (char === "[") {
      const parsed = parseClass(chars, i + 1);
      if (!parsed) return undefined;
      tokens.push({ kind: "class", has: parsed.has });
      i = parsed.end;
    } else tokens.push({ kind: "char", char });
  }
  return tokens;
}

function parseClass(chars: readonly string[], start: number): { has: CharTest; end: number } | undefined {
  let i = start;
  const negated = chars[i] === "!" || chars[i] === "^";
  if (negated) i++;
  const tests: CharTest[] = [];
  for (let first = true; ; first = false, i++) {
    let char = chars[i];
    if (char === undefined) return undefined;
    if (char === "]" && !first) break;
    if (char === "[" && chars[i + 1] === ":") {
      const end = chars.indexOf(":", i + 2);
      const test = end > 0 && chars[end + 1] === "]" ? CLASSES[chars.slice(i + 2, end).join("")] : undefined;
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
  return { has: (char) => tests.some((test) => test(char)) !== negated, end: i };
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
    this.#outline = outlineOf(segments);
  }

  /** Undefined if the pattern must be matched, or cannot match. */
  get simple(): SimplePattern | undefined {
    const [first, second, ...otherSegments] = this.#segments ?? [];
    if (this.#segments?.every((segment) => literalText(segment) !== undefined))
      return { kind: "path", path: this.#segments.map(literalText).join("/") };
    if (first !== "globstar" || second === undefined || second === "globstar" || otherSegments.length > 0)
      return undefined;
    const name = literalText(second);
    if (name !== undefined) return { kind: "name", text: name };
    const head = literalText(second.slice(0, -1));
    if (head !== undefined && second.at(-1)?.kind === "star") return { kind: "head", text: head };
    const tail = literalText(second.slice(1));
    if (tail !== undefined && second[0]?.kind === "star") return { kind: "tail", text: tail };
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

function outlineOf(segments: readonly Segment[]): Outline {
  const named = segments.filter((segment) => segment !== "globstar");
  const characters = named.reduce((sum, tokens) => sum + tokens.filter(({ kind }) => kind !== "star").length, 0);
  const [first] = segments;
  const last = segments.at(-1);
  const tokens = last === undefined || last === "globstar" ? [] : last;
  const wildcard = (token: Token): boolean => token.kind !== "char";
  const open = tokens.findIndex(wildcard);
  return {
    first: first === undefined ? undefined : literalText(first),
    head: charsOf(open < 0 ? tokens : tokens.slice(0, open)),
    tail: charsOf(tokens.slice(tokens.findLastIndex(wildcard) + 1)),
    names: named.length,
    // Minimum length, including the slashes between names. Characters outside the basic plane count twice in a path.
    length: characters + Math.max(0, named.length - 1),
  };
}
