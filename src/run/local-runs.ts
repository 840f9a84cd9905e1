import { hasCode, SessionNotFoundError, ShuttingDownError } from "../ports/errors.js";
import type { Run, RunInput } from "../ports/run.js";
import { ActiveRun } from "./active-run.js";
import { executeRun } from "./execution.js";
import { nextInput } from "./queue/late-instructions.js";
import type { RunQueue, Ticket } from "./queue/queue.js";
import type { AgentParts, RunContext, Spawned } from "./context/run-context.js";
import type { Running } from "./runs.js";
import { startRun } from "./start.js";

/** What `RunsHere` needs of the agent that it belongs to. */
export interface RunsHereOptions {
  parts: AgentParts;
  /** As `Agent.run`. */
  run: (input: RunInput) => Promise<Run>;
  /** Whether no run may begin any more, but those of helpers. */
  isRefusing: () => boolean;
  /** A run may begin what goes on beside its calls. Never rejects. */
  heed: () => Promise<void>;
  /** As `Runs.freeKey`. */
  freeKey: (key: string) => Promise<boolean>;
}

/** The runs of this process: each is begun here, known while it goes on, and followed by what came too late for it. */
export class RunsHere {
  readonly #options: RunsHereOptions;
  readonly #running = new Map<string, Running>();
  #queue: RunQueue<RunContext> | undefined;

  constructor(options: RunsHereOptions) {
    this.#options = options;
  }

  /** Rejects as `Agent.run`. */
  async start(input: RunInput, ticket: Ticket, spawned: Spawned | undefined): Promise<Run> {
    const { parts, heed, freeKey } = this.#options;
    await parts.tools.load();
    void heed();
    const run = await this.#begin(input, ticket, spawned).catch(async (error: unknown) => {
      // Whose run died, or ended a day ago, may be used again.
      if (!hasCode(error, "run_key_taken") || !(await freeKey(error.key))) throw error;
      return this.#begin(input, ticket);
    });
    const work = executeRun(run);
    const { id, sessionId, cancel, inbox } = run;
    const running: Running = { id, cancel, inbox, ended: work.catch(() => undefined) };
    this.#running.set(sessionId, running);
    const result = work.finally(() => {
      if (this.of(sessionId) === running) this.#running.delete(sessionId);
      this.#queue?.look(sessionId);
    });
    void parts.tasks.add(running.ended.then(() => this.#goOn(run, input)));
    void parts.tasks.add(result);
    const active = new ActiveRun(run, result);
    // The run has begun to make ready what it asks the model.
    await run.recorder.onDisk;
    return active;
  }

  /** The run of a chain that goes on. */
  of(rootId: string): Running | undefined {
    return this.#running.get(rootId);
  }

  /** As `RunQueue.cancel`. */
  unqueue(rootId: string, runId: string): { ended: Promise<unknown> } | undefined {
    return this.#queue?.cancel(rootId, runId);
  }

  /** As `RunQueue.waits`. */
  waits(rootId: string, runId: string): Promise<unknown> | undefined {
    return this.#queue?.waits(rootId, runId);
  }

  /** Nobody waits in line from now on. */
  closeLine(): void {
    this.#queue?.close();
  }

  /** End the run of a chain that is deleted, and those that wait for it, and wait for their end. Never rejects. */
  async stop(rootId: string): Promise<void> {
    // Or the next in line would begin.
    await this.#queue?.drop(rootId, new SessionNotFoundError(rootId));
    const running = this.of(rootId);
    running?.cancel.abort(new SessionNotFoundError(rootId));
    await running?.ended;
  }

  /** A run that holds its session, which it waits for where that is wanted. */
  async #begin(input: RunInput, ticket: Ticket, spawned?: Spawned): Promise<RunContext> {
    const { parts, isRefusing } = this.#options;
    const isQueued = input.queue === true && input.sessionId !== undefined;
    try {
      // Where there is no place, it waits for that too.
      if (!isQueued || !parts.places.full) return await startRun(parts, input, undefined, spawned);
    } catch (error) {
      if (!isQueued || !hasCode(error, "session_busy")) throw error;
    }
    const { RunQueue } = await import("./queue/queue.js");
    this.#queue ??= new RunQueue<RunContext>(parts);
    if (isRefusing()) throw new ShuttingDownError();
    return this.#queue.wait(input, ticket, (turn) => startRun(parts, input, turn));
  }

  /** What came too late for a run is the session's next prompt, behind those that wait in line. Never rejects. */
  async #goOn(run: RunContext, input: RunInput): Promise<void> {
    try {
      const next = await nextInput(run, input);
      if (next && !this.#options.isRefusing()) await this.#options.run(next);
    } catch (error) {
      // Of a session that is gone nothing goes on.
      if (hasCode(error, "session_not_found")) return;
      const names = { session: run.sessionId, error };
      run.logger.warn("what a run was told too late did not begin the next one", names);
    }
  }
}
