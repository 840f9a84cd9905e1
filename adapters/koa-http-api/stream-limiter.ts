import type { Context } from "koa";
import type { ApiDependencies } from "./api.js";
import { HttpError } from "./errors.js";

/** Maximum share of streams that only watch a session. */
const WATCHER_SHARE = 0.75;

/** Limits concurrent streams: each occupies memory and a socket. */
export class StreamLimiter {
  readonly #dependencies: ApiDependencies;
  #openStreamCount = 0;
  #watchStreamCount = 0;

  constructor(dependencies: ApiDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Counts a stream until its response closes. Throws `HttpError` if the limit is reached.
   *
   * Streams that only watch get `WATCHER_SHARE` of the limit: the other slots stay free for runs.
   */
  reserveSlot(ctx: Context, kind: "run" | "watch"): void {
    const { streams } = this.#dependencies.options;
    const addedWatchCount = kind === "watch" ? 1 : 0;
    const hasFreeSlot =
      this.#openStreamCount < streams &&
      (!addedWatchCount || this.#watchStreamCount < Math.ceil(streams * WATCHER_SHARE));
    const releaseSlot = hasFreeSlot ? this.#dependencies.reserveStreamSlot() : undefined;
    if (!releaseSlot) throw new HttpError(503, "too many streams", { "Retry-After": "1" }, "too_many_streams");
    this.#openStreamCount += 1;
    this.#watchStreamCount += addedWatchCount;
    let isOpen = true;
    const release = () => {
      if (isOpen) {
        this.#openStreamCount -= 1;
        this.#watchStreamCount -= addedWatchCount;
      }
      isOpen = false;
      releaseSlot();
    };
    ctx.res.once("close", release);
    // The response may have closed while the body was read.
    if (ctx.res.closed) release();
  }
}
