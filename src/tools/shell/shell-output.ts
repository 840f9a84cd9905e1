import { stripVTControlCharacters } from "node:util";
import { RedactedStream } from "../../base/redacted-stream.js";
import type { Redactor } from "../../base/redact.js";
import type { StoredOutput } from "../../processes/output-file.js";

/** Minimum interval between two reports of output, in ms. Commands that end sooner are not reported. */
const REPORT_INTERVAL_MS = 100;
/** Maximum bytes of one report. Only the last bytes are reported, because no user reads faster. */
const MAX_REPORTED_BYTES = 16 * 1024;
/** Maximum buffered chunks before they are merged, because chunks may be small. */
const MAX_CHUNKS = 256;
/** An escape sequence that may continue in the next chunk, such as a window title. */
// eslint-disable-next-line no-control-regex
const INCOMPLETE_SEQUENCE = /(?:[\u001b\u009b][[\]()#;?\d:<=>!]{0,64}|\u001b\][^\u0007\u001b\u009c]{0,256}|\r)$/;

/** Removes colours and other escape sequences. A line that a progress bar overwrites keeps its last text. */
export function cleanOutput(output: string): string {
  return stripVTControlCharacters(output).split("\n").map(takeLastText).join("\n").replaceAll("\0", "\uFFFD");
}

function takeLastText(line: string): string {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  return text.slice(text.lastIndexOf("\r") + 1);
}

/**
 * Reports the output of a running command to users in the form of the final output: cleaned and without secrets,
 * however it is split into chunks. Fast output is reduced to its end.
 */
export class LiveOutput {
  readonly #stream: RedactedStream;
  /** Bytes that are kept, in addition to one chunk: one report, and the length of a secret at the cut. */
  readonly #maxBytes: number;
  readonly #pauseMs: number;
  #timer: NodeJS.Timeout | undefined;
  #chunks: Buffer[] = [];
  #bufferedBytes = 0;
  /** Whether output was dropped since the last report. */
  #hasDroppedOutput = false;
  #decoder = new TextDecoder();
  /** Incomplete escape sequence at the end of the last report. */
  #incompleteSequence = "";
  /** Whether the current line already has text. */
  #hasLineText = false;

  constructor(redactor: Redactor, send: (text: string) => void, pauseMs = REPORT_INTERVAL_MS) {
    this.#stream = new RedactedStream(redactor, send);
    this.#maxBytes = MAX_REPORTED_BYTES + 4 * redactor.reach;
    this.#pauseMs = pauseMs;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bufferedBytes += chunk.length;
    for (
      let [firstChunk] = this.#chunks;
      firstChunk && this.#bufferedBytes - firstChunk.length >= this.#maxBytes;
      [firstChunk] = this.#chunks
    ) {
      this.#chunks.shift();
      this.#bufferedBytes -= firstChunk.length;
      this.#hasDroppedOutput = true;
    }
    if (this.#chunks.length > MAX_CHUNKS) this.#chunks = [Buffer.concat(this.#chunks)];
    this.#timer ??= setTimeout(() => this.#report(), this.#pauseMs);
  }

  /** Stops the reports. Output that is not yet reported is dropped. */
  end(): void {
    clearTimeout(this.#timer);
  }

  #report(): void {
    this.#timer = undefined;
    const buffer = Buffer.concat(this.#chunks);
    const isCut = this.#hasDroppedOutput || buffer.length > this.#maxBytes;
    const bytes = buffer.subarray(Math.max(0, buffer.length - this.#maxBytes));
    this.#chunks = [];
    this.#bufferedBytes = 0;
    this.#hasDroppedOutput = false;
    if (isCut) {
      this.#decoder = new TextDecoder();
      this.#incompleteSequence = "";
      this.#hasLineText = false;
    }
    const text = this.#incompleteSequence + this.#decoder.decode(bytes, { stream: true });
    this.#incompleteSequence = INCOMPLETE_SEQUENCE.exec(text.slice(-400))?.[0] ?? "";
    const [unfinishedLine = "", ...laterLines] = stripVTControlCharacters(
      text.slice(0, text.length - this.#incompleteSequence.length),
    ).split("\n");
    const line = takeLastText(unfinishedLine);
    // Reported text cannot be overwritten, so that the new state starts a new line.
    const firstLine = this.#hasLineText && line.length < unfinishedLine.replace(/\r$/, "").length ? `\n${line}` : line;
    const lines = [firstLine, ...laterLines.map(takeLastText)];
    this.#hasLineText = laterLines.length === 0 ? this.#hasLineText || line !== "" : lines.at(-1) !== "";
    this.#stream.push(lines.join("\n").replaceAll("\0", "\uFFFD"), isCut);
  }
}

/** Formats a note with the path of the stored output and the part that it contains. */
export function describeOutputFile({ path, storedParts }: StoredOutput): string {
  if (storedParts === "whole") return `[the whole output is in ${path} (open it with read or grep)]`;
  const subject =
    storedParts === "begin" ? "the beginning of the output is" : "the beginning and end of the output are";
  return `[${subject} in ${path} (open it with read or grep); the rest was not stored]`;
}
