import { mentionsOf, trimmed } from "./mentions.js";
import type { Mentions } from "./mentions.js";
import { topicsOf } from "./topics.js";
import type { Topic } from "./topics.js";

/** One tool call that a prompt asks for. */
export type Step =
  | { tool: "list"; path?: string }
  | { tool: "read"; path: string; offset?: number; limit?: number }
  | { tool: "grep"; pattern: string; path?: string; include?: string }
  | { tool: "glob"; pattern: string; path?: string };

/** What a prompt asks for, as far as rules can tell. */
export interface Plan {
  steps: Step[];
  /** Fields of a manifest (package.json) that are asked for. */
  topics: Topic[];
  /** The manifest was not named, only meant. */
  manifestMeant: boolean;
  /** Asks what the whole project is. */
  overview: boolean;
  /** Asks for a change, a command or a thought: what only a model can give. */
  beyond: boolean;
}

const LIST =
  /\b(?:which|what|list|show|see|display|enumerate)\b[^.?!\n]{0,40}\b(?:files?|folders?|director(?:y|ies))\b|(?:^|\s)ls(?:\s|$)|\bwhat(?:'s|’s| is| do you see)(?: in)? (?:here|this (?:folder|directory|project|repo(?:sitory)?)|the (?:current )?(?:folder|directory))\b|\bfiles? (?:are |is )?(?:here|there)\b|\b(?:project|folder|directory|file|repo(?:sitory)?) (?:structure|layout|tree|contents?)\b|\b(?:list|show) (?:everything|all)\b/i;
const BY_CONTENT =
  /\b(?:which|what|list|find|show)\b[^.?!\n]{0,30}\bfiles?\b[^.?!\n]{0,12}\b(?:contain|mention|use|import|reference|call|define|include)/i;
const SEARCH =
  /\b(?:search(?:\s+(?:the\s+)?(?:code(?:base)?|project|repo(?:sitory)?|files?|folder))?\s+for|grep(?:\s+for)?|look(?:ing)?\s+for|find|occurrences?\s+of|us(?:es?|ages?)\s+of|references?\s+to|files?\s+(?:that\s+|which\s+)?(?:contain|mention|use|import|reference|call|define|include)(?:s|ing)?|where\s+(?:is|are|was|does|do|did|can\s+i\s+find)(?:\s+(?:we|you|it|they|i)\b)?)\s+([^?!\n]+)/gi;
const MARKS = /\b(TODO|FIXME|HACK|XXX)s?\b/g;
const LINES = /\blines?\s+(\d+)(?:\s*(?:-|–|to|through|until)\s*(\d+))?\b/i;
const FIRST = /\b(?:first|top)\s+(\d+)\s+lines\b/i;
const OVERVIEW =
  /\b(?:what(?:'s|’s| is| does| do)?|explain|describe|summari[sz]e|understand|overview(?: of)?|introduce|about)\b[^.?!\n]{0,30}\b(?:this|the|my|our)\s+(?:whole\s+|entire\s+)?(?:project|repo(?:sitory)?|code\s?base|code|package|app(?:lication)?|program|library)\b|\boverview\b/i;
const BEYOND =
  /\b(?:fix|change|edit|refactor|rewrite|implement|add|create|generate|delete|remove|rename|move|replace|update|upgrade|install|execute|commit|debug|optimi[sz]e|translate|review|explain|why|how (?:do|does|can|to|should|would)|improve|convert|migrate|write|summari[sz]e|compare|suggest|run (?:the|my|all|npm|a)|build (?:the|a|me|an))\b/i;
const CREATE = /\b(?:create|generate|write|add|make)\s+(?:me\s+)?(?:a|an|the|new|some)\b/i;
/** Words that are never what someone looks for. */
const FILLER = new Set(
  (
    "a an the all any every each some this that these those my our your its of in on at for to from by with and or not is are was " +
    "be being do does did done used using called call calls defined declared implemented handled set made located stored word text " +
    "string phrase term name named function functions method methods class classes variable variables constant type types interface " +
    "symbol identifier code place places line lines occurrence occurrences usage usages reference references file files it we you i " +
    "they me us them where which what how when who please here there out up come comes go goes live lives actually exactly everything"
  ).split(" "),
);
const LANGUAGES: Readonly<Record<string, string>> = {
  typescript: "**/*.{ts,tsx,mts,cts}",
  javascript: "**/*.{js,jsx,mjs,cjs}",
  python: "**/*.py",
  rust: "**/*.rs",
  go: "**/*.go",
  java: "**/*.java",
  markdown: "**/*.{md,mdx}",
  json: "**/*.json",
  yaml: "**/*.{yml,yaml}",
  css: "**/*.{css,scss,less}",
  html: "**/*.{html,htm}",
  shell: "**/*.sh",
  test: "**/*{test,spec}*",
  spec: "**/*spec*",
};

/** Which tools a prompt calls for. The same prompt always gives the same plan. */
export function plan(prompt: string): Plan {
  const mentions = mentionsOf(prompt);
  const topics = topicsOf(prompt);
  const steps: Step[] = [];
  const overview = OVERVIEW.test(prompt) && mentions.files.length === 0;
  const create = CREATE.test(prompt);

  const globs = [...mentions.globs, ...languageGlobs(prompt)];
  const searches = searchSteps(prompt, mentions, topics, globs);
  const searching = searches.some((step) => step.tool === "grep");

  const list = (LIST.test(prompt) && !BY_CONTENT.test(prompt) && globs.length === 0) || overview;
  if (list) {
    const folders = searching ? [] : mentions.folders;
    for (const path of folders) steps.push({ tool: "list", path });
    if (folders.length === 0) steps.push({ tool: "list" });
  } else if (!searching && globs.length === 0) {
    for (const path of mentions.folders) steps.push({ tool: "list", path });
  }
  if (!searching) {
    const [path] = mentions.folders;
    for (const pattern of globs) steps.push({ tool: "glob", pattern, ...(path === undefined ? {} : { path }) });
  }

  // A file that is searched is not read as well.
  const searched = searching && searches.some((step) => step.tool === "grep" && step.path !== undefined);
  if (!searched && !create) {
    for (const file of mentions.files) {
      if (searches.some((step) => step.tool === "glob" && step.pattern === `**/${file.path}`)) continue;
      steps.push({ tool: "read", path: file.path, ...linesAsked(prompt, file.from, file.to) });
    }
  }
  const manifestMeant = topics.some((topic) => topic.alone) && mentions.files.length === 0 && !create;
  if (manifestMeant && !searching) steps.push({ tool: "read", path: "package.json" });
  steps.push(...searches);
  return { steps, topics, manifestMeant, overview, beyond: BEYOND.test(prompt) };
}

function linesAsked(prompt: string, from?: number, to?: number): { offset?: number; limit?: number } {
  if (from !== undefined) return { offset: from, limit: (to ?? from) - from + 1 };
  const lines = LINES.exec(prompt);
  if (lines) {
    const [start, end] = [Number(lines[1]), Number(lines[2] ?? lines[1])];
    if (start > 0 && end >= start && end < 10_000_000) return { offset: start, limit: end - start + 1 };
  }
  const first = FIRST.exec(prompt);
  if (first && Number(first[1]) > 0 && Number(first[1]) < 10_000_000) return { offset: 1, limit: Number(first[1]) };
  return {};
}

function languageGlobs(prompt: string): string[] {
  const found: string[] = [];
  for (const [, word = ""] of prompt.matchAll(/\b(\w+)\s+(?:source\s+)?files\b/gi)) {
    const name = word.toLowerCase();
    if (Object.hasOwn(LANGUAGES, name)) found.push(String(LANGUAGES[name]));
  }
  return [...new Set(found)];
}

function searchSteps(prompt: string, mentions: Mentions, topics: readonly Topic[], globs: readonly string[]): Step[] {
  const place = searchPlace(mentions, globs);
  const steps: Step[] = [];
  const marks = new Set([...prompt.matchAll(MARKS)].map(([, mark = ""]) => mark));
  if (marks.size > 0) steps.push({ tool: "grep", pattern: `\\b(${[...marks].join("|")})\\b`, ...place });
  for (const match of prompt.matchAll(SEARCH)) {
    const whole = match[0].toLowerCase();
    const rest = match[1] ?? "";
    const [quoted] = mentions.quoted;
    if (quoted !== undefined) {
      steps.push({ tool: "grep", pattern: escaped(quoted), ...place });
      break;
    }
    if (marks.size > 0) break;
    const words = rest.split(/\s+/).map(trimmed);
    const word = words.find((candidate) => candidate !== "" && !FILLER.has(candidate.toLowerCase()));
    if (word === undefined || word.length < 2) continue;
    if (mentions.files.some(({ path }) => path === word)) {
      // A file looked for by name; one behind "in" is where to look.
      if (!word.includes("/")) steps.push({ tool: "glob", pattern: `**/${word}` });
      continue;
    }
    if (globs.length > 0 && (mentions.globs.includes(word) || Object.hasOwn(LANGUAGES, word.toLowerCase()))) continue;
    if (mentions.folders.some((folder) => folder === word || folder === word.replace(/\/+$/, ""))) continue;
    if (whole.startsWith("where") && topics.some((topic) => topic.words.test(rest))) continue;
    const symbol = /^[\p{L}\p{N}_$]+(?=\()/u.exec(word)?.[0] ?? word;
    const pattern = /^[\p{L}\p{N}_]+$/u.test(symbol) ? `\\b${symbol}\\b` : escaped(symbol);
    steps.push({ tool: "grep", pattern, ...place });
  }
  return steps;
}

/** Where to look: a file or folder behind "in", or the kinds of files named. */
function searchPlace(mentions: Mentions, globs: readonly string[]): { path?: string; include?: string } {
  const path = mentions.files.length === 1 ? mentions.files[0]?.path : mentions.folders[0];
  return { ...(path === undefined ? {} : { path }), ...(globs[0] === undefined ? {} : { include: globs[0] }) };
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
