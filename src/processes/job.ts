import { abortable } from "../base/abort.js";
import { HeadTail, MODEL_BYTES } from "../base/cut-text.js";
import type { Redactor } from "../base/redact.js";
import type { ProcessState } from "../ports/background.js";
import type { Child, ChildEnd } from "./child.js";
import { settledBytes } from "./clean-stream.js";
import { OutputFile, type HeldOutput } from "./output-file.js";

/** So many bytes of input may wait for a command that does not read; what is said to one that reads may be more. */
export const INPUT_BYTES = 1024 * 1024;
/** Kept of what nobody looked at yet. */
const KEPT_BYTES = 2 * MODEL_BYTES;

/** What a job is beside its process. */
export interface JobOptions {
  readonly id: string;
  readonly command: string;
  readonly redactor: Redactor;
  /** Makes text of what was printed, as it is shown: without colours and secrets. */
  readonly clean: (said: string) => string;
  /** Where its whole output goes when it is long; undefined: nowhere. */
  readonly path: () => string | undefined;
  /** Called once, when it has ended and nothing is left of it. What it returns is told of at the next look. */
  readonly tidy: () => Promise<readonly string[]>;
  readonly onEnd: () => void;
}

/** What a look at a job shows. */
export interface JobLook {
  /** What it printed since the last look. */
  readonly said: string;
  /** How it ended; undefined while it runs. */
  readonly end: Pick<ChildEnd, "code" | "signal"> | undefined;
  readonly notes: readonly string[];
  /** Where all that it printed is, where that is long. */
  readonly file: HeldOutput | undefined;
}

/**
 * What became of what was said to a command: it took it; it did not read it yet, and it waits; it is not said, for what was
 * said before waits still; it reads nothing any more.
 */
export type Said = "taken" | "waits" | "full" | "closed";

/** A command in the background of a session. */
export interface BackgroundJob {
  readonly state: ProcessState;
  /** What was printed since the last look, as far as it is kept; it stays unseen. */
  readonly unseen: string;
  /** Counts what it printed. */
  readonly version: number;
  /**
   * What was printed since the last look is seen now. Of the `first` one, when it was started, it counts as unseen for whoever
   * waits for something that it said so early; it is not shown again.
   */
  look(first?: boolean): JobLook;
  /** Resolves when it printed something since `version`, or ended, at the latest when the signal aborts. */
  news(signal: AbortSignal, version?: number): Promise<void>;
  /** Say something to its standard input, and wait until it took it, at most until the signal aborts. */
  say(text: string, close: boolean, signal: AbortSignal): Promise<Said>;
  /** End it, with all that it started. */
  stop(reason?: unknown): Promise<void>;
  /** It ended, and nobody wants to know more of it. */
  forget?(): void;
}

/** One that ends with this process. */
export class Job implements BackgroundJob {
  readonly #child: Child;
  readonly #options: JobOptions;
  readonly #file: OutputFile;
  readonly #since = new Date();
  readonly #stopping = new AbortController();
  readonly #waiting = new Set<() => void>();
  #unseen: HeadTail;
  /** Begin of a character or of an escape sequence. */
  #open: Buffer = Buffer.alloc(0);
  #first = "";
  #version = 0;
  #end: Pick<ChildEnd, "code" | "signal"> | undefined;
  #notes: string[] = [];
  /** Resolves when nothing of it is left. */
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
    return { id, command, state, since: this.#since.toISOString(), exitCode: this.#end?.code ?? null, keep: false };
  }

  get unseen(): string {
    return this.#first + this.#unseen.text();
  }

  look(first = false): JobLook {
    const said = this.#unseen.text(this.#file.file === undefined ? "" : "see the file");
    // Of what may be the begin of a secret the rest comes with the next look.
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

/** A few characters that might begin a secret tell nothing of it, and somebody may wait for them. */
function settledOf(said: string, redactor: Redactor): number {
  const settled = redactor.settled(said);
  return said.length - settled < 8 ? said.length : settled;
}
