import { open, rename, stat, type FileHandle } from "node:fs/promises";
import { ConfigError } from "../../ports/errors.js";
import { endedRoot, headerLine } from "../../sessions/export-format.js";

/** Of an export that is not whole yet. */
const PART = ".part";
/** A line that ends a session is short; what is longer is none, and is not kept. */
const SHORT = 64 * 1024;

/**
 * An export on its way to a file. It is written beside it and put in its place when it is whole: a file of that name is
 * never half of an export. What was broken off can be gone on with.
 */
export class ExportFile {
  readonly #path: string;
  readonly #file: FileHandle;
  /** Where the next line begins. */
  #end: number;
  /** Originals of the sessions that are in it whole. */
  readonly roots: ReadonlySet<string>;

  private constructor(path: string, file: FileHandle, roots: ReadonlySet<string>, end: number) {
    this.#path = path;
    this.#file = file;
    this.#end = end;
    this.roots = roots;
  }

  /** Rejects with `ConfigError` where there is a file already, unless it is to be gone on with, and where there is no folder. */
  static async open(path: string, resume: boolean): Promise<ExportFile> {
    const part = path + PART;
    const [whole, begun] = await Promise.all([path, part].map((one) => stat(one).then(Boolean, () => false)));
    if (whole) throw new ConfigError(`${path}: is there already; remove it, or choose another file`);
    if (begun && !resume)
      throw new ConfigError(`${part}: is there, of an export that was broken off; --resume goes on with it`);
    try {
      const file = await open(part, begun ? "r+" : "wx", 0o600);
      try {
        const { roots, end } = begun ? await scan(file, part) : { roots: new Set<string>(), end: 0 };
        // Half a session behind the last whole one is written again.
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

  /** Behind what is there. */
  async write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    try {
      for (let from = 0; from < bytes.length;) {
        const { bytesWritten } = await this.#file.write(bytes, from, bytes.length - from, this.#end + from);
        from += bytesWritten;
      }
      this.#end += bytes.length;
    } catch (error) {
      throw named(this.#path + PART, error);
    }
  }

  /** It is whole: on the disk, and in its place. */
  async finish(): Promise<void> {
    await this.#file.sync();
    await this.#file.close();
    await rename(this.#path + PART, this.#path);
  }

  /** It is broken off; it can be gone on with. */
  async leave(): Promise<void> {
    await this.#file.close();
  }
}

function strange(path: string): ConfigError {
  return new ConfigError(`${path}: is no export of sessions`);
}

function named(path: string, error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined || error instanceof ConfigError
    ? error
    : new ConfigError(`${path}: cannot be written (${code})`, { cause: error });
}

/** The sessions that are whole in what was written, and where the last of them ends. */
async function scan(file: FileHandle, path: string): Promise<{ roots: Set<string>; end: number }> {
  const roots = new Set<string>();
  const chunk = Buffer.allocUnsafe(1 << 20);
  let [end, at, lines] = [0, 0, 0];
  let line: Buffer[] = [];
  let length = 0;
  for (;;) {
    const { bytesRead } = await file.read(chunk, 0, chunk.length, at);
    if (bytesRead === 0) {
      // Broken off in its first line, or of somebody else.
      if (lines === 0 && !headerLine().startsWith(Buffer.concat(line).toString())) throw strange(path);
      return { roots, end };
    }
    for (let from = 0; from < bytesRead;) {
      const feed = chunk.subarray(0, bytesRead).indexOf(10, from);
      const to = feed < 0 ? bytesRead : feed;
      if (length <= SHORT) line.push(Buffer.from(chunk.subarray(from, Math.min(to, from + SHORT))));
      length += to - from;
      from = to + 1;
      if (feed < 0) continue;
      const text = length <= SHORT ? Buffer.concat(line).toString() : "";
      line = [];
      length = 0;
      lines += 1;
      if (lines === 1 && `${text}\n` !== headerLine()) throw strange(path);
      const root = endedRoot(text);
      if (root !== undefined) roots.add(root);
      if (lines === 1 || root !== undefined) end = at + feed + 1;
    }
    at += bytesRead;
  }
}
