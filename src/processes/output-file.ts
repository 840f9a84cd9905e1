import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { Redactor } from "../base/redact.js";
import { CleanStream } from "./clean-stream.js";

/**
 * The part of an output that its file contains:
 * - `whole`: all.
 * - `begin`: only the start, so far or permanently.
 * - `ends`: the start and the end.
 */
export type StoredParts = "whole" | "begin" | "ends";

/** The file of an output that is longer than the shown text. */
export interface StoredOutput {
  /** Absolute path. */
  readonly path: string;
  readonly storedParts: StoredParts;
}

/**
 * Bytes of the start, which is written while the output arrives, and of the end, which is kept in memory. Together 64
 * MiB.
 */
const STORED_BYTES = { head: 62 * 1024 * 1024, tail: 2 * 1024 * 1024 };
const MAX_TAIL_CHUNKS = 1_024;

/**
 * Writes the full output of a command to a file if it is longer than the shown text. The text is without colours and
 * secrets, at most 64 MiB. Write errors are ignored: the file is only a copy for readers.
 */
export class OutputFile {
  readonly #path: () => string | undefined;
  readonly #redactor: Redactor;
  readonly #minFileBytes: number;
  readonly #sizes: { head: number; tail: number };
  #firstChunks: Buffer[] = [];
  #totalBytes = 0;
  #writtenBytes = 0;
  #fd: number | undefined;
  #stream: CleanStream | undefined;
  /** The last chunks. Undefined while everything was written to the file. */
  #tailChunks: Buffer[] | undefined;
  #tailBytes = 0;
  #omittedBytes = 0;
  #file: string | undefined;
  #hasEnded = false;
  #hasFailed = false;

  /**
   * @param path Called when a file is needed. Returns undefined if no file is to be written.
   * @param minBytes Bytes of output that need no file.
   */
  constructor(path: () => string | undefined, redactor: Redactor, minBytes: number, sizes = STORED_BYTES) {
    this.#path = path;
    this.#redactor = redactor;
    this.#minFileBytes = minBytes;
    this.#sizes = sizes;
  }

  /** The file with the output. Undefined while no file is written. */
  get file(): StoredOutput | undefined {
    if (this.#file === undefined) return undefined;
    const isTruncated = this.#hasFailed || (this.#tailChunks !== undefined && !this.#hasEnded);
    return { path: this.#file, storedParts: isTruncated ? "begin" : this.#omittedBytes > 0 ? "ends" : "whole" };
  }

  push(chunk: Buffer): void {
    if (this.#hasEnded) return;
    this.#totalBytes += chunk.length;
    if (this.#stream === undefined) {
      this.#firstChunks.push(chunk);
      if (this.#totalBytes <= this.#minFileBytes) return;
      this.#openFile();
      return;
    }
    if (this.#tailChunks === undefined) this.#stream.push(chunk);
    else this.#addToTail(this.#tailChunks, chunk);
  }

  /** Ends the output and closes the file. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const tail = Buffer.concat(this.#tailChunks ?? []);
    if (this.#omittedBytes === 0) {
      if (tail.length > 0) this.#stream?.push(tail);
      this.#stream?.end();
    } else {
      // The first characters after omitted output may be part of a secret that cannot be recognized. The held text
      // before the omission and the first characters after the omission are dropped.
      let text = "";
      const tailStream = new CleanStream(this.#redactor, (cleanText) => (text += cleanText));
      tailStream.push(tail);
      tailStream.end();
      const textAfterCut = text.slice(this.#redactor.reach);
      const omittedBytes = this.#omittedBytes + Buffer.byteLength(text) - Buffer.byteLength(textAfterCut);
      this.#write(`\n[... ${omittedBytes.toLocaleString("en-US")} bytes omitted ...]\n${textAfterCut}`);
    }
    this.#closeFile();
  }

  #openFile(): void {
    const path = this.#path();
    try {
      if (path === undefined) return this.#giveUp();
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      this.#fd = openSync(path, "wx", 0o600);
      this.#file = path;
    } catch {
      return this.#giveUp();
    }
    this.#stream = new CleanStream(this.#redactor, (text) => this.#writeText(text));
    const firstOutput = Buffer.concat(this.#firstChunks);
    this.#firstChunks = [];
    this.#stream.push(firstOutput);
  }

  #writeText(text: string): void {
    this.#writtenBytes += this.#write(text);
    if (this.#writtenBytes >= this.#sizes.head) this.#tailChunks ??= [];
  }

  #addToTail(tail: Buffer[], chunk: Buffer): void {
    tail.push(chunk);
    this.#tailBytes += chunk.length;
    while (tail.length > 1 && this.#tailBytes - (tail[0]?.length ?? 0) >= this.#sizes.tail) {
      const droppedBytes = tail.shift()?.length ?? 0;
      this.#tailBytes -= droppedBytes;
      this.#omittedBytes += droppedBytes;
    }
    // Many small chunks use more memory as objects than for their bytes.
    if (tail.length > MAX_TAIL_CHUNKS) tail.splice(0, tail.length, Buffer.concat(tail));
  }

  #write(text: string): number {
    if (this.#fd === undefined) return 0;
    const bytes = Buffer.from(text);
    try {
      for (let offset = 0; offset < bytes.length;) offset += writeSync(this.#fd, bytes, offset);
    } catch {
      // For example, the disk is full. The written part stays.
      this.#hasFailed = true;
      this.#closeFile();
    }
    return bytes.length;
  }

  #giveUp(): void {
    this.#hasEnded = true;
    this.#firstChunks = [];
  }

  #closeFile(): void {
    const fd = this.#fd;
    this.#fd = undefined;
    if (fd !== undefined) closeSync(fd);
  }
}
