import { PathRules, type TimeBudget } from "./path-rules.js";

/** Maximum number of patterns to which the braces of a glob may expand. */
const MAX_EXPANDED_PATTERNS = 256;

/**
 * Compiles a glob for files below a folder: `*`, `?`, `[a-z]`, `**`, `{a,b}`. A glob without a slash matches names at
 * any depth. Throws `RangeError` if the braces expand to too many patterns.
 */
export function compileGlob(glob: string, timeBudget: TimeBudget): (path: string) => boolean {
  const normalizedGlob = glob.replace(/^(\.\/+)+/, "").replace(/\/{2,}/g, "/");
  const patterns = expandBraces(normalizedGlob, MAX_EXPANDED_PATTERNS);
  if (!patterns) throw new RangeError(`more than ${MAX_EXPANDED_PATTERNS} combinations of { }`);
  const rules = new PathRules(
    patterns.map((expandedGlob) => {
      const filePattern = expandedGlob.endsWith("/") ? `${expandedGlob}**` : expandedGlob;
      return {
        pattern: filePattern.includes("/") ? filePattern.replace(/^\//, "") : `**/${filePattern}`,
        foldersOnly: false,
      };
    }),
    timeBudget,
  );
  return (path) => rules.findLast(path, false) >= 0;
}

/** Expands `{a,b}`; undefined if there would be more than `maxCount` patterns. */
function expandBraces(pattern: string, maxCount: number): string[] | undefined {
  const expandedPatterns: string[] = [];
  const pendingPatterns = [pattern];
  for (let candidate = pendingPatterns.pop(); candidate !== undefined; candidate = pendingPatterns.pop()) {
    const brace = findFirstBrace(candidate);
    if (!brace) expandedPatterns.push(candidate);
    else
      for (const choice of brace.choices)
        pendingPatterns.push(candidate.slice(0, brace.start) + choice + candidate.slice(brace.end + 1));
    if (pendingPatterns.length + expandedPatterns.length > maxCount) return undefined;
  }
  return expandedPatterns;
}

/** Returns the first brace group, by the position of the opening brace, that contains a comma of its own. */
function findFirstBrace(pattern: string): { start: number; end: number; choices: string[] } | undefined {
  let firstGroup: { start: number; end: number; commas: number[] } | undefined;
  const openGroups: { start: number; commas: number[] }[] = [];
  for (let i = 0; i < pattern.length; i++) {
    const char = pattern[i];
    if (char === "\\") i++;
    else if (char === "{") openGroups.push({ start: i, commas: [] });
    else if (char === ",") openGroups.at(-1)?.commas.push(i);
    else if (char === "}") {
      const group = openGroups.pop();
      if (group && group.commas.length > 0 && (!firstGroup || group.start < firstGroup.start))
        firstGroup = { ...group, end: i };
    }
  }
  if (!firstGroup) return undefined;
  const { start, end, commas } = firstGroup;
  const boundaries = [start, ...commas, end];
  return {
    start,
    end,
    choices: boundaries.slice(1).map((edge, n) => pattern.slice((boundaries[n] ?? start) + 1, edge)),
  };
}
