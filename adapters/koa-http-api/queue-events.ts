import type { RunRecord } from "gantry";
import type { SseStream } from "./sse.js";

/** How a client learns that its run waits in line. */
export class Waiting {
  /** Resolves when it does, with the run as it is stored. */
  readonly first: Promise<RunRecord>;
  /** Where the client is told, once there is something to tell. */
  stream: SseStream | undefined;
  readonly #open: (run: RunRecord) => SseStream;
  readonly #isStream: boolean;
  #waits: (run: RunRecord) => void = () => undefined;

  constructor(open: (run: RunRecord) => SseStream, isStream: boolean) {
    this.#open = open;
    this.#isStream = isStream;
    this.first = new Promise((resolve) => (this.#waits = resolve));
  }

  readonly tell = (ahead: number, run: RunRecord): void => {
    this.#waits(run);
    if (!this.#isStream) return;
    this.stream ??= this.#open(run);
    void this.stream.send("agent", { type: "queued", ahead });
  };
}
