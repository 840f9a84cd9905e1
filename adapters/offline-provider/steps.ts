import { extractNames } from "./names.js";

/** A tool call that a prompt requests. `next`: returns the calls that follow from the outcome; default none. */
export interface Step {
  tool: "list" | "read" | "grep" | "glob";
  input: Readonly<Record<string, string | number | undefined>>;
  next?: (outcome: Outcome) => Step[];
}

/** Result of a tool call. */
export interface Outcome {
  output: string;
  failed: boolean;
}

const LIST_PATTERN =
  /\b(?:which|what|list|show|see)\b[^.?!\n]{0,40}\b(?:files?|folders?|director(?:y|ies))\b|(?:^|\s)ls(?:\s|$)|\bwhat(?:'s|’s| is) (?:in )?(?:here|this folder)\b|\bfiles? (?:are )?(?:here|there)\b|\b(?:project|folder|repo(?:sitory)?) (?:structure|layout|tree)\b|\blist (?:everything|all)\b/i;
const OVERVIEW_PATTERN =
  /\b(?:what|explain|describe|summari[sz]e|about)\b[^.?!\n]{0,30}\b(?:this|the|my|our)\s+(?:whole\s+)?(?:project|repo(?:sitory)?|code\s?base|code|package|app(?:lication)?|program|library)\b|\boverview\b/i;
const SEARCH_PATTERN =
  /\b(?:search(?:\s+the\s+(?:code(?:base)?|project|files))?\s+for|grep(?:\s+for)?|look(?:ing)?\s+for|find|us(?:es?|ages?)\s+of|references?\s+to|files?\s+(?:that\s+|which\s+)?(?:contain|mention|use|import|call|define)s?|where\s+(?:is|are|was|does|do|did))\s+([^?!\n]+)/gi;
const MARKER_PATTERN = /\b(TODO|FIXME|HACK|XXX)s?\b/g;
const LINE_RANGE_PATTERN = /(?:\blines?\s+|(?<=\w):)(\d{1,7})(?:\s*(?:-|–|to|through)\s*(\d{1,7}))?\b/i;
/** Number of files that are read instead of a missing file. */
const MAX_MATCHING_FILES = 3;
/** Words that are never a search term. */
const FILLER_WORD_PATTERN =
  /^(?:|an?|the|all|any|every|some|this|that|my|our|its?|of|in|on|for|to|from|with|and|or|is|we|you|i|they|text|string|word|named?|called|functions?|methods?|class(?:es)?|variables?|constants?|types?|interfaces?|code|places?|lines?|occurrences?|us(?:ag)?es?|references?|files?|here)$/i;
const README_PATTERN = /^README(?:\.\w+)?$/im;
const MANIFEST_PATTERN = /^(?:package\.json|pyproject\.toml|Cargo\.toml|go\.mod|composer\.json|pom\.xml)$/m;
const MANIFEST_QUESTION_PATTERN =
  /\bmain (?:entry|file|module)\b|\bentry ?-?(?:point|file)s?\b|\bscripts?\b|\bhow (?:do|can|to)\b[^.?!\n]{0,20}\b(?:run|build|test|start|lint)\b|\bdependenc(?:y|ies)\b|\bnode(?:\.js)? version|\bversion of node\b/i;

/** Returns the calls that a prompt names. The rules are fixed: the same prompt always gives the same calls. */
export function createSteps(prompt: string): Step[] {
  const names = extractNames(prompt);
  const [files, folders, globs] = [[...names.files], [...names.folders], [...names.globs]];
  const pattern = findSearchTerm(prompt, [...names.quoted], [...files, ...folders]);
  if (pattern !== undefined) {
    const path = files.length === 1 ? files[0] : folders[0];
    return [{ tool: "grep", input: { pattern, path, include: globs[0] } }];
  }
  const steps: Step[] = [];
  if (OVERVIEW_PATTERN.test(prompt) && files.length === 0) steps.push(createListStep(README_PATTERN, MANIFEST_PATTERN));
  else if (globs.length > 0)
    for (const glob of globs) steps.push({ tool: "glob", input: { pattern: glob, path: folders[0] } });
  else if (folders.length > 0) for (const path of folders) steps.push({ tool: "list", input: { path } });
  else if (LIST_PATTERN.test(prompt)) steps.push(createListStep());

  const [, firstLine, lastLine = firstLine] = LINE_RANGE_PATTERN.exec(prompt) ?? [];
  for (const path of files) steps.push(createReadStep(path, Number(firstLine), Number(lastLine)));
  if (MANIFEST_QUESTION_PATTERN.test(prompt) && files.length === 0)
    steps.push({
      ...createReadStep("package.json"),
      next: ({ failed }) => (failed ? [createListStep(MANIFEST_PATTERN)] : []),
    });
  return steps;
}

/** Returns the search term of a prompt as a regular expression; undefined if the prompt requests no search. */
function findSearchTerm(prompt: string, quotedTexts: readonly string[], names: readonly string[]): string | undefined {
  const markers = new Set([...prompt.matchAll(MARKER_PATTERN)].map(([, marker]) => marker));
  if (markers.size > 0) return `\\b(${[...markers].join("|")})\\b`;
  for (const [, searchText = ""] of prompt.matchAll(SEARCH_PATTERN)) {
    const words = searchText.replace(/(?<!\S)\S+\s+(?:source\s+)?files\b/gi, "").split(/[\s"'`(),.:;]+/);
    const text = quotedTexts[0] ?? words.find((word) => !FILLER_WORD_PATTERN.test(word)) ?? "";
    // Files and folders are read or listed, not searched for.
    if (text.length < 2 || MANIFEST_QUESTION_PATTERN.test(searchText) || names.some((name) => name.startsWith(text)))
      continue;
    return /^[\p{L}\p{N}_]+$/u.test(text) ? `\\b${text}\\b` : text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  }
  return undefined;
}

/** Creates a step that lists the project folder, then reads the first file that matches each pattern. */
function createListStep(...patterns: RegExp[]): Step {
  const next: Step["next"] = ({ output }) =>
    patterns.flatMap((pattern) => pattern.exec(output) ?? []).map((path) => createReadStep(path));
  return { tool: "list", input: {}, next };
}

/**
 * Creates a step that reads a file, from `firstLine` to `lastLine` if these are numbers. A folder is listed instead. If
 * the path does not exist, up to three files of that name in other folders are read.
 */
function createReadStep(path: string, firstLine = NaN, lastLine = firstLine): Step {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const readMatchingFiles = ({ output }: Outcome): Step[] => {
    const matchingPaths = output.split("\n").filter((line) => line.endsWith(`/${name}`));
    return matchingPaths.slice(0, MAX_MATCHING_FILES).map((file) => ({ tool: "read", input: { path: file } }));
  };
  const next = ({ output, failed }: Outcome): Step[] => {
    if (failed && /is a folder/.test(output)) return [{ tool: "list", input: { path } }];
    if (!failed || !/not found/.test(output)) return [];
    return [{ tool: "glob", input: { pattern: `**/${name}` }, next: readMatchingFiles }];
  };
  const lines = firstLine > 0 && lastLine >= firstLine ? { offset: firstLine, limit: lastLine - firstLine + 1 } : {};
  return { tool: "read", input: { path, ...lines }, next };
}
