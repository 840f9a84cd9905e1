import { stripVTControlCharacters } from "node:util";
import { HiddenStream } from "../../base/hidden-stream.js";
import type { Redactor } from "../../base/redact.js";
import type { HeldOutput } from "../../processes/output-file.js";

/** Output is told at most so often, in ms. What is over sooner needs no telling. */
const PAUSE_MS = 100;
/** Of what came meanwhile so many bytes are told: the last. Nobody reads faster. */
const TOLD_BYTES = 16 * 1024;
/** Chunks may be tiny. */
const CHUNKS = 256;
/** An escape sequence that may go on behind the end; a title of a window is one. */
// eslint-disable-next-line no-control-regex
const OPEN_SEQUENCE = /(?:[\u001b\u009b][[\]()#;?\d:<=>!]{0,64}|\u001b\][^\u0007\u001b\u009c]{0,256}|\r)$/;

/** Without colours, and of progress bars that overwrite their line only what they ended with. */
export function tidy(output: string): string {
  return stripVTControlCharacters(output).split("\n").map(lastWritten).join("\n").replaceAll("\0", "\uFFFD");
}

function lastWritten(line: string): string {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  return text.slice(text.lastIndexOf("\r") + 1);
}

/**
 * Shows people what a command prints while it runs, as its output will be: tidied, and without secrets, in whatever pieces
 * they come. Of what comes faster than anybody reads, only the end.
 */
export class LiveOutput {
  readonly #stream: HiddenStream;
  /** What is kept in bytes, beside one chunk: what is told, and what a secret on the cut may take. */
  readonly #most: number;
  readonly #pauseMs: number;
  #timer: NodeJS.Timeout | undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Something that came was dropped since the last telling. */
  #dropped = false;
  #decoder = new TextDecoder();
  /** An escape sequence that is not whole yet. */
  #sequence = "";
  /** The line that is written has something in it. */
  #inLine = false;

  constructor(redactor: Redactor, tell: (text: string) => void, pauseMs = PAUSE_MS) {
    this.#stream = new HiddenStream(redactor, tell);
    this.#most = TOLD_BYTES + 4 * redactor.reach;
    this.#pauseMs = pauseMs;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    for (let [first] = this.#chunks; first && this.#bytes - first.length >= this.#most; [first] = this.#chunks) {
      this.#chunks.shift();
      this.#bytes -= first.length;
      this.#dropped = true;
    }
    if (this.#chunks.length > CHUNKS) this.#chunks = [Buffer.concat(this.#chunks)];
    this.#timer ??= setTimeout(() => this.#next(), this.#pauseMs);
  }

  /** Nothing is told any more. */
  end(): void {
    clearTimeout(this.#timer);
  }

  #next(): void {
    this.#timer = undefined;
    const whole = Buffer.concat(this.#chunks);
    const isCut = this.#dropped || whole.length > this.#most;
    const bytes = whole.subarray(Math.max(0, whole.length - this.#most));
    this.#chunks = [];
    this.#bytes = 0;
    this.#dropped = false;
    if (isCut) {
      this.#decoder = new TextDecoder();
      this.#sequence = "";
      this.#inLine = false;
    }
    const text = this.#sequence + this.#decoder.decode(bytes, { stream: true });
    this.#sequence = OPEN_SEQUENCE.exec(text.slice(-400))?.[0] ?? "";
    const [first = "", ...rest] = stripVTControlCharacters(text.slice(0, text.length - this.#sequence.length)).split(
      "\n",
    );
    const line = lastWritten(first);
    // What was told cannot be overwritten any more.
    const goesOn = this.#inLine && line.length < first.replace(/\r$/, "").length ? `\n${line}` : line;
    const lines = [goesOn, ...rest.map(lastWritten)];
    this.#inLine = rest.length === 0 ? this.#inLine || line !== "" : lines.at(-1) !== "";
    this.#stream.push(lines.join("\n").replaceAll("\0", "\uFFFD"), isCut);
  }
}

/** Says where an output is, or what there is of it. */
export function wholeOutput({ path, holds }: HeldOutput): string {
  if (holds === "whole") return `[the whole output is in ${path}: read and grep open it]`;
  const what = holds === "begin" ? "the beginning of the output is" : "beginning and end of the output are";
  return `[${what} in ${path}, which read and grep open; it does not hold the rest]`;
}
