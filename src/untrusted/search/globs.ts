import { PathRules, type TimeBudget } from "./path-rules.js";

/** Maximum combinations of the braces of a glob. */
const MAX_CHOICES = 256;

/**
 * Compiles a glob for files below a folder: `*`, `?`, `[a-z]`, `**`, `{a,b}`. Without a slash it matches names at any
 * depth. Throws `RangeError` for too many combinations of braces.
 */
export function compileGlob(glob: string, allowance: TimeBudget): (path: string) => boolean {
  const tidy = glob.replace(/^(\.\/+)+/, "").replace(/\/{2,}/g, "/");
  const patterns = expandBraces(tidy, MAX_CHOICES);
  if (!patterns) throw new RangeError(`more than ${MAX_CHOICES} combinations of { }`);
  const rules = new PathRules(
    patterns.map((expandedGlob) => {
      const filePattern = expandedGlob.endsWith("/") ? `${expandedGlob}**` : expandedGlob;
      return {
        pattern: filePattern.includes("/") ? filePattern.replace(/^\//, "") : `**/${filePattern}`,
        foldersOnly: false,
      };
    }),
    allowance,
  );
  return (path) => rules.last(path, false) >= 0;
}

/** Expands `{a,b}`; undefined if there would be more than `max` patterns. */
function expandBraces(pattern: string, max: number): string[] | undefined {
  const done: string[] = [];
  const open = [pattern];
  for (let candidate = open.pop(); candidate !== undefined; candidate = open.pop()) {
    const brace = firstBrace(candidate);
    if (!brace) done.push(candidate);
    else
      for (const choice of brace.choices)
        open.push(candidate.slice(0, brace.start) + choice + candidate.slice(brace.end + 1));
    if (open.length + done.length > max) return undefined;
  }
  return done;
}

/** The outermost, first brace group with a comma at its own depth. */
function firstBrace(pattern: string): { start: number; end: number; choices: string[] } | undefined {
  let firstGroup: { start: number; end: number; commas: number[] } | undefined;
  const open: { start: number; commas: number[] }[] = [];
  for (let i = 0; i < pattern.length; i++) {
    const char = pattern[i];
    if (char === "\\") i++;
    else if (char === "{") open.push({ start: i, commas: [] });
    else if (char === ",") open.at(-1)?.commas.push(i);
    else if (char === "}") {
      const group = open.pop();
      if (group && group.commas.length > 0 && (!firstGroup || group.start < firstGroup.start))
        firstGroup = { ...group, end: i };
    }
  }
  if (!firstGroup) return undefined;
  const { start, end, commas } = firstGroup;
  const edges = [start, ...commas, end];
  return { start, end, choices: edges.slice(1).map((edge, n) => pattern.slice((edges[n] ?? start) + 1, edge)) };
}
