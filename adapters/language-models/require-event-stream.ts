import { readText } from "./bodies.js";
import { unexpectedBody, type FaultContext } from "./errors.js";
import type { Fetch } from "./network.js";

/** Wraps `fetch` and rejects answers that are no event stream; a package would read them as an empty one. */
export function requireEventStream(fetch: Fetch, context: FaultContext): Fetch {
  return async (input, init) => {
    const response = await fetch(
      input,
      init === undefined ? undefined : { ...init, body: wellFormed(init.body) ?? null },
    );
    if (!response.ok) return response;
    const type = response.headers.get("content-type") ?? "";
    if (/event-stream|text\/plain/i.test(type) || !/html|json|xml/i.test(type)) return response;
    throw unexpectedBody(await readText(response), context);
  };
}

/** Replaces lone surrogates (a text truncated within an emoji), for which some providers reject the whole request. */
export function wellFormed<T>(body: T | string): T | string {
  if (typeof body !== "string" || !body.includes("\\ud")) return body;
  // JSON contains pairs unescaped, so an escaped surrogate is alone. The first alternative skips escaped backslashes.
  return body.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (match) => (match === "\\\\" ? match : "\\ufffd"));
}
