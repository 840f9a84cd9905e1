import { availableParallelism } from "node:os";
import { MODEL_BYTES } from "../../base/cut-text.js";
import type { ToolContext } from "../../ports/tool.js";
import { listFiles } from "../../processes/file-list.js";
import { runRipgrep } from "../../processes/ripgrep.js";
import { FirstPaths, NulRecords, pathKey, SEARCH_TIMEOUT_MS, type SearchScope } from "../../processes/search-scope.js";
import { size } from "./content.js";
import { forEachOpenedFile, regularFiles } from "./search-results.js";
import { folderName, type FileToolOptions } from "./files.js";
import { CountRecords, FoundLines, readLines, type FoundFile, type LinePosition } from "./matched-lines.js";
import {
  checkSearch,
  filesByPath,
  globArguments,
  openToolSearchScope,
  patternArguments,
  type ToolSearchScope,
} from "./search-folder.js";

/**
 * Maximum file size. Larger files are skipped and reported, because ripgrep holds a whole line in memory, with
 * `--multiline` a whole file.
 */
const MAX_FILE_BYTES = 512 * 1024 * 1024;
/** Maximum size of a UTF-16 file whose matches are shown. UTF-16 files are decoded completely. */
const MAX_DECODED_BYTES = 64 * 1024 * 1024;
/** A search that finds more lines is repeated in the order of paths, and ends when the limit is reached. */
const MAX_UNSORTED_LINES = 5_000;
/** Files that were not searched: the maximum remembered, and the maximum named in the result. */
const MAX_REMEMBERED = 100;
const MAX_NAMED = 3;

export interface GrepOptions extends FileToolOptions {
  /** Time limit of a search, in ms. Default: 60,000. */
  searchMs?: number;
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

/** One search, from the pattern to the result text. */
export class GrepSearch {
  readonly #options: GrepOptions;
  readonly #args: GrepArgs;
  readonly #context: ToolContext;
  readonly #start: string;
  readonly #lines: string[] = [];
  readonly #binary = new Set<string>();
  readonly #tooLarge = new Set<string>();
  #globs: readonly string[] = [];
  #isWanted = (_name: string): boolean => true;
  #bytes = 0;
  #shown = 0;
  #matches = 0;
  #files = 0;
  #unreadable = 0;
  #isFull = false;
  #isIncomplete = false;

  constructor(options: GrepOptions, args: GrepArgs, context: ToolContext) {
    this.#options = options;
    this.#args = args;
    this.#context = context;
    this.#start = args.path || ".";
  }

  async run(): Promise<string> {
    const where = await openToolSearchScope(this.#options, this.#start, this.#context, this.#args.all);
    try {
      await this.#readGlob(where);
      if ((where.fileBytes ?? 0) > MAX_FILE_BYTES) this.#tooLarge.add(where.place.root);
      else if (this.#args.output === "lines") await this.#searchLines(where);
      else await this.#searchFiles(where);
      return await this.#text(where);
    } finally {
      await where.place.close();
    }
  }

  /** Sets the ripgrep arguments for the glob, and the filter for the files that ripgrep finds. */
  async #readGlob({ place, fileBytes }: ToolSearchScope): Promise<void> {
    const { glob, all } = this.#args;
    // A file that the model named is searched regardless of globs and ignore files.
    if (glob === undefined || fileBytes !== undefined) return;
    const { args, isForPaths } = globArguments(glob, place, { fromBase: true });
    this.#globs = args;
    if (!isForPaths || all) return;
    const { names, isIncomplete } = await filesByPath(place, { args, isForPaths }, this.#context.signal);
    if (isIncomplete) this.#isIncomplete = true;
    this.#isWanted = (name) => names.has(name);
  }

  /**
   * Runs ripgrep. `onOutput` returns false to end the search. The names that it receives are not yet filtered by
   * `#isWanted`.
   */
  async #search(
    { place }: ToolSearchScope,
    flags: readonly string[],
    onOutput: (chunk: Buffer) => boolean,
  ): Promise<void> {
    const limits = {
      cwd: place.cwd,
      signal: this.#context.signal,
      timeoutMs: this.#options.searchMs ?? SEARCH_TIMEOUT_MS,
    };
    const pattern = patternArguments(this.#args);
    const largest = `--max-filesize=${MAX_FILE_BYTES}`;
    const onTooLarge = (name: string): void => {
      if (this.#tooLarge.size < MAX_REMEMBERED && this.#isWanted(name)) this.#tooLarge.add(name);
    };
    // With globs, ripgrep would report each excluded file. A list of all files is shorter. It uses half of the
    // processors, so that it does not slow down the search.
    const threads = `--threads=${Math.ceil(availableParallelism() / 2)}`;
    const list =
      this.#globs.length > 0 &&
      runRipgrep({ ...limits, args: ["--files", largest, threads, ...place.flags, "--", place.root], onTooLarge });
    let hasOutput = false;
    const [end] = await Promise.all([
      runRipgrep({
        ...limits,
        args: [
          ...["--null", "--with-filename", largest, "--no-mmap"],
          ...[...flags, ...pattern, ...this.#globs, ...place.flags, "--", place.root],
        ],
        onOutput: (chunk) => {
          hasOutput = true;
          return onOutput(chunk);
        },
        ...(list === false && { onTooLarge }),
      }),
      list,
    ]);
    checkSearch(end, hasOutput);
    this.#unreadable = end.unreadable;
    if (end.why === "timeout") this.#isIncomplete = true;
    await this.#dropUnmatchedLarge(place);
  }

  /** Drops files that are too large but not matched by the glob. */
  async #dropUnmatchedLarge(place: SearchScope): Promise<void> {
    if (this.#tooLarge.size === 0 || this.#globs.length === 0) return;
    const matching = new Set<string>();
    const { signal } = this.#context;
    await listFiles(place, { signal, args: this.#globs }, (name) => matching.add(name).size > 0);
    for (const name of this.#tooLarge) if (!matching.has(name)) this.#tooLarge.delete(name);
  }

  async #searchLines(where: ToolSearchScope): Promise<void> {
    const { limit } = this.#args;
    // A sorted ripgrep run uses one thread. So few matches are found faster unsorted, and many matches faster sorted.
    const foundFiles = (await this.#foundLines(where, false)) ?? (await this.#foundLines(where, true)) ?? [];
    const files: FoundFile[] = [];
    let matches = 0;
    for (const file of foundFiles) {
      if (matches > limit) break;
      files.push(file);
      matches += file.lines.filter(({ isMatch }) => isMatch).length;
    }
    const texts = new Map<FoundFile, (string | undefined)[]>();
    const byName = new Map(files.map((file) => [file.name, file] as const));
    await forEachOpenedFile(where, byName.keys(), async (opened, name) => {
      const file = byName.get(name);
      if (file) texts.set(file, await readLines(opened, file.lines, MAX_DECODED_BYTES));
    });
    for (const file of files) {
      const lines = texts.get(file);
      if (lines && !this.#isFull) this.#addLines(where.nameOf(file.name), file.lines, lines);
    }
  }

  /**
   * Files with the positions of their matches, in the order of paths. Undefined if an unsorted search finds too many
   * lines.
   */
  async #foundLines(where: ToolSearchScope, isSorted: boolean): Promise<FoundFile[] | undefined> {
    const { limit, context } = this.#args;
    const files: FoundFile[] = [];
    let count = 0;
    let matches = 0;
    const hasRoom = (): boolean => (isSorted ? matches <= limit : count <= MAX_UNSORTED_LINES);
    const add = (name: string, line: LinePosition): boolean => {
      if (!this.#isWanted(name)) return true;
      const last = files.at(-1);
      if (last?.name === name) last.lines.push(line);
      else files.push({ name, lines: [line] });
      count++;
      if (line.isMatch) matches++;
      return hasRoom();
    };
    const lineParser = new FoundLines(add, (name) => this.#binary.add(name));
    const flags = ["--line-number", "--column", "--byte-offset", "--no-heading", "--max-columns=1"];
    // One more than the limit shows whether there are more matches.
    flags.push("--no-context-separator", `--context=${context}`, `--max-count=${limit + 1}`);
    await this.#search(where, isSorted ? [...flags, "--sort=path"] : flags, (chunk) => lineParser.push(chunk));
    lineParser.end();
    if (isSorted) return files;
    if (!hasRoom()) return undefined;
    const keyed = files.map((file) => ({ file, key: pathKey(file.name) }));
    return keyed.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ file }) => file);
  }

  #addLines(name: string, places: readonly LinePosition[], texts: readonly (string | undefined)[]): void {
    const { limit, context } = this.#args;
    const first = places.findIndex((_place, index) => texts[index] !== undefined);
    if (first < 0) return;
    if (this.#shown >= limit) return void (this.#isFull = true);
    if (!this.#push(name)) return;
    this.#files++;
    let last = 0;
    for (const [index, { line, isMatch }] of places.entries()) {
      const text = texts[index];
      if (text === undefined) continue;
      if (this.#shown >= limit && (isMatch || line > last + context))
        return void (this.#isFull = isMatch || this.#isFull);
      if (last > 0 && line > last + 1 && context > 0) this.#push("--");
      if (!this.#push(`${line}${isMatch ? ":" : "-"}${text}`)) return;
      last = line;
      if (!isMatch) continue;
      this.#shown++;
      this.#matches++;
    }
  }

  async #searchFiles(where: ToolSearchScope): Promise<void> {
    const { output, limit } = this.#args;
    const isCount = output === "count";
    const counts = new Map<string, number>();
    const first = new FirstPaths(isCount ? limit : limit + 1);
    const records = isCount ? new CountRecords() : new NulRecords();
    await this.#search(where, isCount ? ["--count"] : ["--files-with-matches"], (chunk) =>
      records.push(chunk, (name, count = 1) => {
        if (!this.#isWanted(name)) return true;
        if (isCount) counts.set(name, count);
        return first.add(name);
      }),
    );
    const names = first.names();
    // A file may be a hard link to a denied file. Its matches must not be counted.
    const hasLinks = !isCount || (await where.guard.hasLinkedNames());
    const checked = isCount && hasLinks ? [...counts.keys()] : names;
    const allowed = hasLinks ? new Set<string>() : await regularFiles(where.guard, where.place.base, names);
    if (hasLinks) await forEachOpenedFile(where, checked, (_file, name) => void allowed.add(name));
    const isRefused = new Set(checked.filter((name) => !allowed.has(name)));
    this.#files = first.count - isRefused.size;
    this.#matches = isCount
      ? [...counts].reduce((sum, [name, count]) => sum + (isRefused.has(name) ? 0 : count), 0)
      : this.#files;
    for (const name of names) {
      if (isRefused.has(name)) continue;
      const text = where.nameOf(name);
      if (this.#shown >= limit || !this.#push(isCount ? `${text}: ${counts.get(name)}` : text)) this.#isFull = true;
      else this.#shown++;
    }
  }

  #push(line: string): boolean {
    this.#bytes += Buffer.byteLength(line) + 1;
    if (this.#bytes > MODEL_BYTES) {
      this.#isFull = true;
      return false;
    }
    this.#lines.push(line);
    return true;
  }

  async #text(where: ToolSearchScope): Promise<string> {
    const { output, pattern } = this.#args;
    const lines = this.#lines;
    const folder = folderName(this.#start, this.#context.projectDir);
    if (this.#matches === 0) {
      const filter = this.#args.glob === undefined ? "" : ` (${this.#args.glob})`;
      lines.push(`No match for ${pattern} in ${folder}${filter}.`);
    } else if (output === "count") lines.push(`[${this.#matches} matching lines in ${this.#files} files]`);
    else if (this.#isFull)
      lines.push(
        `[${this.#shown} ${output === "lines" ? "matching lines" : "files"} shown, more exist; narrow path, glob or pattern, or raise limit]`,
      );
    if (this.#isIncomplete) lines.push("[too large to search completely; narrow path or glob]");
    await this.#pushNamed("not searched, too large", this.#tooLarge, where);
    await this.#pushNamed("not searched completely, binary", this.#binary, where);
    if (this.#unreadable > 0) lines.push(`[${this.#unreadable} entries could not be read]`);
    return lines.join("\n");
  }

  /** Adds a note with file names. Each file is checked by the path guard first. */
  async #pushNamed(what: string, files: ReadonlySet<string>, where: ToolSearchScope): Promise<void> {
    const names = [...files].sort();
    const sizes = new Map<string, string>();
    await forEachOpenedFile(where, names.slice(0, MAX_NAMED), ({ stats }, name) => {
      sizes.set(name, `${where.nameOf(name)} (${size(Number(stats.size))})`);
    });
    if (sizes.size === 0) return;
    const named = [...sizes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, text]) => text);
    this.#lines.push(`[${what}: ${named.join(", ")}${names.length > MAX_NAMED ? ", …" : ""}]`);
  }
}
