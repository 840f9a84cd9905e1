import { availableParallelism } from "node:os";
import type { Worker } from "node:worker_threads";
import { deadline, onAbort, settlesWithin } from "../base/abort.js";
import { WorkLimitError } from "../ports/errors.js";
import type { Answers, Jobs, Reply } from "./jobs.js";
import type { WorkerData } from "./worker-data.js";

/**
 * The one place where work on foreign input is done: pages of the web, patterns and folders of repositories, regular
 * expressions of models. Each can be made to take for ever, and nothing but the end of its thread stops it then. So
 * it runs in a thread of its own, with a limit of time and of memory, and ends with the signal of whoever asked.
 */

/** Threads at a time; who comes later waits. Bounds the memory, and leaves a core's share to the server. */
const MAX_THREADS = Math.max(4, 2 * availableParallelism());
/** Threads kept for the next call, and for how long, in ms: agents call tools in quick succession. */
const MAX_IDLE = 2;
const IDLE_MS = 10_000;
/** For a thread to load its code, in ms; only a machine that is out of memory takes so long. */
const START_MS = 30_000;
/** For a thread to end, in ms. */
const END_MS = 500;
const RESOURCES = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4 };

const idle: { thread: SandboxedWorker; timer: NodeJS.Timeout }[] = [];
const waiting: (() => void)[] = [];
let alive = 0;

/** Give `use` a thread, and take it back. Rejects with the signal's reason when that comes first. */
export async function withWorker<T>(signal: AbortSignal, use: (thread: SandboxedWorker) => Promise<T>): Promise<T> {
  const thread = await borrow(signal);
  try {
    return await use(thread);
  } finally {
    await giveBack(thread);
  }
}

async function borrow(signal: AbortSignal): Promise<SandboxedWorker> {
  signal.throwIfAborted();
  const kept = idle.pop();
  if (kept) {
    clearTimeout(kept.timer);
    return kept.thread.take(signal);
  }
  if (alive < MAX_THREADS) alive++;
  else await turn(signal);
  try {
    return (await SandboxedWorker.start(signal)).take(signal);
  } catch (error) {
    free();
    throw error;
  }
}

/** Resolves when a thread has ended, whose place is then the caller's. */
function turn(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const go = (): void => {
      forget();
      resolve();
    };
    waiting.push(go);
    const forget = onAbort(signal, () => {
      waiting.splice(waiting.indexOf(go), 1);
      reject(signal.reason as Error);
    });
  });
}

function free(): void {
  const next = waiting.shift();
  if (next) next();
  else alive--;
}

async function giveBack(thread: SandboxedWorker): Promise<void> {
  if (thread.rest() && waiting.length === 0 && idle.length < MAX_IDLE) {
    const entry = { thread, timer: setTimeout(() => void drop(entry), IDLE_MS) };
    // Neither the timer nor the thread keeps a program alive that has nothing else to do; both end with it.
    entry.timer.unref();
    idle.push(entry);
    return;
  }
  const ended = thread.end().finally(free);
  // A thread in the middle of a system call ends with it; whoever asked does not wait for that.
  await settlesWithin(ended, END_MS);
}

async function drop(entry: (typeof idle)[number]): Promise<void> {
  const at = idle.indexOf(entry);
  if (at < 0) return;
  idle.splice(at, 1);
  await entry.thread.end();
  free();
}

/** A thread that answers one question after the other. */
export class SandboxedWorker {
  readonly #worker: Worker;
  #signal: AbortSignal = AbortSignal.abort();
  /** Ended, or of no more use. */
  #broken = false;
  /** Questions without their answer, and the last of them. */
  #open = 0;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(worker: Worker) {
    this.#worker = worker;
    const onBreak = (): void => void (this.#broken = true);
    // Each question listens for itself; between two of them there is nobody to tell.
    worker.on("error", onBreak).on("exit", onBreak);
  }

  /** @internal */
  static async start(signal: AbortSignal): Promise<SandboxedWorker> {
    const { Worker } = await import("node:worker_threads");
    const { workerCode, workerFiles } = await import("./worker-code.js");
    const worker = new Worker(workerCode, {
      eval: true,
      // Its code has no place on the disk from which it could find a package.
      workerData: { packageUrl: import.meta.url, files: workerFiles } satisfies WorkerData,
      // Neither our environment nor our loaders belong in there.
      env: {},
      execArgv: [],
      resourceLimits: RESOURCES,
    });
    const thread = new SandboxedWorker(worker).take(signal);
    try {
      await thread.ask("ready", {}, { ms: START_MS });
    } catch (error) {
      await thread.end();
      throw error;
    }
    return thread;
  }

  /** @internal */
  take(signal: AbortSignal): this {
    this.#signal = signal;
    this.#worker.ref();
    return this;
  }

  /** Forget what was asked; false when it cannot be used again. @internal */
  rest(): boolean {
    // A question without its answer: the thread may be at it for ever.
    if (this.#broken || this.#open > 0) return false;
    this.#worker.unref();
    return true;
  }

  /** @internal */
  async end(): Promise<void> {
    this.#broken = true;
    await this.#worker.terminate();
  }

  /**
   * Ask, and wait for `ms` at most from when it is this question's turn. `transfer` goes over to the thread, and is gone
   * here. Rejects with `WorkLimitError` when it takes too much time or memory; such a thread, and one whose caller gave
   * up, is never asked again.
   */
  ask<Name extends keyof Jobs>(
    name: Name,
    job: Jobs[Name],
    limits: { ms: number; transfer?: readonly Uint8Array[] },
  ): Promise<Answers[Name]> {
    this.#open++;
    const asked = this.#last.then(() => this.#ask(name, job, limits)).finally(() => this.#open--);
    this.#last = asked.catch(() => undefined);
    return asked;
  }

  #ask<Name extends keyof Jobs>(
    name: Name,
    job: Jobs[Name],
    limits: { ms: number; transfer?: readonly Uint8Array[] },
  ): Promise<Answers[Name]> {
    const worker = this.#worker;
    const signal = this.#signal;
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      if (this.#broken) return reject(new WorkLimitError("failed", "its thread has ended"));
      const settle = (act: () => void, answered = false): void => {
        if (!answered) this.#broken = true;
        forget();
        time.clear();
        worker.off("message", onMessage).off("error", onError).off("exit", onExit);
        act();
      };
      // After a fault nothing is known about the state of the thread's libraries.
      const onMessage = (reply: Reply): void =>
        settle(
          () => {
            if ("fault" in reply) reject(new WorkLimitError("failed", reply.fault));
            else resolve(reply.answer as Answers[Name]);
          },
          !("fault" in reply),
        );
      const onError = (error: NodeJS.ErrnoException): void => {
        const memory = error.code === "ERR_WORKER_OUT_OF_MEMORY";
        settle(() =>
          reject(
            new WorkLimitError(memory ? "memory" : "failed", memory ? "it needs too much memory" : error.message, {
              cause: error,
            }),
          ),
        );
      };
      const onExit = (): void => settle(() => reject(new WorkLimitError("failed", "its thread has ended")));
      const time = deadline(limits.ms, signal);
      const forget = onAbort(time.signal, () => {
        const late = new WorkLimitError("time", `it takes over ${limits.ms / 1000} s`);
        settle(() => reject(time.expired ? late : (signal.reason as Error)));
      });
      worker.on("message", onMessage).on("error", onError).on("exit", onExit);
      worker.postMessage({ name, job }, limits.transfer?.map((one) => one.buffer as ArrayBuffer) ?? []);
    });
  }
}
