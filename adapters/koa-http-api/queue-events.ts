import type { RunRecord } from "gantry";
import type { SseStream } from "./sse.js";

/** Reports to a client that its run is queued. */
export class QueueEvents {
  /** Resolves with the stored run when the run is queued; stays pending if the run starts at once. */
  readonly queuedRun: Promise<RunRecord>;
  /** The client's stream; undefined until the first report, and for requests without `stream`. */
  stream: SseStream | undefined;
  readonly #openStream: (run: RunRecord) => SseStream;
  readonly #isStreaming: boolean;
  #resolveQueuedRun: (run: RunRecord) => void = () => undefined;

  constructor(openStream: (run: RunRecord) => SseStream, isStreaming: boolean) {
    this.#openStream = openStream;
    this.#isStreaming = isStreaming;
    this.queuedRun = new Promise((resolve) => (this.#resolveQueuedRun = resolve));
  }

  /** Callback of `agent.run`: called when the run is queued, and when `runsAhead` changes. */
  readonly report = (runsAhead: number, run: RunRecord): void => {
    this.#resolveQueuedRun(run);
    if (!this.#isStreaming) return;
    this.stream ??= this.#openStream(run);
    void this.stream.send("agent", { type: "queued", runs_ahead: runsAhead });
  };
}
