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
      if (sessionId === rootId && purpose !== "title") this.#lastUsage = usage;
    });
  }

  /** The usage so far; undefined if the run used nothing. Never rejects. */
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
  #run: Pick<RunRecord, "id" | "iterations"> & { tokens: number } = { id: "", iterations: 0, tokens: 0 };
  /** Estimated tokens of the last model call. */
  #contextTokens = 0;

  /** Records a changed run. */
  record({ id, iterations, usage }: RunRecord): void {
    if (this.#run.id !== id) {
      this.#run = { id, iterations: 0, tokens: 0 };
      this.#contextTokens = 0;
    }
    const tokens = usage.totalTokens - this.#run.tokens;
    if (tokens <= 0) return;
    // Average over the calls since the last record.
    this.#contextTokens = tokens / Math.max(1, iterations - this.#run.iterations);
    this.#run = { id, iterations, tokens: usage.totalTokens };
  }

  /** The usage of the recorded run; undefined if it used nothing. */
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
