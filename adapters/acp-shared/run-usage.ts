import type { Agent, Logger, Run, RunRecord, Usage } from "gantry";
import { usageUpdate } from "./updates.js";
import type { Profile, SessionUpdate } from "./wire.js";

/** What a run uses while it goes, for one that does not come to a result. */
export class Spent {
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

  /** As far as the run went; undefined when it used nothing. Never rejects. */
  async update(run: Run | undefined, profile: Profile, logger: Logger): Promise<SessionUpdate | undefined> {
    const usage = this.#last;
    if (!usage) return undefined;
    try {
      const session = await this.#agent.sessions.get(this.#rootId);
      const context = { used: usage.totalTokens, size: run?.model.contextWindow };
      return session && usageUpdate({ context, usage, sessionUsage: session.usage }, profile);
    } catch (error) {
      logger.debug("no usage to tell", { error });
      return undefined;
    }
  }

  end(): void {
    this.#stop();
  }
}

/** What runs use that come another way, as the store tells it. */
export class RunSpent {
  #run: Pick<RunRecord, "id" | "iterations"> & { tokens: number } = { id: "", iterations: 0, tokens: 0 };
  /** Tokens of the last model call. */
  #used = 0;

  /** The record is another than before. */
  seen({ id, iterations, usage }: RunRecord): void {
    if (this.#run.id !== id) {
      this.#run = { id, iterations: 0, tokens: 0 };
      this.#used = 0;
    }
    const tokens = usage.totalTokens - this.#run.tokens;
    if (tokens <= 0) return;
    // Those of several calls that were seen at once are shared out.
    this.#used = tokens / Math.max(1, iterations - this.#run.iterations);
    this.#run = { id, iterations, tokens: usage.totalTokens };
  }

  /** Of a run that was seen; undefined when it used nothing. */
  update(
    { provider, model, usage }: RunRecord,
    agent: Agent,
    sessionUsage: Usage | undefined,
    profile: Profile,
  ): SessionUpdate | undefined {
    const named = agent.models.known().find((one) => one.provider === provider && one.model.id === model);
    const context = { used: this.#used, size: named?.model.contextWindow };
    return usageUpdate({ context, usage, sessionUsage: sessionUsage ?? usage }, profile);
  }
}
