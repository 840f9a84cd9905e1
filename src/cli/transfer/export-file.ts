import { open, rename, stat, type FileHandle } from "node:fs/promises";
import { ConfigError } from "../../ports/errors.js";
import { findEndedRoot, formatHeader } from "../../sessions/export-format.js";

/** Suffix of an incomplete export. */
const PARTIAL_SUFFIX = ".part";
/** Maximum size of a parsed line. The header and the line that ends a session are always shorter. */
const MAX_MARKER_BYTES = 64 * 1024;
/** Number of bytes per read of a partial export. */
const READ_BYTES = 1024 * 1024;
const LINE_FEED = 10;

/**
 * Writes an export to a file. The data goes to a `.part` file, which is renamed when complete. An interrupted export
 * can be resumed.
 */
export class ExportFile {
  readonly #path: string;
  readonly #file: FileHandle;
  /** Offset of the next write in bytes. */
  #endOffset: number;
  /** Root ids of the sessions that the file contains completely. */
  readonly roots: ReadonlySet<string>;

  private constructor(path: string, file: FileHandle, roots: ReadonlySet<string>, end: number) {
    this.#path = path;
    this.#file = file;
    this.#endOffset = end;
    this.roots = roots;
  }

  /**
   * Opens the export. Rejects with `ConfigError` if the file exists, if a partial export exists and `resume` is false,
   * or if the file cannot be created.
   */
  static async open(path: string, resume: boolean): Promise<ExportFile> {
    const partialPath = path + PARTIAL_SUFFIX;
    const [hasCompleteExport, hasPartialExport] = await Promise.all(
      [path, partialPath].map((candidate) => stat(candidate).then(Boolean, () => false)),
    );
    if (hasCompleteExport) throw new ConfigError(`${path}: already exists; remove it or choose another file`);
    if (hasPartialExport && !resume)
      throw new ConfigError(`${partialPath}: an interrupted export exists; continue it with --resume`);
    try {
      const file = await open(partialPath, hasPartialExport ? "r+" : "wx", 0o600);
      try {
        const { roots, end } = hasPartialExport
          ? await scanPartialExport(file, partialPath)
          : { roots: new Set<string>(), end: 0 };
        // An incomplete session at the end is written again.
        await file.truncate(end);
        const exportFile = new ExportFile(path, file, roots, end);
        if (end === 0) await exportFile.write(formatHeader());
        return exportFile;
      } catch (error) {
        await file.close();
        throw error;
      }
    } catch (error) {
      throw toPathError(partialPath, error);
    }
  }

  /** Appends text to the export. */
  async write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    try {
      for (let offset = 0; offset < bytes.length;) {
        const { bytesWritten } = await this.#file.write(bytes, offset, bytes.length - offset, this.#endOffset + offset);
        offset += bytesWritten;
      }
      this.#endOffset += bytes.length;
    } catch (error) {
      throw toPathError(this.#path + PARTIAL_SUFFIX, error);
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

function createFormatError(path: string): ConfigError {
  return new ConfigError(`${path}: not a session export`);
}

function toPathError(path: string, error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined || error instanceof ConfigError
    ? error
    : new ConfigError(`${path}: cannot be written (${code})`, { cause: error });
}

/**
 * Returns the root ids of the complete sessions in a partial export, and the offset in bytes where the last one ends.
 */
async function scanPartialExport(file: FileHandle, path: string): Promise<{ roots: Set<string>; end: number }> {
  const roots = new Set<string>();
  const chunk = Buffer.allocUnsafe(READ_BYTES);
  let [end, chunkOffset, lineCount] = [0, 0, 0];
  let lineChunks: Buffer[] = [];
  let lineBytes = 0;
  for (;;) {
    const { bytesRead } = await file.read(chunk, 0, chunk.length, chunkOffset);
    if (bytesRead === 0) {
      // If even the first line is incomplete, the file must still be the start of an export.
      if (lineCount === 0 && !formatHeader().startsWith(Buffer.concat(lineChunks).toString()))
        throw createFormatError(path);
      return { roots, end };
    }
    for (let segmentStart = 0; segmentStart < bytesRead;) {
      const lineFeedIndex = chunk.subarray(0, bytesRead).indexOf(LINE_FEED, segmentStart);
      const segmentEnd = lineFeedIndex < 0 ? bytesRead : lineFeedIndex;
      if (lineBytes <= MAX_MARKER_BYTES)
        lineChunks.push(
          Buffer.from(chunk.subarray(segmentStart, Math.min(segmentEnd, segmentStart + MAX_MARKER_BYTES))),
        );
      lineBytes += segmentEnd - segmentStart;
      segmentStart = segmentEnd + 1;
      if (lineFeedIndex < 0) continue;
      const text = lineBytes <= MAX_MARKER_BYTES ? Buffer.concat(lineChunks).toString() : "";
      lineChunks = [];
      lineBytes = 0;
      lineCount += 1;
      if (lineCount === 1 && `${text}\n` !== formatHeader()) throw createFormatError(path);
      const root = findEndedRoot(text);
      if (root !== undefined) roots.add(root);
      if (lineCount === 1 || root !== undefined) end = chunkOffset + lineFeedIndex + 1;
    }
    chunkOffset += bytesRead;
  }
}
