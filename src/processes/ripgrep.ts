import { createRequire } from "node:module";
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { readdirSync } from "node:fs";
import { IS_LINUX, readProcLine } from "../base/linux-processes.js";
import { ToolError, WorkLimitError } from "../ports/errors.js";

/**
 * Folders to search for ripgrep if the package has no binary for this system. PATH is not used, because a project can
 * change it.
 */
const SYSTEM_FOLDERS = ["/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"];
/** Maximum address space of a search, in KiB. An ignore file of 1 MiB can make ripgrep use 640 MB. */
const MAX_MEMORY_KIB = 2 * 1024 * 1024;
/** Sets the memory limit if the system supports it, then becomes ripgrep. */
const WITH_LIMIT = `ulimit -v ${MAX_MEMORY_KIB} 2>/dev/null; exec "$0" "$@"`;
/** Flags of every search, so that only its arguments determine its behaviour. */
const FLAGS = ["--no-config", "--color=never", "--no-follow", "--no-ignore-messages"];
/**
 * Interval of the check for stalled searches, and the CPU time per interval below which a search is stalled, in
 * hundredths of a second.
 */
const STALL_CHECK_MS = 500;
const STALLED_TICKS = 3;
/** Maximum characters of all error messages, and of one line. */
const MAX_ERROR_CHARACTERS = 8_192;
const MAX_LINE_CHARACTERS = 16_384;

/** Options of one ripgrep run. */
export interface RipgrepOptions {
  readonly args: readonly string[];
  /** Working directory; paths in the output are relative to it. */
  readonly cwd: string;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** Receives the output in pieces; false ends the search. Undefined: the output is dropped. */
  onOutput?(chunk: Buffer): boolean;
  /** Receives each path that an ignore file excludes. */
  onIgnored?(path: string): void;
  /** Receives each file larger than `--max-filesize`. */
  onTooLarge?(path: string): void;
}

/** The result of one ripgrep run. */
export interface RipgrepEnd {
  readonly why: "exit" | "enough" | "timeout";
  /** 0: matches found; 1: no match; 2: errors, with or without matches; null: the process was ended. */
  readonly code: number | null;
  /** Standard error without the lines about unreadable files. */
  readonly errors: string;
  /** Number of files and folders that could not be read. */
  readonly unreadable: number;
}

/** The binary and the module that starts it, both loaded at the first search. */
let loaded: Promise<[string, typeof import("./child.js")]> | undefined;

/**
 * Runs ripgrep in its own process without an environment. Resolves when it has ended.
 *
 * Rejects with:
 * - the signal's reason;
 * - `ToolError` if ripgrep is not available or cannot start;
 * - `WorkLimitError` if the search needs too much memory, or waits for something that is not a regular file.
 */
export async function runRipgrep(options: RipgrepOptions): Promise<RipgrepEnd> {
  const { cwd, signal, timeoutMs, onOutput } = options;
  signal.throwIfAborted();
  const [file, { Child }] = await (loaded ??= Promise.all([locate(), import("./child.js")])).catch((error: unknown) => {
    loaded = undefined;
    throw error;
  });
  const isReported = options.onIgnored !== undefined || options.onTooLarge !== undefined;
  const args = [...FLAGS, ...(isReported ? ["--debug"] : []), ...options.args];
  const program =
    process.platform === "win32" ? { file, args } : { file: "/bin/sh", args: ["-c", WITH_LIMIT, file, ...args] };
  const child = await Child.start({ ...program, cwd, env: {}, isLeaf: true }).catch((error: unknown) => {
    throw new ToolError(`the search could not start: ${(error as Error).message}. ${REMEDY}`, { cause: error });
  });
  const stop = new AbortController();
  const messages = new MessageParser(options);
  const stalls = new StallDetector(child.pid, () => stop.abort(STALLED));
  child.stderr?.on("data", (chunk: Buffer) => messages.push(chunk));
  child.stdout?.on("data", (chunk: Buffer) => {
    stalls.markBusy();
    if (!stop.signal.aborted && onOutput !== undefined && !onOutput(chunk)) stop.abort();
  });
  const end = await child
    .run({ timeoutMs, signal: AbortSignal.any([signal, stop.signal]) })
    .finally(() => stalls.close());
  signal.throwIfAborted();
  await Promise.all([closed(child.stdout), closed(child.stderr)]);
  messages.end();
  if (stop.signal.reason === STALLED) throw new WorkLimitError("time", "it is blocked while reading");
  if (end.reason === "exit" && end.code === null) throw new WorkLimitError("memory", "it needs too much memory");
  const why = end.reason === "abort" ? "enough" : end.reason;
  return { why, code: end.code, errors: messages.errors, unreadable: messages.unreadable };
}

const STALLED = Symbol("stalled");

/**
 * Detects a search that waits forever. An ignore file in a repository can be a named pipe, which ripgrep opens. Linux
 * only.
 */
class StallDetector {
  readonly #timer: NodeJS.Timeout | undefined;
  #ticks = -1;

  constructor(pid: number, onStall: () => void) {
    if (!IS_LINUX) return;
    this.#timer = setInterval(() => {
      const ticks = cpuTicks(pid);
      if (ticks !== undefined && this.#ticks >= 0 && ticks - this.#ticks < STALLED_TICKS) onStall();
      this.#ticks = ticks ?? -1;
    }, STALL_CHECK_MS);
  }

  /** Records that the search has just made progress. */
  markBusy(): void {
    this.#ticks = -1;
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

/**
 * CPU time of a process in hundredths of a second. Undefined if unknown, or while a thread waits for a disk or a CPU.
 */
function cpuTicks(pid: number): number | undefined {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`).map((task) => readStatFields(`/proc/${pid}/task/${task}/stat`));
    if (tasks.some(([state]) => state === "D" || state === "R")) return undefined;
    return tasks.reduce((sum, fields) => sum + Number(fields[11]) + Number(fields[12]), 0);
  } catch {
    return undefined;
  }
}

/** The fields after the name, starting with the state. */
function readStatFields(path: string): string[] {
  const line = readProcLine(path);
  return line.slice(line.lastIndexOf(")") + 2).split(" ");
}

/** The streams end with the process, because no other process holds the pipes. */
function closed(stream: Readable | null): Promise<unknown> | undefined {
  return stream === null || stream.closed ? undefined : new Promise((resolve) => stream.once("close", resolve));
}

const REMEDY =
  "Install gantry with its optional dependencies (npm install --include=optional), or ripgrep so that rg is in " +
  "/usr/bin or /usr/local/bin.";

/**
 * Returns the binary of the npm package for this platform, otherwise the system's. Throws `ToolError` if there is none.
 */
async function locate(): Promise<string> {
  const packaged = packagedBinary();
  if (packaged !== undefined) return packaged;
  const [{ access, constants }, { join }] = await Promise.all([import("node:fs/promises"), import("node:path")]);
  for (const folder of process.platform === "win32" ? [] : SYSTEM_FOLDERS) {
    const path = join(folder, "rg");
    if (await access(path, constants.X_OK).then(always, never)) return path;
  }
  throw new ToolError(
    `searching needs ripgrep, which is not installed for this platform (${process.platform}-${process.arch}). ${REMEDY}`,
  );
}

/**
 * Resolved from the package's own folder, where package managers install its binaries. Bundles of embedding programs do
 * not contain it.
 */
function packagedBinary(): string | undefined {
  const { platform, arch } = process;
  try {
    const { resolve } = createRequire(createRequire(import.meta.url).resolve("@vscode/ripgrep"));
    const path = resolve(`@vscode/ripgrep-${platform}-${arch}/bin/${platform === "win32" ? "rg.exe" : "rg"}`);
    // Electron can read files in an archive but cannot execute them.
    return path.replace(/\bapp\.asar(?=[\\/])/, "app.asar.unpacked");
  } catch {
    return undefined;
  }
}

const always = (): boolean => true;
const never = (): boolean => false;

/**
 * Parses the lines of standard error. With `--debug` ripgrep reports each path that it skips, with the reason. Nothing
 * else distinguishes an ignored path from a missing one. Messages of other versions that differ are not reported.
 */
class MessageParser {
  readonly #options: RipgrepOptions;
  readonly #decoder = new StringDecoder("utf8");
  #open = "";
  errors = "";
  unreadable = 0;

  constructor(options: RipgrepOptions) {
    this.#options = options;
  }

  push(chunk: Buffer): void {
    const text = this.#open + this.#decoder.write(chunk);
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", end + 1)) {
      const line = text.slice(start, end);
      // A name can contain a line feed.
      if (line.length < MAX_LINE_CHARACTERS && /: ignoring /.test(line) && !/: (\d+ bytes$|Ignore\()/.test(line))
        continue;
      this.#read(line);
      start = end + 1;
    }
    this.#open = text.slice(start, start + MAX_LINE_CHARACTERS);
  }

  end(): void {
    if (this.#open !== "") this.#read(this.#open);
    this.#open = "";
  }

  #read(line: string): void {
    const skipped = /^(?:rg: )?DEBUG\|[^\n]*?: ignoring ([^]*?): (?:Ignore\(IgnoreMatch\((\w+)|\d+ bytes$)/.exec(line);
    if (skipped?.[1] !== undefined) {
      if (skipped[2] === undefined) this.#options.onTooLarge?.(skipped[1]);
      else if (skipped[2] === "Gitignore") this.#options.onIgnored?.(skipped[1]);
    } else if (/^(?:rg: )?DEBUG\|/.test(line)) return;
    else if (/\(os error \d+\)$/.test(line)) this.unreadable++;
    else if (this.errors.length < MAX_ERROR_CHARACTERS) this.errors += `${line}\n`;
  }
}
