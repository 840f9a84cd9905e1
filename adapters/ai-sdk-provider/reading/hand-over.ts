import type { Fetch } from "../fetch.js";
import { wellFormed } from "../guard.js";

/** Thrown through the package that wrote the request: with the answer it has no business. */
export class Handed extends Error {
  readonly response: Response;
  /** Who was asked. */
  readonly url: string;
  constructor(response: Response, url = response.url) {
    super("the answer is read elsewhere");
    this.response = response;
    this.url = url;
  }
}

/** `fetch` for packages that write requests: it throws every answer as `Handed`, and leaves them the refusals. */
export function handOver(fetch: Fetch): Fetch {
  return async (input, init) => {
    const body = init === undefined ? undefined : { ...init, body: wellFormed(init.body) ?? null };
    const response = await fetch(input, body);
    if (response.ok) throw new Handed(response, input instanceof Request ? input.url : String(input));
    return response;
  };
}
