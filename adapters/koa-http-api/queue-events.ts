import type { RunRecord } from "gantry";
import type { SseStream } from "./sse.js";

/** Reports to a client that its run is queued. */
export class QueueEvents {
  /** Resolves with the stored run when it is queued; stays pending if it starts at once. */
  readonly first: Promise<RunRecord>;
  /** The client's stream; undefined until the first report, and for requests without `stream`. */
  stream: SseStream | undefined;
  readonly #open: (run: RunRecord) => SseStream;
  readonly #isStream: boolean;
  #resolveFirst: (run: RunRecord) => void = () => undefined;

  constructor(open: (run: RunRecord) => SseStream, isStream: boolean) {
    this.#open = open;
    this.#isStream = isStream;
    this.first = new Promise((resolve) => (this.#resolveFirst = resolve));
  }

  readonly report = (runsAhead: number, run: RunRecord): void => {
    this.#resolveFirst(run);
    if (!this.#isStream) return;
    this.stream ??= this.#open(run);
    void this.stream.send("agent", { type: "queued", runs_ahead: runsAhead });
  };
}
