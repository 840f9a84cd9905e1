import { open, rename, stat, type FileHandle } from "node:fs/promises";
import { ConfigError } from "../../ports/errors.js";
import { endedRoot, headerLine } from "../../sessions/export-format.js";

/** Suffix of an incomplete export. */
const PARTIAL_SUFFIX = ".part";
/** Maximum bytes kept of a line. The line that ends a session is always shorter. */
const MAX_MARKER_BYTES = 64 * 1024;

/**
 * Writes an export to a file. The data goes to a `.part` file, which is renamed when complete. An interrupted export
 * can be resumed.
 */
export class ExportFile {
  readonly #path: string;
  readonly #file: FileHandle;
  /** Offset of the next line in bytes. */
  #end: number;
  /** Root ids of the sessions that the file contains completely. */
  readonly roots: ReadonlySet<string>;

  private constructor(path: string, file: FileHandle, roots: ReadonlySet<string>, end: number) {
    this.#path = path;
    this.#file = file;
    this.#end = end;
    this.roots = roots;
  }

  /**
   * Opens the export. Rejects with `ConfigError` if the file exists, if a partial export exists and `resume` is false,
   * or if the file cannot be created.
   */
  static async open(path: string, resume: boolean): Promise<ExportFile> {
    const part = path + PARTIAL_SUFFIX;
    const [isComplete, begun] = await Promise.all(
      [path, part].map((candidate) => stat(candidate).then(Boolean, () => false)),
    );
    if (isComplete) throw new ConfigError(`${path}: already exists; remove it or choose another file`);
    if (begun && !resume) throw new ConfigError(`${part}: an interrupted export exists; continue it with --resume`);
    try {
      const file = await open(part, begun ? "r+" : "wx", 0o600);
      try {
        const { roots, end } = begun ? await scan(file, part) : { roots: new Set<string>(), end: 0 };
        // An incomplete session at the end is written again.
        await file.truncate(end);
        const exported = new ExportFile(path, file, roots, end);
        if (end === 0) await exported.write(headerLine());
        return exported;
      } catch (error) {
        await file.close();
        throw error;
      }
    } catch (error) {
      throw named(part, error);
    }
  }

  /** Appends text to the export. */
  async write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    try {
      for (let from = 0; from < bytes.length;) {
        const { bytesWritten } = await this.#file.write(bytes, from, bytes.length - from, this.#end + from);
        from += bytesWritten;
      }
      this.#end += bytes.length;
    } catch (error) {
      throw named(this.#path + PARTIAL_SUFFIX, error);
    }
  }

  /** Syncs the completed export to disk and renames it. */
  async finish(): Promise<void> {
    await this.#file.sync();
    await this.#file.close();
    await rename(this.#path + PARTIAL_SUFFIX, this.#path);
  }

  /** Closes an interrupted export, which can be resumed. */
  async closePartial(): Promise<void> {
    await this.#file.close();
  }
}

function notAnExport(path: string): ConfigError {
  return new ConfigError(`${path}: not a session export`);
}

function named(path: string, error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined || error instanceof ConfigError
    ? error
    : new ConfigError(`${path}: cannot be written (${code})`, { cause: error });
}

/** Returns the complete sessions of a partial export, and the offset where the last one ends. */
async function scan(file: FileHandle, path: string): Promise<{ roots: Set<string>; end: number }> {
  const roots = new Set<string>();
  const chunk = Buffer.allocUnsafe(1 << 20);
  let [end, at, lines] = [0, 0, 0];
  let line: Buffer[] = [];
  let length = 0;
  for (;;) {
    const { bytesRead } = await file.read(chunk, 0, chunk.length, at);
    if (bytesRead === 0) {
      // The first line is incomplete. The file must be the start of an export, not a foreign file.
      if (lines === 0 && !headerLine().startsWith(Buffer.concat(line).toString())) throw notAnExport(path);
      return { roots, end };
    }
    for (let from = 0; from < bytesRead;) {
      const feed = chunk.subarray(0, bytesRead).indexOf(10, from);
      const to = feed < 0 ? bytesRead : feed;
      if (length <= MAX_MARKER_BYTES)
        line.push(Buffer.from(chunk.subarray(from, Math.min(to, from + MAX_MARKER_BYTES))));
      length += to - from;
      from = to + 1;
      if (feed < 0) continue;
      const text = length <= MAX_MARKER_BYTES ? Buffer.concat(line).toString() : "";
      line = [];
      length = 0;
      lines += 1;
      if (lines === 1 && `${text}\n` !== headerLine()) throw notAnExport(path);
      const root = endedRoot(text);
      if (root !== undefined) roots.add(root);
      if (lines === 1 || root !== undefined) end = at + feed + 1;
    }
    at += bytesRead;
  }
}
