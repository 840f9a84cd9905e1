import type { Context } from "koa";
import type { ApiParts } from "./api.js";
import { HttpError } from "./errors.js";

/** Maximum share of streams that only watch a session. */
const WATCHER_SHARE = 0.75;

/** Limits concurrent streams: each occupies memory and a socket. */
export class StreamLimiter {
  readonly #parts: ApiParts;
  #open = 0;
  #watching = 0;

  constructor(parts: ApiParts) {
    this.#parts = parts;
  }

  /**
   * Counts a stream until its response closes. Throws `HttpError` if the limit is reached.
   *
   * Streams that only watch get three quarters of the limit, so that they never take the last slot of a run.
   */
  count(ctx: Context, kind: "run" | "watch"): void {
    const { streams } = this.#parts.options;
    const watch = kind === "watch" ? 1 : 0;
    const hasRoom = this.#open < streams && (!watch || this.#watching < Math.ceil(streams * WATCHER_SHARE));
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
    // The response may have closed while the body was read.
    if (ctx.res.closed) end();
  }
}
