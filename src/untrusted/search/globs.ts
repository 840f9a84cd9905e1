import { PathRules, type Allowance } from "./path-rules.js";

/** Ways that a glob's braces can be chosen. */
const MAX_CHOICES = 256;

/** A glob for files below a folder: `*`, `?`, `[a-z]`, `**`, `{a,b}`. Without a slash it matches names at any depth. */
export function compileGlob(glob: string, allowance: Allowance): (path: string) => boolean {
  const tidy = glob.replace(/^(\.\/+)+/, "").replace(/\/{2,}/g, "/");
  const patterns = expandBraces(tidy, MAX_CHOICES);
  if (!patterns) throw new RangeError(`more than ${MAX_CHOICES} combinations of { }`);
  const rules = new PathRules(
    patterns.map((one) => {
      const whole = one.endsWith("/") ? `${one}**` : one;
      return { pattern: whole.includes("/") ? whole.replace(/^\//, "") : `**/${whole}`, foldersOnly: false };
    }),
    allowance,
  );
  return (path) => rules.last(path, false) >= 0;
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
  let found: { start: number; end: number; commas: number[] } | undefined;
  const open: { start: number; commas: number[] }[] = [];
  for (let i = 0; i < pattern.length; i++) {
    const char = pattern[i];
    if (char === "\\") i++;
    else if (char === "{") open.push({ start: i, commas: [] });
    else if (char === ",") open.at(-1)?.commas.push(i);
    else if (char === "}") {
      const group = open.pop();
      if (group && group.commas.length > 0 && (!found || group.start < found.start)) found = { ...group, end: i };
    }
  }
  if (!found) return undefined;
  const { start, end, commas } = found;
  const edges = [start, ...commas, end];
  return { start, end, choices: edges.slice(1).map((edge, n) => pattern.slice((edges[n] ?? start) + 1, edge)) };
}
