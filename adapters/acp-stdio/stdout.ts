import { Writable } from "node:stream";

/** Writes text. Returns whether more can be written at once. */
export type Write = (text: string, done: (error?: Error | null) => void) => boolean;

/** Output of a transport. */
export interface Output {
  write: Write;
  /** Resolves with the next `drain`. */
  drained(): Promise<void>;
  /** Calls `listener` when the reader is gone. */
  onGone(listener: () => void): void;
  /** Removes listeners and restores a replaced `write`. */
  release(): void;
}

/**
 * Reserves standard output for the protocol: other writes, like a plugin's `console.log`, go to standard error. The
 * protocol's writes bypass this replacement and any earlier one.
 */
export function takeStdout(): Output {
  const { stdout, stderr } = process;
  const before = Object.getOwnPropertyDescriptor(stdout, "write");
  Object.defineProperty(stdout, "write", { configurable: true, writable: true, value: stderr.write.bind(stderr) });
  const output = outputTo(stdout, (text, done) => Writable.prototype.write.call(stdout, text, "utf8", done));
  return {
    ...output,
    release: () => {
      output.release();
      if (before) Object.defineProperty(stdout, "write", before);
      else delete (stdout as { write?: unknown }).write;
    },
  };
}

/** Uses another stream, for embedders. */
export function outputTo(stream: Writable, write: Write = (text, done) => stream.write(text, "utf8", done)): Output {
  const listeners: [string, () => void][] = [];
  const on = (event: string, listener: () => void) => {
    listeners.push([event, listener]);
    stream.on(event, listener);
  };
  // A reader that is gone (EPIPE) ends the connection, not the process.
  const ignore = () => undefined;
  on("error", ignore);
  return {
    write,
    drained: () =>
      new Promise((resolve) => {
        const settle = () => {
          for (const event of ["drain", "close", "error"]) stream.off(event, settle);
          resolve();
        };
        for (const event of ["drain", "close", "error"]) stream.once(event, settle);
      }),
    onGone: (listener) => {
      on("error", listener);
      on("close", listener);
    },
    release: () => {
      for (const [event, listener] of listeners) stream.off(event, listener);
      // Keep a listener: a late error would otherwise end the process.
      stream.on("error", ignore);
    },
  };
}
