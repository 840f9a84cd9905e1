import type { Context } from "koa";
import type { ApiParts } from "./api.js";
import { HttpError } from "./errors.js";

/** Share of the streams that those who watch may take. */
const WATCHERS = 0.75;

/** Streams that go on, which are counted, for each takes memory and a socket. */
export class Streams {
  readonly #parts: ApiParts;
  #open = 0;
  #watching = 0;

  constructor(parts: ApiParts) {
    this.#parts = parts;
  }

  /**
   * One more, until its answer is over. Throws `HttpError` when there are too many. Of those that only watch a quarter
   * less may be open, so that they never take the last place of a run's.
   */
  count(ctx: Context, kind: "run" | "watch"): void {
    const { streams } = this.#parts.options;
    const watch = kind === "watch" ? 1 : 0;
    const hasRoom = this.#open < streams && (!watch || this.#watching < Math.ceil(streams * WATCHERS));
    const ended = hasRoom ? this.#parts.takeStream() : undefined;
    if (!ended) throw new HttpError(503, "too many streams", { "Retry-After": "1" }, "too_many_streams");
    this.#open += 1;
    this.#watching += watch;
    let open = true;
    const end = () => {
      if (open) {
        this.#open -= 1;
        this.#watching -= watch;
      }
      open = false;
      ended();
    };
    ctx.res.once("close", end);
    // It may have closed while the body was read.
    if (ctx.res.closed) end();
  }
}
