import { resolve } from "node:path";
import { PathError, ToolError, ToolInputError, WorkLimitError } from "../ports/errors.js";
import type { FileMatches } from "../hostile/line-search.js";
import { withThread, type HostileThread } from "../hostile/threads.js";
import type { PathGuard } from "../files/path-guard.js";
import type { ToolContext, ToolOutput } from "../ports/tool.js";
import { size } from "./content.js";
import { folderName, guardForReading, pathFault, relativeTo, shown } from "./files.js";
import type { FileToolOptions } from "./files.js";
import { readWhole } from "./read-file.js";
import { ignoreNotes, newReport, searchIn } from "./search-folder.js";
import { ticks } from "../base/clock.js";
import { MODEL_BYTES } from "../base/cut-text.js";

/** Larger files are skipped, and said to be. */
const MAX_FILE = 16 * 1024 * 1024;
const BATCH_BYTES = 2 * 1024 * 1024;
const BATCH_FILES = 64;
/** Files read at the same time; each can have `MAX_FILE` bytes. */
const LOAD_AT_ONCE = 8;
const BATCH_MS = 5_000;
const SEARCH_MS = 60_000;

export interface GrepOptions extends FileToolOptions {
  /** How long a regular expression may take for a few files, in ms. Default 5,000. */
  batchMs?: number;
}

/** What the model asked for; see the schema of `grep`. */
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

/** The expression as the engine takes it. */
function expressionOf(given: GrepArgs): { pattern: string; ignoreCase: boolean } {
  if (given.literal)
    return { pattern: given.pattern.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), ignoreCase: given.ignore_case };
  // Other engines' way to say it.
  if (given.pattern.startsWith("(?i)")) return { pattern: given.pattern.slice(4), ignoreCase: true };
  return { pattern: given.pattern, ignoreCase: given.ignore_case };
}

interface Candidate {
  path: string;
  name: string;
}

/** One search, from the walk to the text. */
export class GrepSearch {
  readonly #options: GrepOptions;
  readonly #given: GrepArgs;
  readonly #context: ToolContext;
  readonly #start: string;
  readonly #report = newReport();
  readonly #lines: string[] = [];
  #bytes = 0;
  #shown = 0;
  #matches = 0;
  #files = 0;
  #tooLarge: string[] = [];
  #full = false;

  constructor(options: GrepOptions, given: GrepArgs, context: ToolContext) {
    this.#options = options;
    this.#given = given;
    this.#context = context;
    this.#start = given.path || ".";
  }

  async run(): Promise<ToolOutput> {
    await withThread(this.#context.signal, (thread) => this.#searchAll(thread));
    return { text: this.#text(), locations: [] };
  }

  async #searchAll(thread: HostileThread): Promise<void> {
    const search = await this.#searcher(thread);
    const guard = await guardForReading(this.#options, this.#context, this.#start);
    const started = ticks();
    // While the thread searches one batch, the next one is read.
    let searching: Promise<void> = Promise.resolve();
    let batch: { name: string; content: Uint8Array }[] = [];
    let waiting: Candidate[] = [];
    const load = async (): Promise<void> => {
      const loaded = await Promise.all(waiting.map((one) => this.#load(guard, one)));
      waiting = [];
      batch.push(...loaded.filter((one) => one !== undefined));
      const bytes = batch.reduce((sum, one) => sum + one.content.byteLength, 0);
      if (bytes >= BATCH_BYTES || batch.length >= BATCH_FILES) await flush();
    };
    const flush = async (): Promise<void> => {
      await searching;
      const files = batch;
      batch = [];
      if (files.length === 0 || this.#enough) return;
      searching = search(files.map((one) => one.content)).then((found) => {
        for (const [index, { name }] of files.entries()) this.#add(name, found[index] ?? { count: 0, lines: [] });
      });
      // Awaited with the next batch; until then nobody listens.
      searching.catch(() => undefined);
    };
    for await (const candidate of await this.#candidates(thread, guard)) {
      waiting.push(candidate);
      if (waiting.length < LOAD_AT_ONCE) continue;
      await load();
      if (this.#enough) break;
      if (ticks() - started > SEARCH_MS) {
        this.#report.incomplete = true;
        break;
      }
    }
    await load();
    await flush();
    await searching;
  }

  /** What searches the files of a batch, whose memory goes over to the thread. */
  async #searcher(thread: HostileThread): Promise<(files: Uint8Array[]) => Promise<FileMatches[]>> {
    const ms = this.#options.batchMs ?? BATCH_MS;
    const { output, context, limit } = this.#given;
    const lines = output === "lines";
    const expression = expressionOf(this.#given);
    const compiled = await thread.ask("expression", expression, { ms });
    if ("refused" in compiled)
      throw new ToolInputError(`pattern: ${compiled.refused}. Correct it, or set literal to search plain text.`);
    const settings = {
      pattern: expression.pattern,
      flags: compiled.flags,
      context: lines ? context : 0,
      keep: lines ? limit : 0,
    };
    return async (files) => {
      try {
        return await thread.ask("search", { ...settings, files }, { ms, transfer: files });
      } catch (error) {
        if (!(error instanceof WorkLimitError)) throw error;
        throw new ToolError(
          error.reason === "time"
            ? `the pattern takes too long (over ${ms / 1000} s for a few files). Nested repetition such as (a+)+ does that: write it without.`
            : `the search failed: ${error.message}. Use a simpler pattern.`,
          { cause: error },
        );
      }
    };
  }

  /** Counts need the whole search; what is shown does not. */
  get #enough(): boolean {
    return this.#full && this.#given.output !== "count";
  }

  async #candidates(thread: HostileThread, guard: PathGuard): Promise<AsyncIterable<Candidate> | Candidate[]> {
    const { projectDir } = this.#context;
    const full = resolve(projectDir, this.#start);
    try {
      const { exists, isFolder } = await guard.resolve(full);
      // A file that was named is searched whatever the ignore files say.
      if (exists && !isFolder) {
        await (await guard.openFile(full)).handle.close();
        return [{ path: full, name: shown(full, projectDir) }];
      }
    } catch (error) {
      throw await pathFault(error, this.#start, projectDir, this.#options);
    }
    // Globs are also given from the project folder.
    const { glob, all } = this.#given;
    const only = {
      kinds: ["file"],
      ...(glob === undefined ? {} : { glob, prefixes: [relativeTo(full, projectDir)] }),
    } as const;
    const parts = await searchIn(thread, this.#options, this.#start, this.#context, { all, only }, this.#report);
    return (async function* () {
      for await (const entries of parts)
        for (const { path, way } of entries) yield { path, name: shown(resolve(full, way), projectDir) };
    })();
  }

  /** Content of a text file, in memory that is its own. */
  async #load(guard: PathGuard, { path, name }: Candidate): Promise<{ name: string; content: Uint8Array } | undefined> {
    try {
      const file = await guard.openFile(path);
      try {
        if (file.stats.size > MAX_FILE) {
          this.#tooLarge.push(`${name} (${size(Number(file.stats.size))})`);
          return undefined;
        }
        const content = await readWhole(file, MAX_FILE);
        // Copied, because Node's buffers can share one piece of memory, and it goes over to the thread.
        return content.subarray(0, 8_192).includes(0) ? undefined : { name, content: new Uint8Array(content) };
      } finally {
        await file.handle.close();
      }
    } catch (error) {
      if (!(error instanceof PathError)) throw error;
      this.#report.unreadable++;
      return undefined;
    }
  }

  #add(name: string, found: FileMatches): void {
    if (found.count === 0) return;
    this.#files++;
    this.#matches += found.count;
    const { output, limit } = this.#given;
    if (this.#full) return;
    if (output !== "lines") {
      if (this.#shown >= limit || !this.#push(output === "count" ? `${name}: ${found.count}` : name)) this.#full = true;
      else this.#shown++;
      return;
    }
    if (!this.#push(name)) return;
    let last = 0;
    for (const { line, text: content, match } of found.lines) {
      if (match && this.#shown >= limit) return void (this.#full = true);
      if (last > 0 && line > last + 1 && this.#given.context > 0) this.#push("--");
      if (!this.#push(`${line}${match ? ":" : "-"}${content}`)) return;
      last = line;
      if (match) this.#shown++;
    }
    if (found.count > found.lines.filter((one) => one.match).length) this.#full = true;
  }

  #push(line: string): boolean {
    this.#bytes += Buffer.byteLength(line) + 1;
    if (this.#bytes > MODEL_BYTES) {
      this.#full = true;
      return false;
    }
    this.#lines.push(line);
    return true;
  }

  #text(): string {
    const { output, pattern } = this.#given;
    const lines = this.#lines;
    const where = folderName(this.#start, this.#context.projectDir);
    if (this.#matches === 0) {
      const filter = this.#given.glob === undefined ? "" : ` (${this.#given.glob})`;
      lines.push(`No match for ${pattern} in ${where}${filter}.`);
    } else if (output === "count") lines.push(`[${this.#matches} matching lines in ${this.#files} files]`);
    else if (this.#full)
      lines.push(
        `[${this.#shown} ${output === "lines" ? "matching lines" : "files"} shown, there are more; narrow path, glob or pattern, or raise limit]`,
      );
    if (this.#report.incomplete) lines.push("[too much to search whole; narrow it with path or glob]");
    if (this.#tooLarge.length > 0)
      lines.push(
        `[not searched, too large: ${this.#tooLarge.sort().slice(0, 3).join(", ")}${this.#tooLarge.length > 3 ? ", …" : ""}]`,
      );
    lines.push(...ignoreNotes(this.#report, (path) => shown(path, this.#context.projectDir)));
    if (this.#report.unreadable > 0) lines.push(`[${this.#report.unreadable} entries could not be read]`);
    return lines.join("\n");
  }
}
