import { MAX_MODEL_TEXT_BYTES } from "../../base/cut-text.js";
import { formatSize } from "./content.js";
import type { LinePosition } from "./matched-lines.js";
import type { ToolSearchScope } from "./search-folder.js";
import { forEachOpenedFile } from "./search-results.js";

/** Maximum skipped files that a note names. */
const MAX_NAMED_FILES = 3;

/** The result text of a search, up to its limits, with the counts and notes at the end. */
export class GrepResult {
  readonly #limit: number;
  readonly #context: number;
  readonly #lines: string[] = [];
  #outputBytes = 0;
  #shownCount = 0;
  #matchCount = 0;
  #fileCount = 0;
  #isFull = false;

  /**
   * @param limit Maximum matching lines, or files, to show.
   * @param context Context lines around each match.
   */
  constructor(limit: number, context: number) {
    this.#limit = limit;
    this.#context = context;
  }

  /** Whether a limit was reached, so that later matches are not shown. */
  get isFull(): boolean {
    return this.#isFull;
  }

  get hasMatches(): boolean {
    return this.#matchCount > 0;
  }

  /** Adds a file's name and its lines. Lines without a text are omitted. */
  addLines(name: string, positions: readonly LinePosition[], texts: readonly (string | undefined)[]): void {
    const firstIndex = positions.findIndex((_position, index) => texts[index] !== undefined);
    if (firstIndex < 0) return;
    if (this.#shownCount >= this.#limit) return void (this.#isFull = true);
    if (!this.#pushLine(name)) return;
    this.#fileCount++;
    let lastLine = 0;
    for (const [index, { line, isMatch }] of positions.entries()) {
      const text = texts[index];
      if (text === undefined) continue;
      if (this.#shownCount >= this.#limit && (isMatch || line > lastLine + this.#context))
        return void (this.#isFull = isMatch || this.#isFull);
      if (lastLine > 0 && line > lastLine + 1 && this.#context > 0) this.#pushLine("--");
      if (!this.#pushLine(`${line}${isMatch ? ":" : "-"}${text}`)) return;
      lastLine = line;
      if (!isMatch) continue;
      this.#shownCount++;
      this.#matchCount++;
    }
  }

  /** Adds one line for a file. */
  addFile(line: string): void {
    if (this.#shownCount >= this.#limit || !this.#pushLine(line)) this.#isFull = true;
    else this.#shownCount++;
  }

  /** Sets the counts of a search for files, which include files that are not shown. */
  setCounts(fileCount: number, matchCount: number): void {
    this.#fileCount = fileCount;
    this.#matchCount = matchCount;
  }

  /** Adds the counts, or `emptyText` if nothing matches. */
  addSummary(output: string, emptyText: string): void {
    if (this.#matchCount === 0) this.#lines.push(emptyText);
    else if (output === "count") this.#lines.push(`[${this.#matchCount} matching lines in ${this.#fileCount} files]`);
    else if (this.#isFull)
      this.#lines.push(
        `[${this.#shownCount} ${output === "lines" ? "matching lines" : "files"} shown, more exist; narrow path, glob or pattern, or raise limit]`,
      );
  }

  addNote(text: string): void {
    this.#lines.push(`[${text}]`);
  }

  /** Adds a note with file names and sizes. Each file is checked by the path guard first. */
  async addFileNote(reason: string, files: ReadonlySet<string>, toolScope: ToolSearchScope): Promise<void> {
    const names = [...files].sort();
    const sizes = new Map<string, string>();
    await forEachOpenedFile(toolScope, names.slice(0, MAX_NAMED_FILES), ({ stats }, name) => {
      sizes.set(name, `${toolScope.nameOf(name)} (${formatSize(Number(stats.size))})`);
    });
    if (sizes.size === 0) return;
    const shownNames = [...sizes].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, text]) => text);
    this.addNote(`${reason}: ${shownNames.join(", ")}${names.length > MAX_NAMED_FILES ? ", …" : ""}`);
  }

  toString(): string {
    return this.#lines.join("\n");
  }

  /** Adds a line if it fits into the size limit of a result. */
  #pushLine(line: string): boolean {
    this.#outputBytes += Buffer.byteLength(line) + 1;
    if (this.#outputBytes > MAX_MODEL_TEXT_BYTES) {
      this.#isFull = true;
      return false;
    }
    this.#lines.push(line);
    return true;
  }
}
