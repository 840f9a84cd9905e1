import { abortable, createDeadline, onAbort } from "../../base/abort.js";
import type { Child, ChildEnd, ChildOptions } from "../../processes/child.js";
import type { JobProcess } from "../../processes/job.js";
import type { ToolOutput } from "../../ports/tool.js";

/** A command whose end its call awaits. It can become a background job while it runs. */
export class RunningCommand implements JobProcess {
  readonly stdin = null;
  /** Settles like `Child.run`. */
  readonly end: Promise<ChildEnd>;
  readonly #endController = new AbortController();
  readonly #stopDeadline: () => void;
  #onOutput: (chunk: Buffer) => void;

  constructor(child: Child, { timeoutMs, signal, onOutput }: Required<Omit<ChildOptions, "graceMs">>) {
    this.#onOutput = onOutput;
    const deadline = createDeadline(timeoutMs, signal);
    this.#stopDeadline = () => deadline.clear();
    onAbort(deadline.signal, () => this.#endController.abort(deadline.signal.reason));
    this.end = child
      .run({ signal: this.#endController.signal, onOutput: (chunk) => this.#onOutput(chunk) })
      .then((end): ChildEnd => (deadline.hasExpired && end.reason === "abort" ? { ...end, reason: "timeout" } : end))
      .finally(() => deadline.clear());
  }

  /**
   * Resolves with the end of the command, or with the result of `move` if `backgroundSignal` aborts first. If `move`
   * rejects, the command continues for its call.
   */
  async waitForEnd(
    backgroundSignal: AbortSignal | undefined,
    move: () => Promise<ToolOutput>,
  ): Promise<ChildEnd | ToolOutput> {
    if (!backgroundSignal) return this.end;
    const end = await abortable(this.end, backgroundSignal).catch((error: unknown) => {
      if (!backgroundSignal.aborted) throw error;
    });
    return end ?? move().catch(() => this.end);
  }

  /** Continues as a job, without the time limit and the signal of the call. */
  run({ signal, onOutput }: Required<Pick<ChildOptions, "signal" | "onOutput">>): Promise<ChildEnd> {
    this.#stopDeadline();
    this.#onOutput = onOutput;
    onAbort(signal, () => this.#endController.abort(signal.reason));
    return this.end;
  }
}
