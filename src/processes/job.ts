import { abortable } from "../base/abort.js";
import { HeadTail, MODEL_BYTES } from "../base/cut-text.js";
import type { Redactor } from "../base/redact.js";
import type { ProcessState } from "../ports/background.js";
import type { Child, ChildEnd } from "./child.js";
import { settledBytes } from "./clean-stream.js";
import { OutputFile, type HeldOutput } from "./output-file.js";

/** Maximum bytes of input that may wait while a command does not read. A single text may be longer if nothing waits. */
export const MAX_WAITING_INPUT_BYTES = 1024 * 1024;
/** Maximum bytes of unread output that are kept. */
const MAX_UNREAD_BYTES = 2 * MODEL_BYTES;

/** Properties of a job besides its process. */
export interface JobOptions {
  readonly id: string;
  readonly command: string;
  readonly redactor: Redactor;
  /** Converts output to text as shown: without colours and secrets. */
  readonly clean: (output: string) => string;
  /** Path for the full output if it is long; undefined: no file. */
  readonly path: () => string | undefined;
  /** Called once, after the command and all its processes have ended. The returned notes are shown at the next look. */
  readonly cleanUp: () => Promise<readonly string[]>;
  readonly onEnd: () => void;
}

/** The result of a look at a job. */
export interface JobLook {
  /** Output since the last look. */
  readonly output: string;
  /** Exit code and signal; undefined while the command runs. */
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
export type InputResult = "taken" | "waits" | "full" | "closed";

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
  waitForOutput(signal: AbortSignal, version?: number): Promise<void>;
  /** Writes to standard input and waits until the text is taken, at most until the signal aborts. */
  writeInput(text: string, close: boolean, signal: AbortSignal): Promise<InputResult>;
  /** Ends the command and all processes that it started. */
  stop(reason?: unknown): Promise<void>;
  /** Removes the files of an ended command that is no longer listed. */
  removeFiles?(): void;
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
    this.#unseen = this.#newBuffer();
    this.#file = new OutputFile(options.path, options.redactor, MAX_UNREAD_BYTES / 2);
    this.ended = this.#run();
  }

  get state(): ProcessState {
    const { id, command } = this.#options;
    const state = this.#end === undefined ? "running" : "ended";
    return {
      id,
      command,
      state,
      startedAt: this.#since.toISOString(),
      exitCode: this.#end?.code ?? null,
      detached: false,
    };
  }

  get unseen(): string {
    return this.#first + this.#unseen.text();
  }

  look(first = false): JobLook {
    const output = this.#unseen.text(this.#file.file === undefined ? "" : "see the file");
    // A possible start of a secret is left for the next look.
    const settled = this.#end === undefined ? shownLength(output, this.#options.redactor) : output.length;
    this.#unseen = this.#newBuffer();
    if (settled < output.length) this.#unseen.push(Buffer.from(output.slice(settled)));
    const notes = this.#notes;
    this.#notes = [];
    this.#first = first ? output.slice(0, settled) : "";
    return { output: output.slice(0, settled), end: this.#end, notes, file: this.#file.file };
  }

  get version(): number {
    return this.#version;
  }

  async waitForOutput(signal: AbortSignal, version = this.#version): Promise<void> {
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

  async writeInput(text: string, close: boolean, signal: AbortSignal): Promise<InputResult> {
    const { stdin } = this.#child;
    if (stdin === null || this.#end !== undefined || !stdin.writable) return "closed";
    const waiting = stdin.writableLength;
    if (waiting > 0 && waiting + Buffer.byteLength(text) > MAX_WAITING_INPUT_BYTES) return "full";
    const written = new Promise<InputResult>((resolve) => {
      stdin.write(text, (error) => resolve(error ? "closed" : "taken"));
    });
    if (close) stdin.end();
    return abortable(written, signal).catch(() => "waits");
  }

  async stop(reason?: unknown): Promise<void> {
    this.#stopping.abort(reason);
    await this.ended;
  }

  #newBuffer(): HeadTail {
    const { clean, redactor } = this.#options;
    return new HeadTail(MAX_UNREAD_BYTES, { clean, reach: redactor.reach });
  }

  async #run(): Promise<void> {
    const onOutput = (chunk: Buffer): void => {
      const pendingOutput = this.#open.length === 0 ? chunk : Buffer.concat([this.#open, chunk]);
      const settled = settledBytes(pendingOutput);
      this.#open = pendingOutput.subarray(settled);
      if (settled > 0) this.#unseen.push(pendingOutput.subarray(0, settled));
      this.#file.push(chunk);
      this.#wake();
    };
    let end: Pick<ChildEnd, "code" | "signal"> = { code: null, signal: null };
    try {
      const { sandboxFault, ...ended } = await this.#child.run({ signal: this.#stopping.signal, onOutput });
      end = ended;
      if (sandboxFault !== undefined)
        this.#notes.push(`[the sandbox could not start: ${sandboxFault}; the command did not run]`);
      const removed = await this.#options.cleanUp();
      if (removed.length > 0) this.#notes.push(`[removed, because git would run or read it: ${removed.join(", ")}]`);
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
function shownLength(output: string, redactor: Redactor): number {
  const settled = redactor.settledLength(output);
  return output.length - settled < 8 ? output.length : settled;
}
