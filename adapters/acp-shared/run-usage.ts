import type { Agent, Logger, Run, RunRecord, Usage } from "gantry";
import { usageUpdate } from "./updates.js";
import type { Profile, SessionUpdate } from "./wire.js";

/** Usage of a run before its end, for runs that do not return a result. */
export class RunUsage {
  readonly #agent: Agent;
  readonly #rootId: string;
  readonly #stop: () => void;
  #last: Usage | undefined;

  constructor(agent: Agent, rootId: string) {
    this.#agent = agent;
    this.#rootId = rootId;
    this.#stop = agent.on("model.called", ({ sessionId, usage, purpose }) => {
      if (sessionId === rootId && purpose !== "title") this.#last = usage;
    });
  }

  /** The usage so far; undefined if the run used nothing. Never rejects. */
  async update(run: Run | undefined, profile: Profile, logger: Logger): Promise<SessionUpdate | undefined> {
    const usage = this.#last;
    if (!usage) return undefined;
    try {
      const session = await this.#agent.sessions.get(this.#rootId);
      const context = { used: usage.totalTokens, size: run?.model.contextWindow };
      return session && usageUpdate({ context, usage, sessionUsage: session.usage }, profile);
    } catch (error) {
      logger.debug("run usage not sent; session read failed", { error });
      return undefined;
    }
  }

  end(): void {
    this.#stop();
  }
}

/** Usage of runs of other clients, from their stored records. */
export class StoredRunUsage {
  #run: Pick<RunRecord, "id" | "iterations"> & { tokens: number } = { id: "", iterations: 0, tokens: 0 };
  /** Estimated tokens of the last model call. */
  #used = 0;

  /** Records a changed run. */
  record({ id, iterations, usage }: RunRecord): void {
    if (this.#run.id !== id) {
      this.#run = { id, iterations: 0, tokens: 0 };
      this.#used = 0;
    }
    const tokens = usage.totalTokens - this.#run.tokens;
    if (tokens <= 0) return;
    // Average over the calls since the last record.
    this.#used = tokens / Math.max(1, iterations - this.#run.iterations);
    this.#run = { id, iterations, tokens: usage.totalTokens };
  }

  /** The usage of the recorded run; undefined if it used nothing. */
  update(
    { provider, model, usage }: RunRecord,
    agent: Agent,
    sessionUsage: Usage | undefined,
    profile: Profile,
  ): SessionUpdate | undefined {
    const modelEntry = agent.models.entries().find((entry) => entry.provider === provider && entry.model.id === model);
    const context = { used: this.#used, size: modelEntry?.model.contextWindow };
    return usageUpdate({ context, usage, sessionUsage: sessionUsage ?? usage }, profile);
  }
}
