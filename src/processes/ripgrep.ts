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
const LIMITED_EXEC = `ulimit -v ${MAX_MEMORY_KIB} 2>/dev/null; exec "$0" "$@"`;
/** Flags of every search, so that only its arguments determine its behaviour. */
const COMMON_FLAGS = ["--no-config", "--color=never", "--no-follow", "--no-ignore-messages"];
/** Interval of the check for stalled searches, in ms. */
const STALL_CHECK_MS = 500;
/** CPU time per interval below which a search is stalled, in hundredths of a second. */
const MIN_BUSY_TICKS = 3;
/** Maximum characters of all error messages together. */
const MAX_ERROR_CHARACTERS = 8_192;
/** Maximum characters of a line of standard error. */
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
  /** `enough`: `onOutput` ended the search. */
  readonly endReason: "exit" | "enough" | "timeout";
  /** 0: matches found; 1: no match; 2: errors, with or without matches; null: the process was ended. */
  readonly code: number | null;
  /** Standard error without the lines about unreadable files. */
  readonly errors: string;
  /** Number of files and folders that could not be read. */
  readonly unreadableCount: number;
}

/** The binary and the module that starts it, both loaded at the first search. */
let modulesPromise: Promise<[string, typeof import("./child.js")]> | undefined;

/**
 * Runs ripgrep in its own process without an environment. Resolves when it has ended.
 *
 * Rejects with:
 * - the signal's reason;
 * - `ToolError` if ripgrep is not available or cannot start;
 * - `WorkLimitError` if the search needs too much memory, or blocks in a file that is not regular.
 */
export async function runRipgrep(options: RipgrepOptions): Promise<RipgrepEnd> {
  const { cwd, signal, timeoutMs, onOutput } = options;
  signal.throwIfAborted();
  const [file, { Child }] = await (modulesPromise ??= Promise.all([locateBinary(), import("./child.js")])).catch(
    (error: unknown) => {
      modulesPromise = undefined;
      throw error;
    },
  );
  const needsDebugOutput = options.onIgnored !== undefined || options.onTooLarge !== undefined;
  const args = [...COMMON_FLAGS, ...(needsDebugOutput ? ["--debug"] : []), ...options.args];
  const program =
    process.platform === "win32" ? { file, args } : { file: "/bin/sh", args: ["-c", LIMITED_EXEC, file, ...args] };
  const child = await Child.start({ ...program, cwd, env: {}, isLeaf: true }).catch((error: unknown) => {
    throw new ToolError(`the search could not start: ${(error as Error).message}. ${REMEDY}`, { cause: error });
  });
  const stopController = new AbortController();
  const messages = new MessageParser(options);
  const stallDetector = new StallDetector(child.pid, () => stopController.abort(STALL_REASON));
  child.stderr?.on("data", (chunk: Buffer) => messages.push(chunk));
  child.stdout?.on("data", (chunk: Buffer) => {
    stallDetector.recordProgress();
    if (!stopController.signal.aborted && onOutput !== undefined && !onOutput(chunk)) stopController.abort();
  });
  const end = await child
    .run({ timeoutMs, signal: AbortSignal.any([signal, stopController.signal]) })
    .finally(() => stallDetector.close());
  signal.throwIfAborted();
  await Promise.all([waitForClose(child.stdout), waitForClose(child.stderr)]);
  messages.end();
  if (stopController.signal.reason === STALL_REASON) throw new WorkLimitError("time", "it is blocked while reading");
  if (end.reason === "exit" && end.code === null) throw new WorkLimitError("memory", "it needs too much memory");
  const reason = end.reason === "abort" ? "enough" : end.reason;
  return { endReason: reason, code: end.code, errors: messages.errors, unreadableCount: messages.unreadableCount };
}

const STALL_REASON = Symbol("stalled");

/**
 * Detects a search that waits forever. An ignore file in a repository can be a named pipe, which ripgrep opens. Linux
 * only.
 */
class StallDetector {
  readonly #timer: NodeJS.Timeout | undefined;
  #lastTicks = -1;

  constructor(pid: number, onStall: () => void) {
    if (!IS_LINUX) return;
    this.#timer = setInterval(() => {
      const ticks = readCpuTicks(pid);
      if (ticks !== undefined && this.#lastTicks >= 0 && ticks - this.#lastTicks < MIN_BUSY_TICKS) onStall();
      this.#lastTicks = ticks ?? -1;
    }, STALL_CHECK_MS);
  }

  /** Records that the search has just made progress. */
  recordProgress(): void {
    this.#lastTicks = -1;
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

/**
 * CPU time of a process in hundredths of a second. Undefined if unknown, or while a thread waits for a disk or a CPU.
 */
function readCpuTicks(pid: number): number | undefined {
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
function waitForClose(stream: Readable | null): Promise<unknown> | undefined {
  return stream === null || stream.closed ? undefined : new Promise((resolve) => stream.once("close", resolve));
}

const REMEDY =
  "Install gantry with its optional dependencies (npm install --include=optional), or ripgrep so that rg is in " +
  "/usr/bin or /usr/local/bin.";

/**
 * Returns the binary of the npm package for this platform, otherwise the system's. Throws `ToolError` if there is none.
 */
async function locateBinary(): Promise<string> {
  const packagedPath = resolvePackagedBinary();
  if (packagedPath !== undefined) return packagedPath;
  const [{ access, constants }, { join }] = await Promise.all([import("node:fs/promises"), import("node:path")]);
  for (const folder of process.platform === "win32" ? [] : SYSTEM_FOLDERS) {
    const path = join(folder, "rg");
    if (await access(path, constants.X_OK).then(returnTrue, returnFalse)) return path;
  }
  throw new ToolError(
    `searching needs ripgrep, which is not installed for this platform (${process.platform}-${process.arch}). ${REMEDY}`,
  );
}

/**
 * Resolves the binary from the package's own folder, where package managers install it. Undefined if the package is not
 * installed, as in bundles of embedding programs.
 */
function resolvePackagedBinary(): string | undefined {
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

const returnTrue = (): boolean => true;
const returnFalse = (): boolean => false;

/**
 * Parses the lines of standard error. With `--debug` ripgrep reports each path that it skips, with the reason. Nothing
 * else distinguishes an ignored path from a missing path. Messages of other versions that differ are not reported.
 */
class MessageParser {
  readonly #options: RipgrepOptions;
  readonly #decoder = new StringDecoder("utf8");
  #incompleteLine = "";
  errors = "";
  unreadableCount = 0;

  constructor(options: RipgrepOptions) {
    this.#options = options;
  }

  push(chunk: Buffer): void {
    const text = this.#incompleteLine + this.#decoder.write(chunk);
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", end + 1)) {
      const line = text.slice(start, end);
      // A name can contain a line feed.
      if (line.length < MAX_LINE_CHARACTERS && /: ignoring /.test(line) && !/: (\d+ bytes$|Ignore\()/.test(line))
        continue;
      this.#parseLine(line);
      start = end + 1;
    }
    this.#incompleteLine = text.slice(start, start + MAX_LINE_CHARACTERS);
  }

  end(): void {
    if (this.#incompleteLine !== "") this.#parseLine(this.#incompleteLine);
    this.#incompleteLine = "";
  }

  #parseLine(line: string): void {
    const skippedMatch = /^(?:rg: )?DEBUG\|[^\n]*?: ignoring ([^]*?): (?:Ignore\(IgnoreMatch\((\w+)|\d+ bytes$)/.exec(
      line,
    );
    if (skippedMatch?.[1] !== undefined) {
      if (skippedMatch[2] === undefined) this.#options.onTooLarge?.(skippedMatch[1]);
      else if (skippedMatch[2] === "Gitignore") this.#options.onIgnored?.(skippedMatch[1]);
    } else if (/^(?:rg: )?DEBUG\|/.test(line)) return;
    else if (/\(os error \d+\)$/.test(line)) this.unreadableCount++;
    else if (this.errors.length < MAX_ERROR_CHARACTERS) this.errors += `${line}\n`;
  }
}
