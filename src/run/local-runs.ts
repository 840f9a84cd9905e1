import { hasCode, SessionNotFoundError, ShuttingDownError } from "../ports/errors.js";
import type { Run, RunInput } from "../ports/run.js";
import { ActiveRun } from "./active-run.js";
import { executeRun } from "./execution.js";
import { inputFromLateInstructions } from "./queue/late-instructions.js";
import type { RunQueue, QueueTicket } from "./queue/queue.js";
import type { AgentServices, RunContext, Spawned } from "./context/run-context.js";
import type { Running } from "./runs.js";
import { startRun } from "./start.js";

/** The agent's members that `LocalRuns` uses. */
export interface LocalRunsOptions {
  services: AgentServices;
  /** Starts a run, like `Agent.run`. */
  run: (input: RunInput) => Promise<Run>;
  /** Whether new runs are rejected. Subagent runs may still start. */
  isRefusing: () => boolean;
  /** Watches background processes, which a run may start. Never rejects. */
  watchProcesses: () => Promise<void>;
  /** Frees an idempotency key, like `Runs.freeKey`. */
  freeKey: (key: string) => Promise<boolean>;
}

/**
 * The runs of this process. Starts runs, tracks active ones, and starts another run for instructions that arrived too
 * late.
 */
export class LocalRuns {
  readonly #options: LocalRunsOptions;
  readonly #running = new Map<string, Running>();
  #queue: RunQueue<RunContext> | undefined;

  constructor(options: LocalRunsOptions) {
    this.#options = options;
  }

  /** Starts a run and resolves when it is active. Rejects like `Agent.run`. */
  async start(input: RunInput, ticket: QueueTicket, spawned: Spawned | undefined): Promise<Run> {
    const { services, watchProcesses, freeKey } = this.#options;
    await services.tools.load();
    void watchProcesses();
    const run = await this.#startOrQueue(input, ticket, spawned).catch(async (error: unknown) => {
      // The key of a run that died, or that ended more than a day ago, can be reused.
      if (!hasCode(error, "run_key_taken") || !(await freeKey(error.key))) throw error;
      return this.#startOrQueue(input, ticket);
    });
    const work = executeRun(run);
    const { id, sessionId, cancel, inbox } = run;
    const running: Running = { id, cancel, inbox, ended: work.catch(() => undefined) };
    this.#running.set(sessionId, running);
    const result = work.finally(() => {
      if (this.of(sessionId) === running) this.#running.delete(sessionId);
      this.#queue?.poll(sessionId);
    });
    void services.tasks.add(running.ended.then(() => this.#runLateInstructions(run, input)));
    void services.tasks.add(result);
    const active = new ActiveRun(run, result);
    // Meanwhile the run already prepares its first model request.
    await run.recorder.onDisk;
    return active;
  }

  /** The active run of a chain. */
  of(rootId: string): Running | undefined {
    return this.#running.get(rootId);
  }

  /** Cancels a queued run, like `RunQueue.cancel`. */
  unqueue(rootId: string, runId: string): { ended: Promise<unknown> } | undefined {
    return this.#queue?.cancel(rootId, runId);
  }

  /** Resolves when a queued run has left the queue, like `RunQueue.waits`. */
  waits(rootId: string, runId: string): Promise<unknown> | undefined {
    return this.#queue?.waits(rootId, runId);
  }

  /** Rejects all queued runs from now on. */
  closeQueue(): void {
    this.#queue?.close();
  }

  /** Ends the active and the queued runs of a deleted chain, and waits for them. Never rejects. */
  async stop(rootId: string): Promise<void> {
    // Otherwise the next queued run would start.
    await this.#queue?.drop(rootId, new SessionNotFoundError(rootId));
    const running = this.of(rootId);
    running?.cancel.abort(new SessionNotFoundError(rootId));
    await running?.ended;
  }

  /** Starts a run that holds its session's lease. Queues it first if the input allows that and the session is busy. */
  async #startOrQueue(input: RunInput, ticket: QueueTicket, spawned?: Spawned): Promise<RunContext> {
    const { services, isRefusing } = this.#options;
    const isQueued = input.queue === true && input.sessionId !== undefined;
    try {
      // Without a free slot the run is queued too.
      if (!isQueued || !services.limiter.full) return await startRun(services, input, undefined, spawned);
    } catch (error) {
      if (!isQueued || !hasCode(error, "session_busy")) throw error;
    }
    const { RunQueue } = await import("./queue/queue.js");
    this.#queue ??= new RunQueue<RunContext>(services);
    if (isRefusing()) throw new ShuttingDownError();
    return this.#queue.wait(input, ticket, (turn) => startRun(services, input, turn));
  }

  /** Starts a run for instructions that arrived too late, after the queued runs. Never rejects. */
  async #runLateInstructions(run: RunContext, input: RunInput): Promise<void> {
    try {
      const next = await inputFromLateInstructions(run, input);
      if (next && !this.#options.isRefusing()) await this.#options.run(next);
    } catch (error) {
      // The session was deleted, so there is nothing to continue.
      if (hasCode(error, "session_not_found")) return;
      const names = { session: run.sessionId, error };
      run.logger.warn("late instructions did not start another run", names);
    }
  }
}
