import { stripVTControlCharacters } from "node:util";
import { HiddenStream } from "../../base/hidden-stream.js";
import type { Redactor } from "../../base/redact.js";
import type { HeldOutput } from "../../processes/output-file.js";

/** Minimum interval between two reports of output, in ms. Commands that end sooner are not reported. */
const PAUSE_MS = 100;
/** Maximum bytes of one report. Only the last bytes are reported, because no user reads faster. */
const TOLD_BYTES = 16 * 1024;
/** Maximum buffered chunks before they are merged, because chunks may be small. */
const CHUNKS = 256;
/** An escape sequence that may continue in the next chunk, such as a window title. */
// eslint-disable-next-line no-control-regex
const OPEN_SEQUENCE = /(?:[\u001b\u009b][[\]()#;?\d:<=>!]{0,64}|\u001b\][^\u0007\u001b\u009c]{0,256}|\r)$/;

/** Removes colours and other escape sequences. Of lines that a progress bar overwrites, only the last state remains. */
export function tidy(output: string): string {
  return stripVTControlCharacters(output).split("\n").map(lastWritten).join("\n").replaceAll("\0", "\uFFFD");
}

function lastWritten(line: string): string {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  return text.slice(text.lastIndexOf("\r") + 1);
}

/**
 * Reports the output of a running command to users in the form of the final output: tidied and without secrets, however
 * it is split into chunks. Fast output is reduced to its end.
 */
export class LiveOutput {
  readonly #stream: HiddenStream;
  /** Bytes that are kept, in addition to one chunk: one report, and the length of a secret at the cut. */
  readonly #most: number;
  readonly #pauseMs: number;
  #timer: NodeJS.Timeout | undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Whether output was dropped since the last report. */
  #dropped = false;
  #decoder = new TextDecoder();
  /** Incomplete escape sequence at the end of the last report. */
  #sequence = "";
  /** Whether the current line already has text. */
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

  /** Stops the reports. Output that is not yet reported is dropped. */
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
    // Reported text cannot be overwritten, so that the new state starts a new line.
    const goesOn = this.#inLine && line.length < first.replace(/\r$/, "").length ? `\n${line}` : line;
    const lines = [goesOn, ...rest.map(lastWritten)];
    this.#inLine = rest.length === 0 ? this.#inLine || line !== "" : lines.at(-1) !== "";
    this.#stream.push(lines.join("\n").replaceAll("\0", "\uFFFD"), isCut);
  }
}

/** Formats a note with the path of the stored output and the part that it contains. */
export function wholeOutput({ path, holds }: HeldOutput): string {
  if (holds === "whole") return `[the whole output is in ${path}: read and grep open it]`;
  const what = holds === "begin" ? "the beginning of the output is" : "beginning and end of the output are";
  return `[${what} in ${path}, which read and grep open; it does not hold the rest]`;
}
