import type { Context } from "koa";
import type { ApiParts } from "./api.js";
import { HttpError } from "./errors.js";

/** Streams that go on, which are counted, for each takes memory and a socket. */
export class Streams {
  readonly #parts: ApiParts;
  #open = 0;

  constructor(parts: ApiParts) {
    this.#parts = parts;
  }

  /** One more, until its answer is over. Throws `HttpError` when there are too many. */
  count(ctx: Context): void {
    const ended = this.#open < this.#parts.options.streams ? this.#parts.takeStream() : undefined;
    if (!ended) throw new HttpError(503, "too many streams", { "Retry-After": "1" }, "too_many_streams");
    this.#open += 1;
    let open = true;
    const end = () => {
      if (open) this.#open -= 1;
      open = false;
      ended();
    };
    ctx.res.once("close", end);
    // It may have closed while the body was read.
    if (ctx.res.closed) end();
  }
}
