import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { Redactor } from "../base/redact.js";
import { CleanStream } from "./clean-stream.js";

/**
 * Part of an output in its file:
 * - `whole`: all.
 * - `begin`: only the start, so far or permanently.
 * - `ends`: the start and the end.
 */
export type HeldParts = "whole" | "begin" | "ends";

/** The file of an output that is longer than the shown text. */
export interface HeldOutput {
  /** Absolute path. */
  readonly path: string;
  readonly holds: HeldParts;
}

/** Bytes of the start, written while the output arrives, and of the end, which is kept in memory. Together 64 MiB. */
const SIZES = { head: 62 * 1024 * 1024, tail: 2 * 1024 * 1024 };

/**
 * Writes the full output of a command to a file if it is longer than the shown text. The text is without colours and
 * secrets, at most 64 MiB. Write errors are ignored: the file is only a copy for readers.
 */
export class OutputFile {
  readonly #path: () => string | undefined;
  readonly #redactor: Redactor;
  readonly #minBytes: number;
  readonly #sizes: { head: number; tail: number };
  #first: Buffer[] = [];
  #total = 0;
  #written = 0;
  #fd: number | undefined;
  #stream: CleanStream | undefined;
  /** The last chunks. Undefined while everything was written to the file. */
  #tail: Buffer[] | undefined;
  #tailBytes = 0;
  #omittedBytes = 0;
  #file: string | undefined;
  #hasEnded = false;
  #hasFailed = false;

  /**
   * @param path Called when a file is needed; undefined: no file is written.
   * @param from Bytes of output that need no file.
   */
  constructor(path: () => string | undefined, redactor: Redactor, from: number, sizes = SIZES) {
    this.#path = path;
    this.#redactor = redactor;
    this.#minBytes = from;
    this.#sizes = sizes;
  }

  /** The file; undefined while there is none. */
  get file(): HeldOutput | undefined {
    if (this.#file === undefined) return undefined;
    const isCut = this.#hasFailed || (this.#tail !== undefined && !this.#hasEnded);
    return { path: this.#file, holds: isCut ? "begin" : this.#omittedBytes > 0 ? "ends" : "whole" };
  }

  push(chunk: Buffer): void {
    if (this.#hasEnded) return;
    this.#total += chunk.length;
    if (this.#stream === undefined) {
      this.#first.push(chunk);
      if (this.#total <= this.#minBytes) return;
      this.#begin();
      return;
    }
    if (this.#tail === undefined) this.#stream.push(chunk);
    else this.#keep(this.#tail, chunk);
  }

  /** Ends the output and closes the file. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const tail = Buffer.concat(this.#tail ?? []);
    if (this.#omittedBytes === 0) {
      if (tail.length > 0) this.#stream?.push(tail);
      this.#stream?.end();
    } else {
      // At the cut, part of a secret cannot be distinguished from other text. The held text before the cut and the
      // first characters after it are omitted.
      let text = "";
      const last = new CleanStream(this.#redactor, (cleanText) => (text += cleanText));
      last.push(tail);
      last.end();
      const behind = text.slice(this.#redactor.reach);
      const gone = this.#omittedBytes + Buffer.byteLength(text) - Buffer.byteLength(behind);
      this.#write(`\n[... ${gone.toLocaleString("en-US")} bytes omitted ...]\n${behind}`);
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
      this.#omittedBytes += gone;
    }
    // Many small chunks use more memory as objects than for their bytes.
    if (tail.length > 1024) tail.splice(0, tail.length, Buffer.concat(tail));
  }

  #write(text: string): number {
    if (this.#fd === undefined) return 0;
    const bytes = Buffer.from(text);
    try {
      for (let at = 0; at < bytes.length;) at += writeSync(this.#fd, bytes, at);
    } catch {
      // For example, the disk is full. The written part stays.
      this.#hasFailed = true;
      this.#close();
    }
    return bytes.length;
  }

  #drop(): void {
    this.#hasEnded = true;
    this.#first = [];
  }

  #close(): void {
    const fd = this.#fd;
    this.#fd = undefined;
    if (fd !== undefined) closeSync(fd);
  }
}
