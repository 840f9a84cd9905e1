import { hasCode, SessionNotFoundError, ShuttingDownError } from "../ports/errors.js";
import type { AgentEvent } from "../ports/events.js";
import type { Model } from "../ports/model-provider.js";
import type { Run, RunInput, RunResult } from "../ports/run.js";
import { executeRun } from "./loop.js";
import { createLateInstructionsInput } from "./queue/late-instructions.js";
import type { RunQueue, QueueTicket } from "./queue/queue.js";
import type { AgentServices, SubagentCall } from "./context/agent-services.js";
import type { RunContext } from "./context/run-context.js";
import type { LocalRun } from "./queue/runs.js";
import { startRun } from "./start.js";

/** The agent's members that `LocalRuns` uses. */
export interface LocalRunsOptions {
  services: AgentServices;
  /** Starts a run, like `Agent.run`. */
  run: (input: RunInput) => Promise<Run>;
  /** Whether new runs are rejected. Runs of subagents may still start. */
  isRejectingRuns: () => boolean;
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
  readonly #activeRuns = new Map<string, LocalRun>();
  #queue: RunQueue<RunContext> | undefined;

  constructor(options: LocalRunsOptions) {
    this.#options = options;
  }

  /** Starts a run and resolves when it is active. Rejects like `Agent.run`. */
  async start(input: RunInput, ticket: QueueTicket, parentCall: SubagentCall | undefined): Promise<Run> {
    const { services, watchProcesses, freeKey } = this.#options;
    await services.tools.agentTools.load();
    void watchProcesses();
    const run = await this.#startOrQueue(input, ticket, parentCall).catch(async (error: unknown) => {
      // The key of a run that died, or that ended more than a day ago, can be reused.
      if (!hasCode(error, "run_key_taken") || !(await freeKey(error.key))) throw error;
      return this.#startOrQueue(input, ticket);
    });
    const work = executeRun(run);
    const { id, sessionId } = run.info;
    const localRun: LocalRun = {
      id,
      cancel: run.cancel,
      inbox: run.channels.inbox,
      completion: work.catch(() => undefined),
    };
    this.#activeRuns.set(sessionId, localRun);
    const result = work.finally(() => {
      if (this.find(sessionId) === localRun) this.#activeRuns.delete(sessionId);
      this.#queue?.poll(sessionId);
    });
    void services.background.tasks.add(localRun.completion.then(() => this.#runLateInstructions(run, input)));
    void services.background.tasks.add(result);
    const activeRun = new ActiveRun(run, result);
    // The run prepares its first model request during this write.
    await run.session.recorder.onDisk;
    return activeRun;
  }

  /** Returns the active run of a chain in this process; undefined if there is none. */
  find(rootId: string): LocalRun | undefined {
    return this.#activeRuns.get(rootId);
  }

  /** Cancels a queued run, like `RunQueue.cancel`. */
  cancelQueued(rootId: string, runId: string): { completion: Promise<unknown> } | undefined {
    return this.#queue?.cancel(rootId, runId);
  }

  /** Resolves when a queued run has left the queue, like `RunQueue.waitUntilDequeued`. */
  waitUntilDequeued(rootId: string, runId: string): Promise<unknown> | undefined {
    return this.#queue?.waitUntilDequeued(rootId, runId);
  }

  /** Rejects all queued runs from now on. */
  closeQueue(): void {
    this.#queue?.close();
  }

  /** Ends the active and the queued runs of a deleted chain, and waits for them. Never rejects. */
  async stop(rootId: string): Promise<void> {
    // Otherwise the next queued run would start.
    await this.#queue?.cancelAll(rootId, new SessionNotFoundError(rootId));
    const localRun = this.find(rootId);
    localRun?.cancel.abort(new SessionNotFoundError(rootId));
    await localRun?.completion;
  }

  /** Starts a run that holds its session's lease. Queues it first if the input allows that and the session is busy. */
  async #startOrQueue(input: RunInput, ticket: QueueTicket, parentCall?: SubagentCall): Promise<RunContext> {
    const { services, isRejectingRuns } = this.#options;
    const canQueue = input.queue === true && input.sessionId !== undefined;
    try {
      // Without a free slot the run is queued too.
      if (!canQueue || !services.budget.limiter.isFull) return await startRun(services, input, undefined, parentCall);
    } catch (error) {
      if (!canQueue || !hasCode(error, "session_busy")) throw error;
    }
    const { RunQueue } = await import("./queue/queue.js");
    this.#queue ??= new RunQueue<RunContext>({
      store: services.store,
      limiter: services.budget.limiter,
      tasks: services.background.tasks,
      logger: services.channels.logger,
    });
    if (isRejectingRuns()) throw new ShuttingDownError();
    return this.#queue.enqueue(input, ticket, (handover) => startRun(services, input, handover));
  }

  /** Starts a run for instructions that arrived too late, after the queued runs. Never rejects. */
  async #runLateInstructions(run: RunContext, input: RunInput): Promise<void> {
    try {
      const nextInput = await createLateInstructionsInput(
        run.info.sessionId,
        run.channels.inbox,
        run.session.recorder,
        input,
      );
      if (nextInput && !this.#options.isRejectingRuns()) await this.#options.run(nextInput);
    } catch (error) {
      // The session was deleted, so there is nothing to continue.
      if (hasCode(error, "session_not_found")) return;
      const fields = { session: run.info.sessionId, error };
      run.channels.logger.warn("late instructions did not start another run", fields);
    }
  }
}

/** An active run, as its caller sees it. */
class ActiveRun implements Run {
  readonly result: Promise<RunResult>;
  readonly #run: RunContext;

  constructor(run: RunContext, result: Promise<RunResult>) {
    this.#run = run;
    this.result = result;
    // A caller that only reads events must not crash the process through an unhandled rejection.
    this.result.catch(() => undefined);
  }

  get id(): string {
    return this.#run.info.id;
  }
  get sessionId(): string {
    return this.#run.info.sessionId;
  }
  get provider(): string {
    return this.#run.model.provider.name;
  }
  get model(): Model {
    return this.#run.model.model;
  }
  get after(): number {
    return this.#run.session.recorder.run.after;
  }
  get lastSeq(): number {
    return this.#run.session.recorder.lastSeq;
  }
  get droppedTokenEvents(): number {
    return this.#run.channels.events.droppedTokenEvents;
  }

  [Symbol.asyncIterator](): AsyncIterator<AgentEvent> {
    return this.#run.channels.events;
  }
}
