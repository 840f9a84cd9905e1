import type { AgentEvent } from "../ports/events.js";
import type { Model } from "../ports/model-provider.js";
import type { Run, RunResult } from "../ports/run.js";
import type { RunContext } from "./context/run-context.js";

/** An active run, as its caller sees it. */
export class ActiveRun implements Run {
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
