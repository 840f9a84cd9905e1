import { readResponseText } from "./bodies.js";
import { toUnexpectedBodyError, type FaultContext } from "./errors.js";
import type { Fetch } from "./network.js";

/**
 * Wraps `fetch`: replaces lone surrogates in request bodies, and rejects successful answers whose content type is HTML,
 * JSON or XML. A package would read such an answer as an empty answer.
 */
export function requireEventStream(fetch: Fetch, context: FaultContext): Fetch {
  return async (input, init) => {
    const response = await fetch(
      input,
      init === undefined ? undefined : { ...init, body: replaceLoneSurrogates(init.body) ?? null },
    );
    if (!response.ok) return response;
    const contentType = response.headers.get("content-type") ?? "";
    if (/event-stream|text\/plain/i.test(contentType) || !/html|json|xml/i.test(contentType)) return response;
    throw toUnexpectedBodyError(await readResponseText(response), context);
  };
}

/** Replaces lone surrogates (a text truncated within an emoji), for which some providers reject the whole request. */
export function replaceLoneSurrogates<T>(body: T | string): T | string {
  if (typeof body !== "string" || !body.includes("\\ud")) return body;
  // JSON contains pairs unescaped, so an escaped surrogate is alone. The first alternative skips escaped backslashes.
  return body.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (match) => (match === "\\\\" ? match : "\\ufffd"));
}
