/** Maximum rules that are kept of one ignore file. */
const MAX_RULES = 500;
/** A name, or `*` and the end of a name, without other characters that have a meaning in an ignore file. */
const SIMPLE_PATTERN = /^\*?[^*?[\]\\/]+$/;

interface Rule {
  /** The whole name, or the end of the name if `isSuffix` is set. */
  readonly text: string;
  readonly isSuffix: boolean;
  readonly isNegated: boolean;
  readonly foldersOnly: boolean;
  /** Whether the rule applies to the entries of the ignore file's own folder only. */
  readonly isAnchored: boolean;
}

/**
 * The rules of one `.gitignore` that compare a single name: `name`, `/name`, `name/`, `*.end` and their negations. Other
 * rules are left out, because the repository is untrusted and a pattern with many wildcards can take very long.
 */
export class IgnoredNames {
  readonly #rules: readonly Rule[];

  constructor(text: string) {
    this.#rules = text
      .split("\n")
      .map(parseRule)
      .filter((rule) => rule !== undefined)
      .slice(0, MAX_RULES);
  }

  /**
   * Whether the rules hide an entry. The last rule that matches decides. `isNested`: the entry is in a subfolder of the
   * ignore file's folder.
   */
  hides(name: string, isFolder: boolean, isNested: boolean): boolean {
    const rule = this.#rules.findLast(
      ({ text, isSuffix, foldersOnly, isAnchored }) =>
        (isFolder || !foldersOnly) && !(isNested && isAnchored) && (isSuffix ? name.endsWith(text) : name === text),
    );
    return rule?.isNegated === false;
  }
}

function parseRule(line: string): Rule | undefined {
  const trimmedLine = line.trimEnd();
  const isNegated = trimmedLine.startsWith("!");
  const pattern = isNegated ? trimmedLine.slice(1) : trimmedLine;
  const isAnchored = pattern.startsWith("/");
  const foldersOnly = pattern.endsWith("/");
  const name = pattern.slice(isAnchored ? 1 : 0, foldersOnly ? -1 : undefined);
  if (name.startsWith("#") || !SIMPLE_PATTERN.test(name)) return undefined;
  const isSuffix = name.startsWith("*");
  return { text: isSuffix ? name.slice(1) : name, isSuffix, isNegated, foldersOnly, isAnchored };
}
