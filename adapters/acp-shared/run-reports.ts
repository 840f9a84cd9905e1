import type { Agent, RunRecord, Usage } from "gantry";
import type { OpenSession } from "./open-session.js";
import type { ClientProfile } from "./profile.js";
import { StoredRunUsage } from "./run-usage.js";
import type { UpdateBuilder } from "./update-builder.js";
import { toRetryUpdates } from "./updates.js";
import type { SessionUpdate } from "./wire.js";

/** Dependencies of `RunReports`. */
export interface RunReportsDependencies extends ClientProfile {
  agent: Agent;
  openSession: OpenSession;
  updateBuilder: UpdateBuilder;
}

/** The end of a run, to report when `isDue` returns true: after the run's last message was sent. */
interface PendingEnd {
  run: RunRecord;
  isDue: () => boolean;
}

/** Reports retries and ends of the runs of other clients. The report of an end follows the last message of its run. */
export class RunReports {
  readonly #dependencies: RunReportsDependencies;
  readonly #runUsage = new StoredRunUsage();
  /** Run id and time of the last reported retry of a model call. */
  #lastRetryKey = "";
  #pendingEnd: PendingEnd | undefined;
  /** Id of the newest run that ended before the watch, whose end was reported, or that this client started. */
  #endedRunId: string | undefined;

  constructor(dependencies: RunReportsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Records the state of a run, for the usage that is reported at its end. */
  record(run: RunRecord): void {
    this.#runUsage.record(run);
  }

  /** Returns the update for the retry that a run waits for, as far as the client shows it. Each is reported once. */
  toRetryUpdates({ id, retry }: RunRecord): SessionUpdate[] {
    const retryKey = retry ? `${id} ${retry.nextAttemptAt}` : this.#lastRetryKey;
    const isNew = retryKey !== this.#lastRetryKey;
    this.#lastRetryKey = retryKey;
    if (!retry || !isNew) return [];
    return toRetryUpdates(retry.reason, Date.parse(retry.nextAttemptAt) - Date.now(), this.#dependencies);
  }

  /** Omits the report of a run that has ended. */
  skipEnd(run: RunRecord): void {
    this.#endedRunId = run.id;
  }

  /**
   * Prepares the report of a run that has ended. `isFirst`: the run is that of the first state of the watch. If the
   * client has all its messages, the run ended before the watch began and is not reported.
   */
  async prepareEnd(run: RunRecord, isFirst: boolean): Promise<void> {
    if (this.#endedRunId === run.id || this.#pendingEnd?.run.id === run.id) return;
    const { agent, openSession, updateBuilder } = this.#dependencies;
    const after = Math.max(0, updateBuilder.lastSeq - 1);
    const [lastMessage] = (await agent.sessions.messages(openSession.root, { after })).slice(-1);
    const isLastSent = () => !lastMessage || updateBuilder.hasReported(lastMessage);
    if (isFirst && isLastSent()) this.#endedRunId = run.id;
    else this.#pendingEnd = { run, isDue: isLastSent };
  }

  /** Returns the updates that report a prepared end, once its run's last message was sent; otherwise none. */
  takeEndUpdates(sessionUsage: Usage | undefined): SessionUpdate[] {
    if (!this.#pendingEnd?.isDue()) return [];
    const { run } = this.#pendingEnd;
    const { agent, profile, updateBuilder } = this.#dependencies;
    this.#pendingEnd = undefined;
    this.#endedRunId = run.id;
    const usage = this.#runUsage.toUpdate(run, agent, sessionUsage, profile);
    return [...updateBuilder.failOpenCalls(), ...(usage ? [usage] : [])];
  }
}
