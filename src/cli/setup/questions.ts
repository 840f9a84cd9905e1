import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";

/** Asks a person at the terminal. A method rejects with the signal's name as `signal.reason` after Ctrl+C or Ctrl+D. */
export interface Questions {
  /** Aborted after Ctrl+C or Ctrl+D, with `SIGINT` as reason. */
  readonly signal: AbortSignal;
  ask(text: string): Promise<string>;
  /** Like `ask`, but the answer is not shown. */
  askSecret(text: string): Promise<string>;
  close(): void;
}

export function openQuestions(interruptSignal: AbortSignal): Questions {
  let isMuted = false;
  const output = new Writable({
    write: (chunk: Uint8Array, _encoding, done) => {
      if (!isMuted) process.stderr.write(chunk);
      done();
    },
  });
  // Without a history: the arrow keys must not show a key again.
  const lines = createInterface({ input: process.stdin, output, terminal: true, historySize: 0 });
  const controller = new AbortController();
  const signal = AbortSignal.any([controller.signal, interruptSignal]);
  lines.once("SIGINT", () => controller.abort("SIGINT"));
  lines.once("close", () => controller.abort("SIGINT"));
  const ask = async (text: string) => (await lines.question(text, { signal })).trim();
  return {
    signal,
    ask,
    askSecret: async (text) => {
      process.stderr.write(text);
      isMuted = true;
      try {
        return await ask("");
      } finally {
        isMuted = false;
        process.stderr.write("\n");
      }
    },
    close: () => lines.close(),
  };
}
