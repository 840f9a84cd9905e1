import type { Agent, Logger, Run, RunRecord, Usage } from "gantry";
import { toUsageUpdate } from "./updates.js";
import type { Profile, SessionUpdate } from "./wire.js";

/** Usage of a run before its end, for runs that do not return a result. */
export class RunUsage {
  readonly #agent: Agent;
  readonly #rootId: string;
  readonly #unsubscribe: () => void;
  #lastUsage: Usage | undefined;

  constructor(agent: Agent, rootId: string) {
    this.#agent = agent;
    this.#rootId = rootId;
    this.#unsubscribe = agent.on("model.called", ({ sessionId, usage, purpose }) => {
      if (sessionId === rootId && purpose !== "title" && purpose !== "search") this.#lastUsage = usage;
    });
  }

  /** The usage so far as an update; undefined if the run used nothing, or the session cannot be read. Never rejects. */
  async readUpdate(run: Run | undefined, profile: Profile, logger: Logger): Promise<SessionUpdate | undefined> {
    const usage = this.#lastUsage;
    if (!usage) return undefined;
    try {
      const session = await this.#agent.sessions.get(this.#rootId);
      const context = { used: usage.totalTokens, size: run?.model.contextWindow };
      return session && toUsageUpdate({ context, usage, sessionUsage: session.usage }, profile);
    } catch (error) {
      logger.debug("run usage not sent; session read failed", { error });
      return undefined;
    }
  }

  end(): void {
    this.#unsubscribe();
  }
}

/** Usage of runs of other clients, from their stored records. */
export class StoredRunUsage {
  /** The last recorded state; `""` as id before the first record. */
  #recordedRun: Pick<RunRecord, "id" | "iterations"> & { totalTokens: number } = {
    id: "",
    iterations: 0,
    totalTokens: 0,
  };
  /** Estimated tokens of the last model call. */
  #contextTokens = 0;

  /** Records the current state of a run. */
  record({ id, iterations, usage }: RunRecord): void {
    if (this.#recordedRun.id !== id) {
      this.#recordedRun = { id, iterations: 0, totalTokens: 0 };
      this.#contextTokens = 0;
    }
    const addedTokens = usage.totalTokens - this.#recordedRun.totalTokens;
    if (addedTokens <= 0) return;
    // Average over the calls since the last record.
    this.#contextTokens = addedTokens / Math.max(1, iterations - this.#recordedRun.iterations);
    this.#recordedRun = { id, iterations, totalTokens: usage.totalTokens };
  }

  /** The usage of the recorded run; undefined if the run used nothing. */
  toUpdate(
    { provider, model, usage }: RunRecord,
    agent: Agent,
    sessionUsage: Usage | undefined,
    profile: Profile,
  ): SessionUpdate | undefined {
    const modelEntry = agent.models.entries().find((entry) => entry.provider === provider && entry.model.id === model);
    const context = { used: this.#contextTokens, size: modelEntry?.model.contextWindow };
    return toUsageUpdate({ context, usage, sessionUsage: sessionUsage ?? usage }, profile);
  }
}
