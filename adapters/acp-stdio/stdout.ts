import { Writable } from "node:stream";

/** Writes text and calls `done` when the text is written. Returns whether more can be written at once. */
export type Write = (text: string, done: (error?: Error | null) => void) => boolean;

/** Output of a transport. */
export interface Output {
  write: Write;
  /** Resolves at the next `drain`, or when the stream closes or fails. */
  waitForDrain(): Promise<void>;
  /** Calls `listener` when the reader has closed the stream. */
  onReaderLost(listener: () => void): void;
  /** Removes listeners and restores a replaced `write`. */
  release(): void;
}

/**
 * Reserves standard output for the protocol: other writes, like a plugin's `console.log`, go to standard error. The
 * protocol's writes bypass this replacement and any earlier one.
 */
export function reserveStdout(): Output {
  const { stdout, stderr } = process;
  const originalWrite = Object.getOwnPropertyDescriptor(stdout, "write");
  Object.defineProperty(stdout, "write", { configurable: true, writable: true, value: stderr.write.bind(stderr) });
  const output = createOutput(stdout, (text, done) => Writable.prototype.write.call(stdout, text, "utf8", done));
  return {
    ...output,
    release: () => {
      output.release();
      if (originalWrite) Object.defineProperty(stdout, "write", originalWrite);
      else delete (stdout as { write?: unknown }).write;
    },
  };
}

/** Creates an output for a stream. `write`: default is the stream's own `write`. */
export function createOutput(
  stream: Writable,
  write: Write = (text, done) => stream.write(text, "utf8", done),
): Output {
  const listeners: [string, () => void][] = [];
  const on = (event: string, listener: () => void) => {
    listeners.push([event, listener]);
    stream.on(event, listener);
  };
  // A closed reader (EPIPE) ends the connection, not the process.
  const ignoreError = () => undefined;
  on("error", ignoreError);
  return {
    write,
    waitForDrain: () =>
      new Promise((resolve) => {
        const settle = () => {
          for (const event of ["drain", "close", "error"]) stream.off(event, settle);
          resolve();
        };
        for (const event of ["drain", "close", "error"]) stream.once(event, settle);
      }),
    onReaderLost: (listener) => {
      on("error", listener);
      on("close", listener);
    },
    release: () => {
      for (const [event, listener] of listeners) stream.off(event, listener);
      // Keep a listener: without a listener, a later error would end the process.
      stream.on("error", ignoreError);
    },
  };
}
