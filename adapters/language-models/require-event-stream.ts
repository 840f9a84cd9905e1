import { readText } from "./bodies.js";
import { noAnswer, type FaultContext } from "./errors.js";
import type { Fetch } from "./network.js";

/** `fetch` that turns away what is no event stream, before a package of others reads it as an empty one. */
export function requireEventStream(fetch: Fetch, context: FaultContext): Fetch {
  return async (input, init) => {
    const response = await fetch(
      input,
      init === undefined ? undefined : { ...init, body: wellFormed(init.body) ?? null },
    );
    if (!response.ok) return response;
    const type = response.headers.get("content-type") ?? "";
    if (/event-stream|text\/plain/i.test(type) || !/html|json|xml/i.test(type)) return response;
    throw noAnswer(await readText(response), context);
  };
}

/** Half a surrogate pair (a text cut in the middle of an emoji) makes some providers refuse the whole request. */
export function wellFormed<T>(body: T | string): T | string {
  if (typeof body !== "string" || !body.includes("\\ud")) return body;
  // Pairs stand as they are in JSON; an escaped one is alone. The first alternative steps over escaped backslashes.
  return body.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (match) => (match === "\\\\" ? match : "\\ufffd"));
}
