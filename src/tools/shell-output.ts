import { stripVTControlCharacters } from "node:util";
import type { Redactor } from "../base/redact.js";

/** Output is told at most so often, in ms. What is over sooner needs no telling. */
const PAUSE_MS = 100;
/** Of what came meanwhile so many bytes are told: the last. Nobody reads faster. */
const TOLD_BYTES = 16 * 1024;
/** Chunks may be tiny. */
const CHUNKS = 256;
/** Stands for what was left out. */
const LEFT_OUT = "[...]";
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
  readonly #redactor: Redactor;
  /** What is kept in bytes, beside one chunk: what is told, and what a secret on the cut may take. */
  readonly #most: number;
  readonly #tell: (text: string) => void;
  readonly #pauseMs: number;
  #timer: NodeJS.Timeout | undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Something that came was dropped since the last telling. */
  #dropped = false;
  #decoder = new TextDecoder();
  /** An escape sequence that is not whole yet. */
  #sequence = "";
  /** Tidied: what was told last, as far as a secret may reach back into it, and what may be the begin of one. */
  #before = "";
  #open = "";
  /** The line that is written has something in it. */
  #inLine = false;

  constructor(redactor: Redactor, tell: (text: string) => void, pauseMs = PAUSE_MS) {
    this.#redactor = redactor;
    this.#most = TOLD_BYTES + 4 * redactor.reach;
    this.#tell = tell;
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
    const isCut = this.#take();
    const { reach } = this.#redactor;
    const text = this.#before + this.#open;
    const told = this.#before.length;
    const settled = Math.max(told, this.#redactor.settled(text));
    const hidden = this.#redactor.hide(text.slice(0, settled));
    this.#before = text.slice(Math.max(0, settled - reach), settled);
    this.#open = text.slice(settled);
    // What lies on a cut cannot be told from other text.
    if (isCut) this.#say(`\n${LEFT_OUT}\n${hidden.slice(reach)}`);
    else this.#say(hidden.slice(alike(this.#redactor.hide(text.slice(0, told)), hidden)));
  }

  #say(text: string): void {
    if (text !== "") this.#tell(text);
  }

  /** What came, tidied, behind what is still to be told. True when it does not go on from that. */
  #take(): boolean {
    const whole = Buffer.concat(this.#chunks);
    const isCut = this.#dropped || whole.length > this.#most;
    const bytes = whole.subarray(Math.max(0, whole.length - this.#most));
    this.#chunks = [];
    this.#bytes = 0;
    this.#dropped = false;
    if (isCut) {
      this.#decoder = new TextDecoder();
      this.#sequence = this.#before = this.#open = "";
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
    this.#open += lines.join("\n").replaceAll("\0", "\uFFFD");
    return isCut;
  }
}

/** How much two texts have in common at their begin. */
function alike(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
}
