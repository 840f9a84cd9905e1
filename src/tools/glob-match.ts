/**
 * Globs without regular expressions. A glob can come from a model or from a cloned repository, and translated to a
 * regular expression `*a*a*a*a*b` takes minutes on a long name; here the worst case is pattern length times text length.
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

/** Greedy, going back to the last star alone, which is enough. Serves characters of a name and names of a path. */
function wild<P, T>(
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
  return wild(
    tokens,
    chars,
    (token) => token.kind === "star",
    (token, char) =>
      token.kind === "any" || (token.kind === "char" ? token.char === char : token.kind === "class" && token.has(char)),
  );
}

/** Undefined for a pattern that can match nothing (a bracket without its end, a trailing backslash). */
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
    tests.push((one) => codePoint(one) >= low && codePoint(one) <= high);
  }
  return { has: (char) => tests.some((test) => test(char)) !== negated, end: i };
}

function codePoint(char: string | undefined): number {
  return char?.codePointAt(0) ?? -1;
}

/** A compiled path pattern of `/`-separated segments; `**` as a whole segment stands for any number of them. */
export class PathPattern {
  readonly #segments: readonly Segment[] | undefined;

  constructor(pattern: string) {
    const segments: Segment[] = [];
    for (const part of pattern.split("/")) {
      const segment = part === "**" ? "globstar" : parseSegment(part);
      if (segment === undefined) return;
      if (segment !== "globstar" || segments.at(-1) !== "globstar") segments.push(segment);
    }
    this.#segments = segments;
  }

  /** @param path Relative, with `/`. */
  matches(path: string): boolean {
    if (!this.#segments) return false;
    const names = path.split("/").map((name) => [...name]);
    return wild(
      this.#segments,
      names,
      (segment) => segment === "globstar",
      (segment, name) => matchSegment(segment as readonly Token[], name),
    );
  }
}

/** Write out `{a,b}`; undefined when there would be more than `max`. */
function expandBraces(pattern: string, max: number): string[] | undefined {
  const done: string[] = [];
  const open = [pattern];
  for (let one = open.pop(); one !== undefined; one = open.pop()) {
    const brace = firstBrace(one);
    if (!brace) done.push(one);
    else for (const choice of brace.choices) open.push(one.slice(0, brace.start) + choice + one.slice(brace.end + 1));
    if (open.length + done.length > max) return undefined;
  }
  return done;
}

/** The first brace group with a comma at its own depth. */
function firstBrace(pattern: string): { start: number; end: number; choices: string[] } | undefined {
  for (let start = 0; start < pattern.length; start++) {
    if (pattern[start] === "\\") start++;
    else if (pattern[start] === "{") {
      const choices: string[] = [];
      let depth = 0;
      let from = start + 1;
      for (let i = start + 1; i < pattern.length; i++) {
        const char = pattern[i];
        if (char === "\\") i++;
        else if (char === "{") depth++;
        else if (char === "}" && depth > 0) depth--;
        else if (char === "," && depth === 0) {
          choices.push(pattern.slice(from, i));
          from = i + 1;
        } else if (char === "}") {
          choices.push(pattern.slice(from, i));
          if (choices.length > 1) return { start, end: i, choices };
          break;
        }
      }
    }
  }
  return undefined;
}

/** A glob for files below a folder: `*`, `?`, `[a-z]`, `**`, `{a,b}`. Without a slash it matches names at any depth. */
export function compileGlob(glob: string): (path: string) => boolean {
  const tidy = glob.replace(/^(\.\/+)+/, "").replace(/\/{2,}/g, "/");
  const patterns = expandBraces(tidy, 256);
  if (!patterns) throw new RangeError("more than 256 combinations of { }");
  const compiled = patterns.map((one) => {
    const whole = one.endsWith("/") ? `${one}**` : one;
    return new PathPattern(whole.includes("/") ? whole.replace(/^\//, "") : `**/${whole}`);
  });
  return (path) => compiled.some((pattern) => pattern.matches(path));
}
