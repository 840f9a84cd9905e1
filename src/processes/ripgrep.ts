import { createRequire } from "node:module";
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { readdirSync } from "node:fs";
import { IS_LINUX, lineOf } from "../base/linux-processes.js";
import { ToolError, WorkLimitError } from "../ports/errors.js";

/** Folders in which ripgrep is looked for where the package has none for this system. The environment is not asked: a project can add to PATH. */
const SYSTEM_FOLDERS = ["/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"];
/** Address space of a search, in KiB: an ignore file of 1 MiB can make ripgrep take 640 MB. */
const MAX_MEMORY_KIB = 2 * 1024 * 1024;
/** Sets the limit where the system has one, and becomes ripgrep. */
const WITH_LIMIT = `ulimit -v ${MAX_MEMORY_KIB} 2>/dev/null; exec "$0" "$@"`;
/** Flags of every search: nothing but its arguments decides what it does. */
const FLAGS = ["--no-config", "--color=never", "--no-follow", "--no-ignore-messages"];
/** How often it is looked whether a search still does something, and CPU time below which it does not, in hundredths of a second. */
const STALL_CHECK_MS = 500;
const STALLED_TICKS = 3;
/** Characters kept of its error messages, and of one line of them. */
const MAX_ERROR_CHARACTERS = 8_192;
const MAX_LINE_CHARACTERS = 16_384;

/** A run of ripgrep. */
export interface RipgrepOptions {
  readonly args: readonly string[];
  /** Working directory; paths in the output are relative to it. */
  readonly cwd: string;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** Gets the output in pieces; false ends the search. Left out: the output is dropped. */
  onOutput?(chunk: Buffer): boolean;
  /** Gets each path that an ignore file hides. */
  onIgnored?(path: string): void;
  /** Gets each file over `--max-filesize`. */
  onTooLarge?(path: string): void;
}

/** The end of a run of ripgrep. */
export interface RipgrepEnd {
  readonly why: "exit" | "enough" | "timeout";
  /** 0: something was found; 1: nothing; 2: there were errors, whatever was found; null: it was ended. */
  readonly code: number | null;
  /** Its standard error without the lines about unreadable files. */
  readonly errors: string;
  /** How many files and folders could not be read. */
  readonly unreadable: number;
}

/** The binary, and what starts it: both are looked for at the first search. */
let loaded: Promise<[string, typeof import("./child.js")]> | undefined;

/**
 * Runs ripgrep in a process of its own, without an environment, and resolves when it has ended. Rejects with the signal's
 * reason, with a `ToolError` where there is no ripgrep, and with a `WorkLimitError` when it needs too much memory or waits
 * for what is no file.
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
  const messages = new Messages(options);
  const stalls = new Stalls(child.pid, () => stop.abort(STALLED));
  child.stderr?.on("data", (chunk: Buffer) => messages.push(chunk));
  child.stdout?.on("data", (chunk: Buffer) => {
    stalls.isBusy();
    if (!stop.signal.aborted && onOutput !== undefined && !onOutput(chunk)) stop.abort();
  });
  const end = await child
    .run({ timeoutMs, signal: AbortSignal.any([signal, stop.signal]) })
    .finally(() => stalls.close());
  signal.throwIfAborted();
  await Promise.all([closed(child.stdout), closed(child.stderr)]);
  messages.end();
  if (stop.signal.reason === STALLED) throw new WorkLimitError("time", "it waits for what it reads");
  if (end.why === "exit" && end.code === null) throw new WorkLimitError("memory", "it needs too much memory");
  const why = end.why === "abort" ? "enough" : end.why;
  return { why, code: end.code, errors: messages.errors, unreadable: messages.unreadable };
}

const STALLED = Symbol("stalled");

/** Notices a search that waits for ever: an ignore file of a repository can be a named pipe, which ripgrep opens. Linux only. */
class Stalls {
  readonly #timer: NodeJS.Timeout | undefined;
  #ticks = -1;

  constructor(pid: number, onStall: () => void) {
    if (!IS_LINUX) return;
    this.#timer = setInterval(() => {
      const ticks = ticksOf(pid);
      if (ticks !== undefined && this.#ticks >= 0 && ticks - this.#ticks < STALLED_TICKS) onStall();
      this.#ticks = ticks ?? -1;
    }, STALL_CHECK_MS);
  }

  /** It has just done something. */
  isBusy(): void {
    this.#ticks = -1;
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

/** CPU time of a process in hundredths of a second; undefined where it is unknown, and while a thread waits for a disk or a CPU. */
function ticksOf(pid: number): number | undefined {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`).map((task) => fieldsOf(`/proc/${pid}/task/${task}/stat`));
    if (tasks.some(([state]) => state === "D" || state === "R")) return undefined;
    return tasks.reduce((sum, fields) => sum + Number(fields[11]) + Number(fields[12]), 0);
  } catch {
    return undefined;
  }
}

/** The fields after the name, from the state on. */
function fieldsOf(path: string): string[] {
  const line = lineOf(path);
  return line.slice(line.lastIndexOf(")") + 2).split(" ");
}

/** Its output ends with it: nothing else holds the pipes. */
function closed(stream: Readable | null): Promise<unknown> | undefined {
  return stream === null || stream.closed ? undefined : new Promise((resolve) => stream.once("close", resolve));
}

const REMEDY =
  "Install gantry with its optional dependencies (npm install --include=optional), or ripgrep so that rg is in " +
  "/usr/bin or /usr/local/bin.";

/** The binary of the npm package for this platform, else the system's. */
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

/** Found from the package's own folder, where package managers put its binaries. No bundle of an embedder holds it. */
function packagedBinary(): string | undefined {
  const { platform, arch } = process;
  try {
    const { resolve } = createRequire(createRequire(import.meta.url).resolve("@vscode/ripgrep"));
    const path = resolve(`@vscode/ripgrep-${platform}-${arch}/bin/${platform === "win32" ? "rg.exe" : "rg"}`);
    // Electron reads files in an archive, and can start none of them.
    return path.replace(/\bapp\.asar(?=[\\/])/, "app.asar.unpacked");
  } catch {
    return undefined;
  }
}

const always = (): boolean => true;
const never = (): boolean => false;

/**
 * The lines of the standard error. With `--debug` ripgrep names each path that it leaves out, and why: nothing else tells
 * an ignored folder or link from one that is not there. What another version says otherwise is not reported.
 */
class Messages {
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
      // A name can hold a line feed.
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
