import { newId } from "../base/ids.js";
import { hasCode, SessionNotFoundError, ShuttingDownError } from "../ports/errors.js";
import type { Run, RunInput, RunRecord, RunResult } from "../ports/run.js";
import type { SessionContext } from "../ports/session-context.js";
import type { UserCommand, UserCommandResult } from "../ports/user-command.js";
import { checkInput } from "./input/run-input.js";
import { executeRun } from "./loop.js";
import type { RunQueue, QueueTicket } from "./queue/queue.js";
import type { AgentServices, SubagentCall } from "./context/agent-services.js";
import type { RunContext } from "./context/run-context.js";
import type { LocalRun } from "./queue/runs.js";
import { startRun } from "./start.js";

/** The agent's members that `LocalRuns` uses. */
export interface LocalRunsOptions {
  services: AgentServices;
  /** Whether new runs are rejected. Runs of subagents may still start. */
  isRejectingRuns: () => boolean;
  /** Like `Runs.findInterruptedRun`. */
  findInterruptedRun: (key: string) => Promise<RunRecord | undefined>;
  /** Frees an idempotency key, like `Runs.freeKey`. */
  freeKey: (key: string) => Promise<boolean>;
}

type RunRequest = Omit<Parameters<typeof startRun>[1], "handover">;

interface ActiveRun extends LocalRun {
  readonly caller: RunContext["caller"];
}

/**
 * The runs of this process. Starts runs, tracks active ones, and starts another run for instructions that arrived too
 * late.
 */
export class LocalRuns {
  readonly #options: LocalRunsOptions;
  readonly #activeRuns = new Map<string, ActiveRun>();
  /** The runs that wait for their session; undefined before the first one. */
  queue: RunQueue<RunContext> | undefined;

  constructor(options: LocalRunsOptions) {
    this.#options = options;
  }

  /** Starts a run and resolves when it is active. Rejects like `Agent.run`. */
  async start(input: RunInput, ticket: QueueTicket, parentCall: SubagentCall | undefined): Promise<Run> {
    return this.#start({ input, parentCall, isLateRun: false }, ticket);
  }

  async #start(request: RunRequest, ticket: QueueTicket): Promise<Run> {
    const { input } = request;
    checkInput(input);
    const { services, freeKey, findInterruptedRun } = this.#options;
    await services.tools.agentTools.load();
    const run = await this.#startOrQueue(request, ticket).catch(async (error: unknown) => {
      if (!hasCode(error, "run_key_taken")) throw error;
      const interruptedRun = input.sessionId === undefined ? await findInterruptedRun(error.key) : undefined;
      if (interruptedRun)
        return this.#startOrQueue({ ...request, input: { ...input, sessionId: interruptedRun.sessionId } }, ticket);
      // The key of a run that died, or that ended more than a day ago, can be reused.
      if (!(await freeKey(error.key))) throw error;
      return this.#startOrQueue(request, ticket);
    });
    const work = executeRun(run);
    const { id, sessionId } = run.info;
    const localRun: ActiveRun = {
      id,
      cancel: run.cancel,
      inbox: run.channels.inbox,
      completion: work.catch(() => undefined),
      caller: run.caller,
    };
    this.#activeRuns.set(sessionId, localRun);
    const result = work.finally(() => {
      if (this.find(sessionId) === localRun) this.#activeRuns.delete(sessionId);
      this.queue?.poll(sessionId);
    });
    void services.background.tasks.add(localRun.completion.then(() => this.#runLateSteering(run, input)));
    void services.background.tasks.add(result);
    // A caller that only reads events must not crash the process through an unhandled rejection.
    result.catch(() => undefined);
    // The run prepares its first model request during this write.
    await run.session.recorder.onDisk;
    return toActiveRun(run, result);
  }

  /** Returns the active run of a chain in this process; undefined if there is none. */
  find(rootId: string): ActiveRun | undefined {
    return this.#activeRuns.get(rootId);
  }

  /** Like `Sessions.context`. */
  async measureContext(id: string, signal?: AbortSignal): Promise<SessionContext> {
    const { measureContext } = await import("./session-context.js");
    return measureContext(this.#options.services, id, (rootId) => this.find(rootId)?.caller, signal);
  }

  /** Like `Sessions.runCommand`. */
  async runCommand(id: string, command: UserCommand): Promise<UserCommandResult> {
    const { services, isRejectingRuns } = this.#options;
    const { runUserCommand } = await import("./user-command.js");
    if (isRejectingRuns()) throw new ShuttingDownError();
    return services.background.tasks.add(runUserCommand(services, id, command));
  }

  /** Ends the active and the queued runs of a deleted chain, and waits for them. Never rejects. */
  async stop(rootId: string): Promise<void> {
    // Otherwise the next queued run would start.
    await this.queue?.cancelAll(rootId, new SessionNotFoundError(rootId));
    this.#options.services.caches.lateSteering.delete(rootId);
    const localRun = this.find(rootId);
    localRun?.cancel.abort(new SessionNotFoundError(rootId));
    await localRun?.completion;
  }

  /** Starts a run that holds its session's lease. Queues it first if the input allows that and the session is busy. */
  async #startOrQueue(request: RunRequest, ticket: QueueTicket): Promise<RunContext> {
    const { input } = request;
    const { services, isRejectingRuns } = this.#options;
    const canQueue = input.queue === true && input.sessionId !== undefined;
    // A late run must not take the lease that the next queued run is about to take.
    const isBehind = request.isLateRun && this.queue?.has(input.sessionId ?? "") === true;
    try {
      // Without a free slot the run is queued too.
      if (!canQueue || !(isBehind || services.budget.limiter.isFull))
        return await startRun(services, { ...request, handover: undefined });
    } catch (error) {
      if (!canQueue || !hasCode(error, "session_busy")) throw error;
    }
    const { RunQueue } = await import("./queue/queue.js");
    this.queue ??= new RunQueue<RunContext>({
      store: services.store,
      limiter: services.budget.limiter,
      tasks: services.background.tasks,
      logger: services.channels.logger,
    });
    if (isRejectingRuns()) throw new ShuttingDownError();
    return this.queue.enqueue(input, ticket, (handover) => startRun(services, { ...request, handover }));
  }

  /** Starts a run for the steering instructions that a run did not read, after the queued runs. Never rejects. */
  async #runLateSteering({ info: { sessionId }, channels, session }: RunContext, input: RunInput): Promise<void> {
    const { services, isRejectingRuns } = this.#options;
    const { store, recorder } = session;
    try {
      const instructions = await channels.inbox.readRemaining();
      if (instructions.length === 0) return;
      const { createLateRunInput, dropSteering } = await import("./queue/late-steering.js");
      const nextInput = await createLateRunInput(instructions, store, recorder.run, input);
      if (!nextInput || isRejectingRuns()) return;
      const ticket = { id: newId(), requestedAtMs: Date.now() };
      const request = { input: nextInput, parentCall: undefined, isLateRun: true };
      await this.#start(request, ticket).catch(async (error: unknown) => {
        // A person cancelled the queued run.
        if (!hasCode(error, "run_cancelled")) throw error;
        await dropSteering(store, recorder.run);
      });
    } catch (error) {
      // The session was deleted, so there is nothing to continue.
      if (hasCode(error, "session_not_found")) return;
      services.caches.lateSteering.add(sessionId);
      const message = "late steering messages did not start a run; the session's next run reads them";
      channels.logger.warn(message, { session: sessionId, error });
    }
  }
}

function toActiveRun({ info, model, session, channels }: RunContext, result: Promise<RunResult>): Run {
  return {
    id: info.id,
    sessionId: info.sessionId,
    provider: model.provider.name,
    model: model.model,
    after: session.recorder.run.after,
    result,
    get lastSeq() {
      return session.recorder.lastSeq;
    },
    get droppedTokenEvents() {
      return channels.events.droppedTokenEvents;
    },
    [Symbol.asyncIterator]: () => channels.events,
  };
}
