import { Writable } from "node:stream";

/** Takes bytes; says whether it wants more at once. */
export type Write = (text: string, done: (error?: Error | null) => void) => boolean;

/** What a transport writes to. */
export interface Output {
  write: Write;
  /** Resolves with the next `drain`. */
  drained(): Promise<void>;
  /** Told once when nobody reads any more. */
  onGone(listener: () => void): void;
  /** Give back what was taken. */
  release(): void;
}

/**
 * Standard output for this protocol alone: whatever else writes there (a plugin's `console.log`) goes to standard error.
 * The protocol's own writes go around the guard, and around any other that was put there before.
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

/** Any other stream, for an embedder. */
export function outputTo(stream: Writable, write: Write = (text, done) => stream.write(text, "utf8", done)): Output {
  const listeners: [string, () => void][] = [];
  const on = (event: string, listener: () => void) => {
    listeners.push([event, listener]);
    stream.on(event, listener);
  };
  // A reader that left (EPIPE) is the end of the connection, not of the process.
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
      // An error that comes late has nobody else to go to.
      stream.on("error", ignore);
    },
  };
}
