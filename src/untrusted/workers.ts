import { availableParallelism } from "node:os";
import type { Worker } from "node:worker_threads";
import { onAbort, settlesWithin } from "../base/abort.js";
import { WorkLimitError } from "../ports/errors.js";
import type { Answers, Jobs, Reply } from "./jobs.js";
import type { WorkerData } from "./worker-data.js";

/**
 * Runs all work on untrusted input: web pages, patterns and folders of repositories, regular expressions of models.
 *
 * Each of these inputs can make a job run forever, and only the end of the thread stops the job. Each job therefore
 * runs in a worker thread with limits on time and memory, and ends when the caller's signal aborts.
 */

/** Maximum concurrent threads; further callers wait. Limits the memory and the CPU share taken from the server. */
const MAX_THREADS = Math.max(4, 2 * availableParallelism());
/** Maximum idle threads that are kept, because agents call tools in quick succession. */
const MAX_IDLE_THREADS = 2;
/** Time after which an idle thread ends, in ms. */
const IDLE_TIMEOUT_MS = 10_000;
/** Time limit for a thread to load its code, in ms. Only a machine without free memory takes that long. */
const START_TIMEOUT_MS = 30_000;
/** Time to wait for a thread to end, in ms. */
const END_TIMEOUT_MS = 500;
/** Maximum factor by which a job's time limit grows while this process gets too little CPU time. */
const MAX_LIMIT_FACTOR = 4;
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4 };

const idleThreads: { thread: SandboxedWorker; timer: NodeJS.Timeout }[] = [];
const slotWaiters: (() => void)[] = [];
let threadCount = 0;

/** Calls `use` with a thread and takes the thread back afterwards. Rejects with the signal's reason on abort. */
export async function withWorker<T>(signal: AbortSignal, use: (thread: SandboxedWorker) => Promise<T>): Promise<T> {
  const thread = await acquireWorker(signal);
  try {
    return await use(thread);
  } finally {
    await returnWorker(thread);
  }
}

async function acquireWorker(signal: AbortSignal): Promise<SandboxedWorker> {
  signal.throwIfAborted();
  const idleEntry = idleThreads.pop();
  if (idleEntry) {
    clearTimeout(idleEntry.timer);
    return idleEntry.thread.assign(signal);
  }
  if (threadCount < MAX_THREADS) threadCount++;
  else await waitForSlot(signal);
  try {
    return (await SandboxedWorker.start(signal)).assign(signal);
  } catch (error) {
    releaseSlot();
    throw error;
  }
}

/** Resolves when a thread has ended; the caller takes its slot. */
function waitForSlot(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const takeSlot = (): void => {
      removeListener();
      resolve();
    };
    slotWaiters.push(takeSlot);
    const removeListener = onAbort(signal, () => {
      slotWaiters.splice(slotWaiters.indexOf(takeSlot), 1);
      reject(signal.reason as Error);
    });
  });
}

function releaseSlot(): void {
  const nextWaiter = slotWaiters.shift();
  if (nextWaiter) nextWaiter();
  else threadCount--;
}

async function returnWorker(thread: SandboxedWorker): Promise<void> {
  if (thread.release() && slotWaiters.length === 0 && idleThreads.length < MAX_IDLE_THREADS) {
    const entry = { thread, timer: setTimeout(() => void dropIdleThread(entry), IDLE_TIMEOUT_MS) };
    // Neither the timer nor the thread keeps the process alive. Both end with the process.
    entry.timer.unref();
    idleThreads.push(entry);
    return;
  }
  const threadEnd = thread.end().finally(releaseSlot);
  // A thread in a system call ends only after that call. The caller does not wait longer than `END_TIMEOUT_MS`.
  await settlesWithin(threadEnd, END_TIMEOUT_MS);
}

async function dropIdleThread(entry: (typeof idleThreads)[number]): Promise<void> {
  const index = idleThreads.indexOf(entry);
  if (index < 0) return;
  idleThreads.splice(index, 1);
  await entry.thread.end();
  releaseSlot();
}

/** A worker thread that processes one job after another. */
export class SandboxedWorker {
  readonly #worker: Worker;
  #signal: AbortSignal = AbortSignal.abort();
  /** Whether the thread has ended or cannot be used again. */
  #isBroken = false;
  /** Number of unanswered jobs. */
  #pendingJobCount = 0;
  /** Settles after the last job that was sent, and never rejects. */
  #lastJob: Promise<unknown> = Promise.resolve();

  private constructor(worker: Worker) {
    this.#worker = worker;
    const onBreak = (): void => void (this.#isBroken = true);
    // Each job has its own listeners; between jobs these errors need no report.
    worker.on("error", onBreak).on("exit", onBreak);
  }

  /** @internal */
  static async start(signal: AbortSignal): Promise<SandboxedWorker> {
    const { Worker } = await import("node:worker_threads");
    const { workerCode, workerFiles } = await import("./worker-code.js");
    const worker = new Worker(workerCode, {
      eval: true,
      // The code has no path on disk from which packages could be resolved.
      workerData: { packageUrl: import.meta.url, files: workerFiles } satisfies WorkerData,
      // The thread gets neither the environment nor the loaders of this process.
      env: {},
      execArgv: [],
      resourceLimits: RESOURCE_LIMITS,
    });
    const thread = new SandboxedWorker(worker).assign(signal);
    try {
      await thread.runJob("ready", {}, { ms: START_TIMEOUT_MS });
    } catch (error) {
      await thread.end();
      throw error;
    }
    return thread;
  }

  /** @internal */
  assign(signal: AbortSignal): this {
    this.#signal = signal;
    this.#worker.ref();
    return this;
  }

  /** Ends the use by a caller. Returns false if the thread cannot be used again. @internal */
  release(): boolean {
    // An unanswered job may run forever.
    if (this.#isBroken || this.#pendingJobCount > 0) return false;
    this.#worker.unref();
    return true;
  }

  /** @internal */
  async end(): Promise<void> {
    this.#isBroken = true;
    await this.#worker.terminate();
  }

  /**
   * Sends a job and waits at most `ms`, counted from the end of the previous job, or longer on a busy machine (see
   * `startTimer`). Buffers in `transfer` move to the thread and become unusable in this thread.
   *
   * Rejects with `WorkLimitError` if the job takes too much time or memory. After such an error, or after an abort by
   * the caller, the thread is not used again.
   */
  runJob<Name extends keyof Jobs>(
    name: Name,
    job: Jobs[Name],
    limits: { ms: number; transfer?: readonly Uint8Array[] },
  ): Promise<Answers[Name]> {
    this.#pendingJobCount++;
    const answer = this.#lastJob.then(() => this.#sendJob(name, job, limits)).finally(() => this.#pendingJobCount--);
    this.#lastJob = answer.catch(() => undefined);
    return answer;
  }

  #sendJob<Name extends keyof Jobs>(
    name: Name,
    job: Jobs[Name],
    limits: { ms: number; transfer?: readonly Uint8Array[] },
  ): Promise<Answers[Name]> {
    const worker = this.#worker;
    const signal = this.#signal;
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      if (this.#isBroken) return reject(new WorkLimitError("failed", "its thread has ended"));
      const settle = (respond: () => void, isAnswered = false): void => {
        if (!isAnswered) this.#isBroken = true;
        removeListener();
        stopTimer();
        worker.off("message", onMessage).off("error", onError).off("exit", onExit);
        respond();
      };
      // After an error, the state of the thread's libraries is unknown.
      const onMessage = (reply: Reply): void =>
        settle(
          () => {
            if ("errorMessage" in reply) reject(new WorkLimitError("failed", reply.errorMessage));
            else resolve(reply.answer as Answers[Name]);
          },
          !("errorMessage" in reply),
        );
      const onError = (error: NodeJS.ErrnoException): void => {
        const isOutOfMemory = error.code === "ERR_WORKER_OUT_OF_MEMORY";
        settle(() =>
          reject(
            new WorkLimitError(
              isOutOfMemory ? "memory" : "failed",
              isOutOfMemory ? "it needs too much memory" : error.message,
              {
                cause: error,
              },
            ),
          ),
        );
      };
      const onExit = (): void => settle(() => reject(new WorkLimitError("failed", "its thread has ended")));
      const stopTimer = startTimer(limits.ms, () =>
        settle(() => reject(new WorkLimitError("time", `it takes over ${limits.ms / 1000} s`))),
      );
      const removeListener = onAbort(signal, () => settle(() => reject(signal.reason as Error)));
      worker.on("message", onMessage).on("error", onError).on("exit", onExit);
      worker.postMessage({ name, job }, limits.transfer?.map((bytes) => bytes.buffer as ArrayBuffer) ?? []);
    });
  }
}

/**
 * Calls `expire` after `ms`. While this process has had less CPU time than that, a job cannot have used its time: on a
 * busy machine, and after a suspension, the rest is added, up to `MAX_LIMIT_FACTOR`. The returned function stops the
 * timer.
 */
function startTimer(ms: number, expire: () => void): () => void {
  const startedMs = performance.now();
  const startCpu = process.cpuUsage();
  const check = (): void => {
    const { user, system } = process.cpuUsage(startCpu);
    const unusedMs = ms - (user + system) / 1000;
    const remainingMs = Math.min(unusedMs, startedMs + MAX_LIMIT_FACTOR * ms - performance.now());
    if (remainingMs > 0) timer = setTimeout(check, Math.ceil(remainingMs));
    else expire();
  };
  let timer = setTimeout(check, ms);
  return () => clearTimeout(timer);
}
