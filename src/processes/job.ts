import type { Writable } from "node:stream";
import { abortable } from "../base/abort.js";
import { HeadTail, MAX_MODEL_TEXT_BYTES } from "../base/cut-text.js";
import type { Redactor } from "../base/redact.js";
import type { ProcessState } from "../ports/background.js";
import type { ChildEnd, ChildOptions } from "./child.js";
import { countSettledBytes } from "./clean-stream.js";
import { OutputFile, type StoredOutput } from "./output-file.js";

/** Maximum bytes of input that may wait while a command does not read. A single text may be longer if nothing waits. */
export const MAX_WAITING_INPUT_BYTES = 1024 * 1024;
/** Maximum bytes of unread output that are kept. */
const MAX_UNREAD_BYTES = 2 * MAX_MODEL_TEXT_BYTES;
/** Minimum characters of a possible start of a secret that is held back. Fewer characters reveal nothing. */
export const MIN_HELD_CHARACTERS = 8;

/** The process of a job: a `Child`, or a command that has run before it became a job. */
export interface JobProcess {
  /** Null if the command has no input. */
  readonly stdin: Writable | null;
  /** Like `Child.run`. Called once. */
  run(options: Required<Pick<ChildOptions, "signal" | "onOutput">>): Promise<ChildEnd>;
}

/** Properties of a job besides its process. */
export interface JobOptions {
  readonly id: string;
  readonly command: string;
  readonly redactor: Redactor;
  /** Converts output to text as shown: without colours and secrets. */
  readonly clean: (output: string) => string;
  /** Returns the path for the full output if the output is long. Undefined: no file is written. */
  readonly path: () => string | undefined;
  /**
   * Called once, after the command and all its processes have ended, with the output that was not taken yet.
   * `takeOutput` returns the notes.
   */
  readonly cleanUp: (end: Pick<ChildEnd, "code" | "signal">, output: string) => Promise<readonly string[]>;
  readonly onEnd: () => void;
}

/** The new output of a job, and its state. */
export interface JobOutput {
  /** Output since the last call of `takeOutput`. */
  readonly output: string;
  /** Exit code and signal; undefined while the command runs. */
  readonly end: Pick<ChildEnd, "code" | "signal"> | undefined;
  readonly notes: readonly string[];
  /** The file with the full output, if the output is long. */
  readonly file: StoredOutput | undefined;
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
  /** The kept output since the last call of `takeOutput`. */
  readonly unseenOutput: string;
  /** Changes whenever the command prints. */
  readonly version: number;
  /**
   * Returns the output since the last call.
   *
   * The output of the `first` call, at the start of the command, also stays in `unseenOutput` for callers that wait for
   * a pattern. Later calls do not return it again.
   */
  takeOutput(first?: boolean): JobOutput;
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
  readonly #process: JobProcess;
  readonly #options: JobOptions;
  readonly #file: OutputFile;
  readonly #startedAt = new Date();
  readonly #stopController = new AbortController();
  readonly #waiters = new Set<() => void>();
  #unseenOutput: HeadTail;
  /** Incomplete end of the output: the start of a character or escape sequence. */
  #incompleteBytes: Buffer = Buffer.alloc(0);
  #firstOutput = "";
  #version = 0;
  #end: Pick<ChildEnd, "code" | "signal"> | undefined;
  #notes: string[] = [];
  /** Resolves when no process of the command is left. */
  readonly ended: Promise<void>;

  constructor(process: JobProcess, options: JobOptions) {
    this.#process = process;
    this.#options = options;
    this.#unseenOutput = this.#createBuffer();
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
      startedAt: this.#startedAt.toISOString(),
      exitCode: this.#end?.code ?? null,
      detached: false,
    };
  }

  get unseenOutput(): string {
    return this.#firstOutput + this.#unseenOutput.text();
  }

  takeOutput(first = false): JobOutput {
    const output = this.#unseenOutput.text(this.#file.file === undefined ? "" : "see the file");
    // A possible start of a secret is left for the next call.
    const settledLength = this.#end === undefined ? getShownLength(output, this.#options.redactor) : output.length;
    this.#unseenOutput = this.#createBuffer();
    if (settledLength < output.length) this.#unseenOutput.push(Buffer.from(output.slice(settledLength)));
    const notes = this.#notes;
    this.#notes = [];
    this.#firstOutput = first ? output.slice(0, settledLength) : "";
    return { output: output.slice(0, settledLength), end: this.#end, notes, file: this.#file.file };
  }

  get version(): number {
    return this.#version;
  }

  async waitForOutput(signal: AbortSignal, version = this.#version): Promise<void> {
    if (signal.aborted || this.#end !== undefined || version !== this.#version) return;
    await new Promise<void>((resolve) => {
      const onChange = (): void => {
        signal.removeEventListener("abort", onChange);
        this.#waiters.delete(onChange);
        resolve();
      };
      signal.addEventListener("abort", onChange);
      this.#waiters.add(onChange);
    });
  }

  async writeInput(text: string, close: boolean, signal: AbortSignal): Promise<InputResult> {
    const { stdin } = this.#process;
    if (stdin === null || this.#end !== undefined || !stdin.writable) return "closed";
    const waitingBytes = stdin.writableLength;
    if (waitingBytes > 0 && waitingBytes + Buffer.byteLength(text) > MAX_WAITING_INPUT_BYTES) return "full";
    const writeResult = new Promise<InputResult>((resolve) => {
      stdin.write(text, (error) => resolve(error ? "closed" : "taken"));
    });
    if (close) stdin.end();
    return abortable(writeResult, signal).catch(() => "waits");
  }

  async stop(reason?: unknown): Promise<void> {
    this.#stopController.abort(reason);
    await this.ended;
  }

  #createBuffer(): HeadTail {
    const { clean, redactor } = this.#options;
    return new HeadTail(MAX_UNREAD_BYTES, { clean, reach: redactor.reach });
  }

  async #run(): Promise<void> {
    const onOutput = (chunk: Buffer): void => {
      const pendingOutput = this.#incompleteBytes.length === 0 ? chunk : Buffer.concat([this.#incompleteBytes, chunk]);
      const settledLength = countSettledBytes(pendingOutput);
      this.#incompleteBytes = pendingOutput.subarray(settledLength);
      if (settledLength > 0) this.#unseenOutput.push(pendingOutput.subarray(0, settledLength));
      this.#file.push(chunk);
      this.#wake();
    };
    let end: Pick<ChildEnd, "code" | "signal"> = { code: null, signal: null };
    try {
      const { sandboxFault, ...childEnd } = await this.#process.run({ signal: this.#stopController.signal, onOutput });
      end = childEnd;
      if (sandboxFault !== undefined)
        this.#notes.push(`[the sandbox could not start: ${sandboxFault}; the command did not run]`);
      this.#notes.push(...(await this.#options.cleanUp(end, this.unseenOutput)));
    } catch (error) {
      this.#notes.push(`[${(error as Error).message}]`);
    } finally {
      this.#unseenOutput.push(this.#incompleteBytes);
      this.#file.end();
      this.#end = end;
      this.#wake();
      this.#options.onEnd();
    }
  }

  #wake(): void {
    this.#version += 1;
    for (const wake of [...this.#waiters]) wake();
  }
}

/**
 * Returns the length of the text that can be shown. A possible start of a secret that is shorter than
 * `MIN_HELD_CHARACTERS` is shown, because a caller may wait for it.
 */
function getShownLength(output: string, redactor: Redactor): number {
  const settledLength = redactor.settledLength(output);
  return output.length - settledLength < MIN_HELD_CHARACTERS ? output.length : settledLength;
}
