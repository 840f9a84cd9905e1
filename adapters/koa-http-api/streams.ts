import type { Context } from "koa";
import type { ApiDependencies } from "./api.js";
import { HttpError } from "./errors.js";

/** Maximum share of streams that only watch a session. */
const WATCHER_SHARE = 0.75;

/** Limits concurrent streams: each occupies memory and a socket. */
export class StreamLimiter {
  readonly #dependencies: ApiDependencies;
  #openStreams = 0;
  #watchStreams = 0;

  constructor(dependencies: ApiDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Counts a stream until its response closes. Throws `HttpError` if the limit is reached.
   *
   * Streams that only watch get three quarters of the limit, so that they never take the last slot of a run.
   */
  reserveSlot(ctx: Context, kind: "run" | "watch"): void {
    const { streams } = this.#dependencies.options;
    const watchCount = kind === "watch" ? 1 : 0;
    const hasRoom =
      this.#openStreams < streams && (!watchCount || this.#watchStreams < Math.ceil(streams * WATCHER_SHARE));
    const releaseSlot = hasRoom ? this.#dependencies.reserveStreamSlot() : undefined;
    if (!releaseSlot) throw new HttpError(503, "too many streams", { "Retry-After": "1" }, "too_many_streams");
    this.#openStreams += 1;
    this.#watchStreams += watchCount;
    let isOpen = true;
    const release = () => {
      if (isOpen) {
        this.#openStreams -= 1;
        this.#watchStreams -= watchCount;
      }
      isOpen = false;
      releaseSlot();
    };
    ctx.res.once("close", release);
    // The response may have closed while the body was read.
    if (ctx.res.closed) release();
  }
}
