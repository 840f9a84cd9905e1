import { abortable } from "../base/abort.js";
import { HeadTail, MODEL_BYTES } from "../base/cut-text.js";
import type { Redactor } from "../base/redact.js";
import type { ProcessState } from "../ports/background.js";
import type { Child, ChildEnd } from "./child.js";
import { settledBytes } from "./clean-stream.js";
import { OutputFile, type HeldOutput } from "./output-file.js";

/** Maximum bytes of input that may wait while a command does not read. A single text may be longer if nothing waits. */
export const INPUT_BYTES = 1024 * 1024;
/** Maximum bytes of unread output that are kept. */
const KEPT_BYTES = 2 * MODEL_BYTES;

/** Properties of a job besides its process. */
export interface JobOptions {
  readonly id: string;
  readonly command: string;
  readonly redactor: Redactor;
  /** Converts output to text as shown: without colours and secrets. */
  readonly clean: (said: string) => string;
  /** Path for the full output if it is long; undefined: no file. */
  readonly path: () => string | undefined;
  /** Called once, after the command and all its processes have ended. The returned notes are shown at the next look. */
  readonly tidy: () => Promise<readonly string[]>;
  readonly onEnd: () => void;
}

/** The result of a look at a job. */
export interface JobLook {
  /** Output since the last look. */
  readonly said: string;
  /** How the command ended; undefined while it runs. */
  readonly end: Pick<ChildEnd, "code" | "signal"> | undefined;
  readonly notes: readonly string[];
  /** The file with the full output, if the output is long. */
  readonly file: HeldOutput | undefined;
}

/**
 * Result of writing to a command's standard input:
 * - `taken`: the command read it, or the system buffered it.
 * - `waits`: not read yet; it stays queued.
 * - `full`: not queued, because earlier input still waits.
 * - `closed`: the command no longer reads input.
 */
export type Said = "taken" | "waits" | "full" | "closed";

/** A background command of a session. */
export interface BackgroundJob {
  readonly state: ProcessState;
  /** The kept output since the last look. Reading it does not mark it as seen. */
  readonly unseen: string;
  /** Changes whenever the command prints. */
  readonly version: number;
  /**
   * Returns the output since the last look and marks it as seen.
   *
   * After the `first` look, at the start of the command, the output also stays in `unseen` for callers that wait for a
   * pattern. Later looks do not return it again.
   */
  look(first?: boolean): JobLook;
  /** Resolves when the command has printed since `version`, has ended, or the signal aborts. */
  news(signal: AbortSignal, version?: number): Promise<void>;
  /** Writes to standard input and waits until the text is taken, at most until the signal aborts. */
  say(text: string, close: boolean, signal: AbortSignal): Promise<Said>;
  /** Ends the command and all processes that it started. */
  stop(reason?: unknown): Promise<void>;
  /** Removes the files of an ended command that is no longer listed. */
  forget?(): void;
}

/** A job that ends with this process. */
export class Job implements BackgroundJob {
  readonly #child: Child;
  readonly #options: JobOptions;
  readonly #file: OutputFile;
  readonly #since = new Date();
  readonly #stopping = new AbortController();
  readonly #waiting = new Set<() => void>();
  #unseen: HeadTail;
  /** Incomplete end of the output: the start of a character or escape sequence. */
  #open: Buffer = Buffer.alloc(0);
  #first = "";
  #version = 0;
  #end: Pick<ChildEnd, "code" | "signal"> | undefined;
  #notes: string[] = [];
  /** Resolves when no process of the command is left. */
  readonly ended: Promise<void>;

  constructor(child: Child, options: JobOptions) {
    this.#child = child;
    this.#options = options;
    this.#unseen = this.#fresh();
    this.#file = new OutputFile(options.path, options.redactor, KEPT_BYTES / 2);
    this.ended = this.#run();
  }

  get state(): ProcessState {
    const { id, command } = this.#options;
    const state = this.#end === undefined ? "running" : "ended";
    return { id, command, state, since: this.#since.toISOString(), exitCode: this.#end?.code ?? null, detached: false };
  }

  get unseen(): string {
    return this.#first + this.#unseen.text();
  }

  look(first = false): JobLook {
    const said = this.#unseen.text(this.#file.file === undefined ? "" : "see the file");
    // A possible start of a secret is left for the next look.
    const settled = this.#end === undefined ? settledOf(said, this.#options.redactor) : said.length;
    this.#unseen = this.#fresh();
    if (settled < said.length) this.#unseen.push(Buffer.from(said.slice(settled)));
    const notes = this.#notes;
    this.#notes = [];
    this.#first = first ? said.slice(0, settled) : "";
    return { said: said.slice(0, settled), end: this.#end, notes, file: this.#file.file };
  }

  get version(): number {
    return this.#version;
  }

  async news(signal: AbortSignal, version = this.#version): Promise<void> {
    if (signal.aborted || this.#end !== undefined || version !== this.#version) return;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        signal.removeEventListener("abort", wake);
        this.#waiting.delete(wake);
        resolve();
      };
      signal.addEventListener("abort", wake);
      this.#waiting.add(wake);
    });
  }

  async say(text: string, close: boolean, signal: AbortSignal): Promise<Said> {
    const { stdin } = this.#child;
    if (stdin === null || this.#end !== undefined || !stdin.writable) return "closed";
    const waiting = stdin.writableLength;
    if (waiting > 0 && waiting + Buffer.byteLength(text) > INPUT_BYTES) return "full";
    const written = new Promise<Said>((resolve) => {
      stdin.write(text, (error) => resolve(error ? "closed" : "taken"));
    });
    if (close) stdin.end();
    return abortable(written, signal).catch(() => "waits");
  }

  async stop(reason?: unknown): Promise<void> {
    this.#stopping.abort(reason);
    await this.ended;
  }

  #fresh(): HeadTail {
    const { clean, redactor } = this.#options;
    return new HeadTail(KEPT_BYTES, { clean, reach: redactor.reach });
  }

  async #run(): Promise<void> {
    const onOutput = (chunk: Buffer): void => {
      const whole = this.#open.length === 0 ? chunk : Buffer.concat([this.#open, chunk]);
      const settled = settledBytes(whole);
      this.#open = whole.subarray(settled);
      if (settled > 0) this.#unseen.push(whole.subarray(0, settled));
      this.#file.push(chunk);
      this.#wake();
    };
    let end: Pick<ChildEnd, "code" | "signal"> = { code: null, signal: null };
    try {
      const { sandboxFault, ...ended } = await this.#child.run({ signal: this.#stopping.signal, onOutput });
      end = ended;
      if (sandboxFault !== undefined)
        this.#notes.push(`[the sandbox could not start: ${sandboxFault}; the command did not run]`);
      const removed = await this.#options.tidy();
      if (removed.length > 0)
        this.#notes.push(`[removed again, because git would run or read it: ${removed.join(", ")}]`);
    } catch (error) {
      this.#notes.push(`[${(error as Error).message}]`);
    } finally {
      this.#unseen.push(this.#open);
      this.#file.end();
      this.#end = end;
      this.#wake();
      this.#options.onEnd();
    }
  }

  #wake(): void {
    this.#version += 1;
    for (const wake of [...this.#waiting]) wake();
  }
}

/**
 * Length of the text that can be shown. Up to seven characters that might start a secret are shown, because they reveal
 * nothing and a caller may wait for them.
 */
function settledOf(said: string, redactor: Redactor): number {
  const settled = redactor.settled(said);
  return said.length - settled < 8 ? said.length : settled;
}
