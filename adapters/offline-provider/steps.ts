import { namesIn } from "./names.js";

/** A tool call that a prompt requests, and the calls that follow from its outcome. */
export interface Step {
  tool: "list" | "read" | "grep" | "glob";
  input: Readonly<Record<string, string | number | undefined>>;
  next?: (outcome: Outcome) => Step[];
}

export interface Outcome {
  output: string;
  failed: boolean;
}

const LIST =
  /\b(?:which|what|list|show|see)\b[^.?!\n]{0,40}\b(?:files?|folders?|director(?:y|ies))\b|(?:^|\s)ls(?:\s|$)|\bwhat(?:'s|’s| is) (?:in )?(?:here|this folder)\b|\bfiles? (?:are )?(?:here|there)\b|\b(?:project|folder|repo(?:sitory)?) (?:structure|layout|tree)\b|\blist (?:everything|all)\b/i;
const OVERVIEW =
  /\b(?:what|explain|describe|summari[sz]e|about)\b[^.?!\n]{0,30}\b(?:this|the|my|our)\s+(?:whole\s+)?(?:project|repo(?:sitory)?|code\s?base|code|package|app(?:lication)?|program|library)\b|\boverview\b/i;
const SEARCH =
  /\b(?:search(?:\s+the\s+(?:code(?:base)?|project|files))?\s+for|grep(?:\s+for)?|look(?:ing)?\s+for|find|us(?:es?|ages?)\s+of|references?\s+to|files?\s+(?:that\s+|which\s+)?(?:contain|mention|use|import|call|define)s?|where\s+(?:is|are|was|does|do|did))\s+([^?!\n]+)/gi;
const MARKS = /\b(TODO|FIXME|HACK|XXX)s?\b/g;
const LINES = /(?:\blines?\s+|(?<=\w):)(\d{1,7})(?:\s*(?:-|–|to|through)\s*(\d{1,7}))?\b/i;
/** Words that are never a search term. */
const FILLER =
  /^(?:|an?|the|all|any|every|some|this|that|my|our|its?|of|in|on|for|to|from|with|and|or|is|we|you|i|they|text|string|word|named?|called|functions?|methods?|class(?:es)?|variables?|constants?|types?|interfaces?|code|places?|lines?|occurrences?|us(?:ag)?es?|references?|files?|here)$/i;
const README = /^README(?:\.\w+)?$/im;
const MANIFEST = /^(?:package\.json|pyproject\.toml|Cargo\.toml|go\.mod|composer\.json|pom\.xml)$/m;
const MANIFEST_QUESTION =
  /\bmain (?:entry|file|module)\b|\bentry ?-?(?:point|file)s?\b|\bscripts?\b|\bhow (?:do|can|to)\b[^.?!\n]{0,20}\b(?:run|build|test|start|lint)\b|\bdependenc(?:y|ies)\b|\bnode(?:\.js)? version|\bversion of node\b/i;

/** Returns the calls that a prompt names. The rules are fixed: the same prompt always gives the same calls. */
export function stepsFor(prompt: string): Step[] {
  const names = namesIn(prompt);
  const [files, folders, globs] = [[...names.files], [...names.folders], [...names.globs]];
  const pattern = searchTerm(prompt, [...names.quoted], [...files, ...folders]);
  if (pattern !== undefined) {
    const path = files.length === 1 ? files[0] : folders[0];
    return [{ tool: "grep", input: { pattern, path, include: globs[0] } }];
  }
  const steps: Step[] = [];
  if (OVERVIEW.test(prompt) && files.length === 0) steps.push(list(README, MANIFEST));
  else if (globs.length > 0)
    for (const glob of globs) steps.push({ tool: "glob", input: { pattern: glob, path: folders[0] } });
  else if (folders.length > 0) for (const path of folders) steps.push({ tool: "list", input: { path } });
  else if (LIST.test(prompt)) steps.push(list());

  const [, from, to = from] = LINES.exec(prompt) ?? [];
  for (const path of files) steps.push(read(path, Number(from), Number(to)));
  if (MANIFEST_QUESTION.test(prompt) && files.length === 0)
    steps.push({ ...read("package.json"), next: ({ failed }) => (failed ? [list(MANIFEST)] : []) });
  return steps;
}

/** Returns the search term of a prompt as a regular expression. */
function searchTerm(prompt: string, quoted: readonly string[], names: readonly string[]): string | undefined {
  const marks = new Set([...prompt.matchAll(MARKS)].map(([, mark]) => mark));
  if (marks.size > 0) return `\\b(${[...marks].join("|")})\\b`;
  for (const [, searchText = ""] of prompt.matchAll(SEARCH)) {
    const words = searchText.replace(/(?<!\S)\S+\s+(?:source\s+)?files\b/gi, "").split(/[\s"'`(),.:;]+/);
    const text = quoted[0] ?? words.find((word) => !FILLER.test(word)) ?? "";
    // Files and folders are read or listed, not searched for.
    if (text.length < 2 || MANIFEST_QUESTION.test(searchText) || names.some((name) => name.startsWith(text))) continue;
    return /^[\p{L}\p{N}_]+$/u.test(text) ? `\\b${text}\\b` : text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  }
  return undefined;
}

/** Lists the project folder, then reads the first file that matches each pattern. */
function list(...names: RegExp[]): Step {
  const next: Step["next"] = ({ output }) => names.flatMap((name) => name.exec(output) ?? []).map((path) => read(path));
  return { tool: "list", input: {}, next };
}

/**
 * Reads a file. A folder is listed instead. If the path does not exist, up to three files of that name in other folders
 * are read.
 */
function read(path: string, from = NaN, to = from): Step {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const elsewhere = ({ output }: Outcome): Step[] => {
    const matchingPaths = output.split("\n").filter((line) => line.endsWith(`/${name}`));
    return matchingPaths.slice(0, 3).map((file) => ({ tool: "read", input: { path: file } }));
  };
  const next = ({ output, failed }: Outcome): Step[] => {
    if (failed && /is a folder/.test(output)) return [{ tool: "list", input: { path } }];
    if (!failed || !/not found/.test(output)) return [];
    return [{ tool: "glob", input: { pattern: `**/${name}` }, next: elsewhere }];
  };
  const lines = from > 0 && to >= from ? { offset: from, limit: to - from + 1 } : {};
  return { tool: "read", input: { path, ...lines }, next };
}
