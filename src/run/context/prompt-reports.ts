/** The size of a prompt with its answer, as counted by the provider. */
export interface PromptReport {
  readonly tokens: number;
  /** The newest session of the chain, whose messages were counted. */
  readonly sessionId: string;
  /** The last counted message: the answer. */
  readonly messageId: string;
  readonly provider: string;
  readonly model: string;
}

/** Maximum sessions whose last report is stored. */
const MAX_REPORTS = 1_000;

/** The last report of each session in this process. */
export class PromptReports {
  /** By the id of the chain's first session. The oldest report comes first. */
  readonly #reports = new Map<string, PromptReport>();

  get(rootId: string): PromptReport | undefined {
    return this.#reports.get(rootId);
  }

  /** Stores the report of a session, or removes an older one if there is no report. */
  set(rootId: string, report: PromptReport | undefined): void {
    this.#reports.delete(rootId);
    if (!report) return;
    this.#reports.set(rootId, report);
    const [oldestId] = this.#reports.keys();
    if (this.#reports.size > MAX_REPORTS && oldestId !== undefined) this.#reports.delete(oldestId);
  }
}
