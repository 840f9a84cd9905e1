import { dirname, resolve, sep } from "node:path";
import { toPrintable } from "../../base/printable.js";
import { ToolError, ToolInputError, WorkLimitError } from "../../ports/errors.js";
import type { PathGuard } from "../../files/path-guard.js";
import type { ToolContext } from "../../ports/tool.js";
import { listFiles } from "../../processes/file-list.js";
import type { RipgrepEnd } from "../../processes/ripgrep.js";
import { escapeGlob, openSearchScope, type SearchScope } from "../../processes/search-scope.js";
import { createReadGuard, toPathToolError, relativeTo, type FileToolOptions } from "./files.js";

/** Maximum files of a search with a glob for paths. */
const MAX_FILES = 200_000;

/** The folder or file that a tool searches. */
export interface ToolSearchScope {
  readonly guard: PathGuard;
  readonly scope: SearchScope;
  /** Size of the file in bytes if the path names a file. Undefined for a folder. */
  readonly fileBytes: number | undefined;
  /** Converts a name from ripgrep's output to a path for models, starting with the folder as the model named it. */
  nameOf(name: string): string;
}

/**
 * Opens the folder or file that the model named. The caller must close `scope`. Rejects with a `ToolError` if it cannot
 * be searched.
 */
export async function openToolSearchScope(
  options: FileToolOptions,
  path: string,
  context: ToolContext,
  all: boolean,
): Promise<ToolSearchScope> {
  const { projectDir } = context;
  try {
    const guard = await createReadGuard(options, context, path);
    const fullPath = resolve(projectDir, path);
    const { path: start, isFolder } = await guard.resolve(fullPath);
    let fileBytes: number | undefined;
    if (!isFolder) {
      const { handle, stats } = await guard.openFile(fullPath);
      await handle.close();
      fileBytes = Number(stats.size);
    }
    const project = await guard.resolve(projectDir).then(
      (target) => target.path,
      () => dirname(start),
    );
    const scope = await openSearchScope(guard, { path: start, isFolder }, { project, all });
    const rootLength = scope.root.length + (scope.root.endsWith("/") ? 0 : 1);
    const shownPath = relativeTo(fullPath, projectDir);
    const prefix = shownPath === "." ? "" : shownPath.endsWith("/") ? shownPath : `${shownPath}/`;
    const nameOf = (name: string): string => {
      const relativeName = name.slice(rootLength).split(sep).join("/");
      return toPrintable(relativeName === "" ? shownPath : prefix + relativeName);
    };
    return { guard, fileBytes, nameOf, scope };
  } catch (error) {
    throw await toPathToolError(error, path, projectDir, options);
  }
}

/** The arguments that decide how a pattern matches. */
interface PatternArguments {
  readonly pattern: string;
  readonly literal: boolean;
  readonly ignore_case: boolean;
}

/** Tokens of a regular expression whose content is not changed, and line feeds. */
const PATTERN_TOKENS = /\\Q[^]*?(?:\\E|$)|\[\^?\]?(?:\\[^]|\[:\^?\w+:\]|[^\]\\])*(?:\]|$)|\\[^]|\n/g;
/** A line feed in a pattern. Ripgrep's flag `--crlf` applies only to the ends of lines. */
const LINE_END = "(?:\\r?\\n)";

/**
 * Converts a pattern to ripgrep arguments. Ripgrep uses its own engine, which takes linear time, or PCRE2 for patterns
 * that its engine cannot parse. `isMultiline`: whether matches may span lines. Default: if the pattern names a line end.
 */
export function createPatternArguments(
  { pattern, literal, ignore_case: isCaseIgnored }: PatternArguments,
  isMultiline = literal ? pattern.includes("\n") : /\n|\\[nR]|\\x0[aA]|\[(?:\\s\\S|\\S\\s)\]|\(\?[a-z]*s/.test(pattern),
): string[] {
  if (pattern.includes("\0")) throw new ToolInputError("pattern: must not contain a NUL character");
  const isPlainText = literal && !isMultiline;
  return [
    ...(isPlainText ? ["--fixed-strings"] : ["--engine=auto"]),
    ...(isCaseIgnored ? ["--ignore-case"] : []),
    // Without --multiline no pattern matches a line feed, and ripgrep reports this only for some patterns.
    ...(isMultiline ? ["--multiline"] : []),
    "--crlf",
    `--regexp=${isPlainText ? pattern : literal ? quoteLines(pattern) : adaptLineEnds(pattern)}`,
  ];
}

/** Whether a pattern that names no line end can match one. */
export function canSpanLines({ pattern, literal }: PatternArguments): boolean {
  return !literal && /\\[sWDv]|\[\^|\[:(?:\^|space:)/.test(pattern);
}

/** Returns an expression for a plain text whose lines may end with CRLF. */
function quoteLines(text: string): string {
  return text
    .replace(/[^\w\s]/g, (character) => (character < "\x80" ? `\\${character}` : character))
    .replace(/\n/g, LINE_END);
}

/** Lets a line feed match CRLF too, and `\z` match before the end of the last line. */
function adaptLineEnds(pattern: string): string {
  // In extended mode, a line feed is white space without a meaning.
  if (/\(\?[a-z]*x/.test(pattern)) return pattern;
  return pattern.replace(PATTERN_TOKENS, (token) =>
    token === "\n" || token === "\\n" ? LINE_END : token === "\\z" ? "\\Z" : token,
  );
}

/** Ripgrep arguments for a glob. */
export interface GlobArguments {
  readonly args: readonly string[];
  /** Whether the glob matches whole paths. Ripgrep then also returns files that ignore files hide. */
  readonly isForPaths: boolean;
}

/**
 * Converts a glob for files below the root of the scope. `fromBase`: the glob may also be relative to the base.
 * Default: false.
 */
export function createGlobArguments(glob: string, { root }: SearchScope, { fromBase = false } = {}): GlobArguments {
  const normalizedGlob = glob.replace(/^(\.\/+)+/, "").replace(/\/{2,}/g, "/");
  const name = /^(?:\*\*\/)*([^/]+)$/.exec(normalizedGlob)?.[1];
  if (name === "*" || name === "**") return { args: [], isForPaths: false };
  // A file type is a glob for names that leaves ignore files in effect.
  if (name !== undefined)
    return {
      args: [`--type-add=wanted:${name.replace(/^include:/, "[i]nclude:")}`, "--type=wanted"],
      isForPaths: false,
    };
  const pathGlob = (normalizedGlob.endsWith("/") ? `${normalizedGlob}**` : normalizedGlob)
    .replace(/^\//, "")
    .replace(/ $/, "\\ ");
  const start = root === "./" ? "" : `${escapeGlob(root.slice(2))}/`;
  const globs = new Set([`/${start}${pathGlob}`, ...(fromBase ? [`/${pathGlob}`] : [])]);
  return { args: [...globs].map((globPattern) => `--glob=${globPattern}`), isForPaths: true };
}

/**
 * Returns the files that match a glob for paths and that no ignore file hides, by their names in ripgrep's output.
 * Combines two lists: one filtered by the glob, one by the ignore files.
 */
export async function findFilesByPath(
  scope: SearchScope,
  globs: GlobArguments,
  signal: AbortSignal,
): Promise<{ names: ReadonlySet<string>; isIncomplete: boolean }> {
  const matchingNames = new Set<string>();
  const globListing = await listFiles(
    scope,
    { signal, args: globs.args },
    (name) => matchingNames.add(name).size < MAX_FILES,
  );
  checkSearch(globListing, matchingNames.size > 0);
  const names = new Set<string>();
  if (matchingNames.size === 0) return { names, isIncomplete: globListing.endReason === "timeout" };
  const ignoreListing = await listFiles(
    scope,
    { signal },
    (name) => !matchingNames.has(name) || names.add(name).size < MAX_FILES,
  );
  return { names, isIncomplete: globListing.endReason !== "exit" || ignoreListing.endReason === "timeout" };
}

/**
 * Runs a search with the ignore files. If ripgrep cannot use the ignore files, because they are too large or link to a
 * device, repeats the search without them.
 *
 * `work` returns the text of the result. Rejects with a `ToolError` if the search without ignore files fails too.
 */
export async function withIgnoreFiles(all: boolean, work: (all: boolean) => Promise<string>): Promise<string> {
  try {
    return await work(all);
  } catch (error) {
    if (!(error instanceof WorkLimitError)) throw error;
    if (!all) return `${await withIgnoreFiles(true, work)}\n[ignore files were not applied: ${error.message}]`;
    const message = `the search was aborted: ${error.message}. Use a smaller folder or a simpler pattern.`;
    throw new ToolError(message, { cause: error });
  }
}

/** Throws if ripgrep could not run the search. In that case, its output is not the result of the search. */
export function checkSearch({ endReason, code, errors }: RipgrepEnd, hasOutput: boolean): void {
  // Exit code 2: ripgrep reported errors.
  if (endReason !== "exit" || code !== 2 || errors === "") return;
  const glob = /error parsing glob '[^]*?': (.*)/.exec(errors);
  if (glob) throw new ToolInputError(`invalid glob: ${glob[1]}. Correct it.`);
  const file = /^(?:rg: )?([^\n]*?): PCRE2: error matching/m.exec(errors);
  if (file)
    throw new ToolError(
      "the pattern takes too long. Avoid nested repetition such as (a+)+ with a look-around or a back-reference.",
    );
  const patternError =
    /^error: (.*)/m.exec(errors)?.[1] ?? /(?:PCRE2: error compiling|the literal|compiled regex).*/.exec(errors)?.[0];
  if (patternError !== undefined)
    throw new ToolInputError(
      `pattern: Invalid regular expression: ${patternError}. Correct it, or set literal to search plain text.`,
    );
  if (!hasOutput) throw new ToolError(`the search failed: ${errors.trim().slice(0, 500)}`);
}
