import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { Redactor } from "../base/redact.js";
import { CleanStream } from "./clean-stream.js";

/** How much of an output is in its file: all; only its beginning so far, or for good; its beginning and its end. */
export type Held = "whole" | "begin" | "ends";

/** Where an output is that is longer than what is shown. */
export interface HeldOutput {
  /** Absolute. */
  readonly path: string;
  readonly holds: Held;
}

/** Of an output the beginning is written as it comes, in bytes, and of what follows the end stays. Together 64 MiB. */
const SIZES = { head: 62 * 1024 * 1024, tail: 2 * 1024 * 1024 };

/**
 * Where the whole output of a command goes when it is longer than what is shown of it: a file, without colours and
 * secrets, of at most 64 MiB. What cannot be written is left out: it is a copy for who wants to read more.
 */
export class OutputFile {
  readonly #path: () => string | undefined;
  readonly #redactor: Redactor;
  readonly #from: number;
  readonly #sizes: { head: number; tail: number };
  #first: Buffer[] = [];
  #total = 0;
  #written = 0;
  #fd: number | undefined;
  #stream: CleanStream | undefined;
  /** Undefined while all came into the file so far. */
  #tail: Buffer[] | undefined;
  #tailBytes = 0;
  #leftOut = 0;
  #file: string | undefined;
  #over = false;
  #failed = false;

  /**
   * @param path Asked when a file is needed; undefined: there shall be none.
   * @param from Bytes of output that need no file.
   */
  constructor(path: () => string | undefined, redactor: Redactor, from: number, sizes = SIZES) {
    this.#path = path;
    this.#redactor = redactor;
    this.#from = from;
    this.#sizes = sizes;
  }

  /** Where it is; undefined while there is no file. */
  get file(): HeldOutput | undefined {
    if (this.#file === undefined) return undefined;
    const isCut = this.#failed || (this.#tail !== undefined && !this.#over);
    return { path: this.#file, holds: isCut ? "begin" : this.#leftOut > 0 ? "ends" : "whole" };
  }

  push(chunk: Buffer): void {
    if (this.#over) return;
    this.#total += chunk.length;
    if (this.#stream === undefined) {
      this.#first.push(chunk);
      if (this.#total <= this.#from) return;
      this.#begin();
      return;
    }
    if (this.#tail === undefined) this.#stream.push(chunk);
    else this.#keep(this.#tail, chunk);
  }

  /** Nothing comes any more. */
  end(): void {
    if (this.#over) return;
    this.#over = true;
    const tail = Buffer.concat(this.#tail ?? []);
    if (this.#leftOut === 0) {
      if (tail.length > 0) this.#stream?.push(tail);
      this.#stream?.end();
    } else {
      // A secret on the cut could not be told from other text: what waits in front of it is not told, nor what is close behind.
      let text = "";
      const last = new CleanStream(this.#redactor, (more) => (text += more));
      last.push(tail);
      last.end();
      const behind = text.slice(this.#redactor.reach);
      const gone = this.#leftOut + Buffer.byteLength(text) - Buffer.byteLength(behind);
      this.#write(`\n[... ${gone.toLocaleString("en-US")} bytes left out ...]\n${behind}`);
    }
    this.#close();
  }

  #begin(): void {
    const path = this.#path();
    try {
      if (path === undefined) return this.#drop();
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      this.#fd = openSync(path, "wx", 0o600);
      this.#file = path;
    } catch {
      return this.#drop();
    }
    this.#stream = new CleanStream(this.#redactor, (text) => this.#take(text));
    const first = Buffer.concat(this.#first);
    this.#first = [];
    this.#stream.push(first);
  }

  #take(text: string): void {
    this.#written += this.#write(text);
    if (this.#written >= this.#sizes.head) this.#tail ??= [];
  }

  #keep(tail: Buffer[], chunk: Buffer): void {
    tail.push(chunk);
    this.#tailBytes += chunk.length;
    while (tail.length > 1 && this.#tailBytes - (tail[0]?.length ?? 0) >= this.#sizes.tail) {
      const gone = tail.shift()?.length ?? 0;
      this.#tailBytes -= gone;
      this.#leftOut += gone;
    }
    // Many tiny chunks cost more in objects than in bytes.
    if (tail.length > 1024) tail.splice(0, tail.length, Buffer.concat(tail));
  }

  #write(text: string): number {
    if (this.#fd === undefined) return 0;
    const bytes = Buffer.from(text);
    try {
      for (let at = 0; at < bytes.length;) at += writeSync(this.#fd, bytes, at);
    } catch {
      // The disk is full: what is there stays.
      this.#failed = true;
      this.#close();
    }
    return bytes.length;
  }

  #drop(): void {
    this.#over = true;
    this.#first = [];
  }

  #close(): void {
    const fd = this.#fd;
    this.#fd = undefined;
    if (fd !== undefined) closeSync(fd);
  }
}
