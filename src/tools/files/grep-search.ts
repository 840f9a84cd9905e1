import { availableParallelism } from "node:os";
import type { ToolContext } from "../../ports/tool.js";
import { listFiles } from "../../processes/file-list.js";
import { runRipgrep } from "../../processes/ripgrep.js";
import {
  FirstPaths,
  NulRecordParser,
  createPathKey,
  SEARCH_TIMEOUT_MS,
  type SearchScope,
} from "../../processes/search-scope.js";
import { forEachOpenedFile, findRegularFiles } from "./search-results.js";
import { folderName, type FileToolOptions } from "./files.js";
import { GrepResult } from "./grep-result.js";
import { CountRecordParser, FoundLineParser, readLines, type FoundFile, type LinePosition } from "./matched-lines.js";
import {
  canSpanLines,
  checkSearch,
  findFilesByPath,
  createGlobArguments,
  openToolSearchScope,
  createPatternArguments,
  type ToolSearchScope,
} from "./search-folder.js";

/** Maximum size of a searched file: ripgrep holds a whole line in memory, and with `--multiline` the whole file. */
const MAX_FILE_BYTES = 512 * 1024 * 1024;
/** Maximum size of a UTF-16 file whose matches are shown. UTF-16 files are decoded completely. */
const MAX_DECODED_BYTES = 64 * 1024 * 1024;
/** Maximum lines of an unsorted search. A search with more lines is repeated in the order of paths up to the limit. */
const MAX_UNSORTED_LINES = 5_000;
/** Maximum skipped files that are remembered. */
const MAX_SKIPPED_FILES = 100;

export interface GrepOptions extends FileToolOptions {
  /** Time limit of a search, in ms. Default: 60,000. */
  searchTimeoutMs?: number;
}

/** Arguments of the `grep` tool; see its schema. */
export interface GrepArgs {
  pattern: string;
  path: string;
  glob?: string | undefined;
  ignore_case: boolean;
  literal: boolean;
  context: number;
  output: string;
  limit: number;
  all: boolean;
}

/** One search with ripgrep, from the arguments of the tool to the result text. */
export class GrepSearch {
  readonly #options: GrepOptions;
  readonly #args: GrepArgs;
  readonly #context: ToolContext;
  readonly #start: string;
  readonly #result: GrepResult;
  readonly #binaryFiles = new Set<string>();
  readonly #tooLargeFiles = new Set<string>();
  #globs: readonly string[] = [];
  #isInGlob = (_name: string): boolean => true;
  #unreadableCount = 0;
  #isIncomplete = false;
  /** True while matches that span lines are searched, because no single line matches. */
  #spansLines = false;

  constructor(options: GrepOptions, args: GrepArgs, context: ToolContext) {
    this.#options = options;
    this.#args = args;
    this.#context = context;
    this.#start = args.path || ".";
    this.#result = new GrepResult(args.limit, args.context);
  }

  async run(): Promise<string> {
    const toolScope = await openToolSearchScope(this.#options, this.#start, this.#context, this.#args.all);
    try {
      await this.#readGlob(toolScope);
      if ((toolScope.fileBytes ?? 0) > MAX_FILE_BYTES) this.#tooLargeFiles.add(toolScope.scope.root);
      else await this.#searchMatches(toolScope);
      return await this.#formatResult(toolScope);
    } finally {
      await toolScope.scope.close();
    }
  }

  async #searchMatches(toolScope: ToolSearchScope): Promise<void> {
    if (this.#args.output === "lines") await this.#searchLines(toolScope);
    else await this.#searchFiles(toolScope);
    if (this.#spansLines || this.#result.hasMatches || this.#isIncomplete || !canSpanLines(this.#args)) return;
    this.#spansLines = true;
    await this.#searchMatches(toolScope);
  }

  /** Sets the ripgrep arguments for the glob, and the filter for the files that ripgrep finds. */
  async #readGlob({ scope, fileBytes }: ToolSearchScope): Promise<void> {
    const { glob, all } = this.#args;
    // A file that the model named is searched regardless of globs and ignore files.
    if (glob === undefined || fileBytes !== undefined) return;
    const { args, isForPaths } = createGlobArguments(glob, scope, { fromBase: true });
    this.#globs = args;
    if (!isForPaths || all) return;
    const { names, isIncomplete } = await findFilesByPath(scope, { args, isForPaths }, this.#context.signal);
    if (isIncomplete) this.#isIncomplete = true;
    this.#isInGlob = (name) => names.has(name);
  }

  /** Runs ripgrep. `onOutput` returns false to end the search, and receives names before the filter `#isInGlob`. */
  async #search(
    { scope }: ToolSearchScope,
    flags: readonly string[],
    onOutput: (chunk: Buffer) => boolean,
  ): Promise<void> {
    const limits = {
      cwd: scope.cwd,
      signal: this.#context.signal,
      timeoutMs: this.#options.searchTimeoutMs ?? SEARCH_TIMEOUT_MS,
    };
    const pattern = createPatternArguments(this.#args, this.#spansLines || undefined);
    const sizeLimit = `--max-filesize=${MAX_FILE_BYTES}`;
    const onTooLarge = (name: string): void => {
      if (this.#tooLargeFiles.size < MAX_SKIPPED_FILES && this.#isInGlob(name)) this.#tooLargeFiles.add(name);
    };
    // With globs, ripgrep would report each excluded file. A list of all files is shorter. The list uses half of the
    // processors, so that the search itself stays fast.
    const threads = `--threads=${Math.ceil(availableParallelism() / 2)}`;
    const sizeListing =
      this.#globs.length > 0 &&
      runRipgrep({ ...limits, args: ["--files", sizeLimit, threads, ...scope.flags, "--", scope.root], onTooLarge });
    let hasOutput = false;
    const [end] = await Promise.all([
      runRipgrep({
        ...limits,
        args: [
          ...["--null", "--with-filename", sizeLimit, "--no-mmap"],
          ...[...flags, ...pattern, ...this.#globs, ...scope.flags, "--", scope.root],
        ],
        onOutput: (chunk) => {
          hasOutput = true;
          return onOutput(chunk);
        },
        ...(sizeListing === false && { onTooLarge }),
      }),
      sizeListing,
    ]);
    checkSearch(end, hasOutput);
    this.#unreadableCount = end.unreadableCount;
    if (end.endReason === "timeout") this.#isIncomplete = true;
    await this.#dropUnmatchedLargeFiles(scope);
  }

  /** Drops files that are too large but not matched by the glob. */
  async #dropUnmatchedLargeFiles(scope: SearchScope): Promise<void> {
    if (this.#tooLargeFiles.size === 0 || this.#globs.length === 0) return;
    const matchingNames = new Set<string>();
    const { signal } = this.#context;
    await listFiles(scope, { signal, args: this.#globs }, (name) => matchingNames.add(name).size > 0);
    for (const name of this.#tooLargeFiles) if (!matchingNames.has(name)) this.#tooLargeFiles.delete(name);
  }

  async #searchLines(toolScope: ToolSearchScope): Promise<void> {
    const { limit } = this.#args;
    // A sorted ripgrep run uses one thread: few matches are found faster unsorted, and many matches faster sorted.
    const foundFiles = (await this.#findLines(toolScope, false)) ?? (await this.#findLines(toolScope, true)) ?? [];
    const files: FoundFile[] = [];
    let matchCount = 0;
    for (const file of foundFiles) {
      if (matchCount > limit) break;
      files.push(file);
      matchCount += file.lines.filter(({ isMatch }) => isMatch).length;
    }
    const texts = new Map<FoundFile, (string | undefined)[]>();
    const filesByName = new Map(files.map((file) => [file.name, file] as const));
    await forEachOpenedFile(toolScope, filesByName.keys(), async (openedFile, name) => {
      const file = filesByName.get(name);
      if (file) texts.set(file, await readLines(openedFile, file.lines, MAX_DECODED_BYTES));
    });
    for (const file of files) {
      const lines = texts.get(file);
      if (lines && !this.#result.isFull) this.#result.addLines(toolScope.nameOf(file.name), file.lines, lines);
    }
  }

  /** Returns match positions by file, ordered by path. Undefined if an unsorted search finds too many lines. */
  async #findLines(toolScope: ToolSearchScope, isSorted: boolean): Promise<FoundFile[] | undefined> {
    const { limit, context } = this.#args;
    const files: FoundFile[] = [];
    let lineCount = 0;
    let matchCount = 0;
    const hasRoom = (): boolean => (isSorted ? matchCount <= limit : lineCount <= MAX_UNSORTED_LINES);
    const add = (name: string, line: LinePosition): boolean => {
      if (!this.#isInGlob(name)) return true;
      const lastFile = files.at(-1);
      if (lastFile?.name === name) lastFile.lines.push(line);
      else files.push({ name, lines: [line] });
      lineCount++;
      if (line.isMatch) matchCount++;
      return hasRoom();
    };
    const lineParser = new FoundLineParser(add, (name) => this.#binaryFiles.add(name));
    const flags = ["--line-number", "--column", "--byte-offset", "--no-heading", "--max-columns=1"];
    // One more than the limit shows whether there are more matches.
    flags.push("--no-context-separator", `--context=${context}`, `--max-count=${limit + 1}`);
    await this.#search(toolScope, isSorted ? [...flags, "--sort=path"] : flags, (chunk) => lineParser.push(chunk));
    lineParser.end();
    if (isSorted) return files;
    if (!hasRoom()) return undefined;
    const keyedFiles = files.map((file) => ({ file, key: createPathKey(file.name) }));
    return keyedFiles.sort((left, right) => (left.key < right.key ? -1 : 1)).map(({ file }) => file);
  }

  async #searchFiles(toolScope: ToolSearchScope): Promise<void> {
    const { output, limit } = this.#args;
    const isCount = output === "count";
    const counts = new Map<string, number>();
    const firstPaths = new FirstPaths(isCount ? limit : limit + 1);
    const records = isCount ? new CountRecordParser() : new NulRecordParser();
    await this.#search(toolScope, isCount ? ["--count"] : ["--files-with-matches"], (chunk) =>
      records.push(chunk, (name, count = 1) => {
        if (!this.#isInGlob(name)) return true;
        if (isCount) counts.set(name, count);
        return firstPaths.add(name);
      }),
    );
    const names = firstPaths.names();
    // A file may be a hard link to a denied file. Its matches must not be counted.
    const hasLinks = !isCount || (await toolScope.guard.hasLinkedDeniedFiles());
    const checkedNames = isCount && hasLinks ? [...counts.keys()] : names;
    const allowedNames = hasLinks
      ? new Set<string>()
      : await findRegularFiles(toolScope.guard, toolScope.scope.base, names);
    if (hasLinks) await forEachOpenedFile(toolScope, checkedNames, (_file, name) => void allowedNames.add(name));
    const refusedNames = new Set(checkedNames.filter((name) => !allowedNames.has(name)));
    const fileCount = firstPaths.count - refusedNames.size;
    const matchCount = isCount
      ? [...counts].reduce((sum, [name, count]) => sum + (refusedNames.has(name) ? 0 : count), 0)
      : fileCount;
    this.#result.setCounts(fileCount, matchCount);
    for (const name of names) {
      if (refusedNames.has(name)) continue;
      const text = toolScope.nameOf(name);
      this.#result.addFile(isCount ? `${text}: ${counts.get(name)}` : text);
    }
  }

  async #formatResult(toolScope: ToolSearchScope): Promise<string> {
    const { output, pattern, literal, glob } = this.#args;
    const result = this.#result;
    const folder = folderName(this.#start, this.#context.projectDir);
    const filter = glob === undefined ? "" : ` (${glob})`;
    result.addSummary(output, `No match for ${pattern} in ${folder}${filter}.`);
    if (this.#spansLines && result.hasMatches) result.addNote("no single line matches; these matches span lines");
    if (!result.hasMatches && !literal && pattern.includes("\\|"))
      result.addNote("\\| matches a literal |; use | for alternatives");
    if (this.#isIncomplete) result.addNote("too large to search completely; narrow path or glob");
    await result.addFileNote("not searched, too large", this.#tooLargeFiles, toolScope);
    await result.addFileNote("not searched completely, binary", this.#binaryFiles, toolScope);
    if (this.#unreadableCount > 0) result.addNote(`${this.#unreadableCount} entries could not be read`);
    return result.toString();
  }
}
