import type { Worker } from "node:worker_threads";
import { ToolError } from "../errors.js";

export interface LineSearchOptions {
  pattern: string;
  flags: string;
  /** Lines shown before and after a match. */
  context: number;
  /** Matching lines kept of one file; all are counted. */
  keep: number;
  /** How long one batch may take, in ms. */
  batchMs: number;
  signal: AbortSignal;
}

export interface FoundLine {
  /** From 1. */
  line: number;
  text: string;
  match: boolean;
}

/** What was found in one file of a batch. */
export interface FileMatches {
  /** Matching lines. */
  count: number;
  lines: FoundLine[];
}

/**
 * Runs beside the server, because a regular expression from a model can take for ever and nothing but the end of its
 * thread stops it. Plain JavaScript in a string: a file of its own would have to be found again in every bundle.
 */
const SOURCE = `
const { parentPort, workerData } = require("node:worker_threads");
const { pattern, flags, context, keep } = workerData;
const expression = new RegExp(pattern, flags);
const WIDTH = 300;
function show(line, at) {
  if (line.length <= WIDTH) return line;
  const start = Math.max(0, Math.min(at - 100, line.length - WIDTH));
  return (start > 0 ? "…" : "") + line.slice(start, start + WIDTH) + (start + WIDTH < line.length ? "…" : "");
}
function search(bytes) {
  const text = new TextDecoder().decode(bytes);
  const lines = [];
  let count = 0, number = 0, pending = 0;
  let before = [];
  for (let from = 0; from < text.length || (number === 0 && from === 0); ) {
    let end = text.indexOf("\\n", from);
    if (end < 0) end = text.length;
    const line = text.slice(from, text.charCodeAt(end - 1) === 13 && end > from ? end - 1 : end);
    from = end + 1;
    number++;
    const hit = expression.exec(line);
    if (hit) {
      count++;
      if (count <= keep) {
        for (const one of before) lines.push(one);
        lines.push({ line: number, text: show(line, hit.index), match: true });
        pending = context;
      }
      before = [];
    } else if (pending > 0) {
      lines.push({ line: number, text: show(line, 0), match: false });
      pending--;
    } else if (context > 0) {
      before.push({ line: number, text: show(line, 0), match: false });
      if (before.length > context) before.shift();
    }
  }
  return { count, lines };
}
parentPort.on("message", (files) => parentPort.postMessage(files.map(search)));
`;

/** Searches the lines of files in a thread of its own, which ends with `close`, with the signal, or when it takes too long. */
export class LineSearch {
  readonly #options: LineSearchOptions;
  readonly #worker: Worker;

  private constructor(worker: Worker, options: LineSearchOptions) {
    this.#worker = worker;
    this.#options = options;
  }

  static async start(options: LineSearchOptions): Promise<LineSearch> {
    const { Worker } = await import("node:worker_threads");
    const { pattern, flags, context, keep } = options;
    const worker = new Worker(SOURCE, {
      eval: true,
      workerData: { pattern, flags, context, keep },
      // Neither our environment nor our loaders belong in there.
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: 256 },
    });
    // Each batch listens for itself; between two of them there is nobody to tell.
    worker.on("error", () => undefined);
    return new LineSearch(worker, options);
  }

  /** Search the files of a batch; their memory goes over to the thread. */
  search(files: readonly Uint8Array[]): Promise<FileMatches[]> {
    const { signal, batchMs } = this.#options;
    const worker = this.#worker;
    return new Promise((resolve, reject) => {
      const settle = (act: () => void): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", onAbort);
        worker.off("message", onMessage).off("error", onError).off("exit", onExit);
        act();
      };
      const onMessage = (answer: FileMatches[]): void => settle(() => resolve(answer));
      const onError = (error: Error): void =>
        settle(() =>
          reject(new ToolError(`the search failed: ${error.message}. Use a simpler pattern.`, { cause: error })),
        );
      const onExit = (): void => settle(() => reject(new ToolError("the search ended early. Use a simpler pattern.")));
      const onAbort = (): void => settle(() => reject(signal.reason as Error));
      const timer = setTimeout(
        () =>
          settle(() =>
            reject(
              new ToolError(
                `the pattern takes too long (over ${batchMs / 1000} s for a few files). Nested repetition such as (a+)+ does that: write it without.`,
              ),
            ),
          ),
        batchMs,
      );
      if (signal.aborted) return onAbort();
      signal.addEventListener("abort", onAbort, { once: true });
      worker.on("message", onMessage).on("error", onError).on("exit", onExit);
      worker.postMessage(
        files,
        files.map((file) => file.buffer as ArrayBuffer),
      );
    });
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}
