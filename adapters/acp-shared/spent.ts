import type { Agent, Logger, Run, Usage } from "gantry";
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
