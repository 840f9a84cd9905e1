import { ProviderError } from "gantry";
import { readText } from "./bodies.js";
import { looksLikeHtml, toProviderError, whyUnreadable, type FaultContext } from "./errors.js";
import type { Fetch } from "./fetch.js";

// Enough to read a title or an error.
const MOST = 256 * 1024;

/** `fetch` that turns away what is no event stream, before a package of others reads it as an empty one. */
export function guard(fetch: Fetch, context: FaultContext): Fetch {
  return async (input, init) => {
    const response = await fetch(
      input,
      init === undefined ? undefined : { ...init, body: wellFormed(init.body) ?? null },
    );
    if (!response.ok) return response;
    const type = response.headers.get("content-type") ?? "";
    if (/event-stream/i.test(type) || !/html|json|text\/plain|xml/i.test(type)) return response;
    if (/text\/plain/i.test(type)) return response;
    const body = await readText(response);
    const whole = parse(body);
    if (whole !== undefined && hasError(whole)) throw toProviderError(whole, context);
    const why = whyUnreadable(body.slice(0, MOST));
    throw new ProviderError(
      context.provider,
      "protocol",
      context.redact(looksLikeHtml(body) ? why : `unexpected: ${why}`),
    );
  };
}

/** Half a surrogate pair (a text cut in the middle of an emoji) makes some providers refuse the whole request. */
export function wellFormed(body: RequestInit["body"]): RequestInit["body"] {
  if (typeof body !== "string" || !body.includes("\\ud")) return body;
  // Pairs stand as they are in JSON; an escaped one is alone. The first alternative steps over escaped backslashes.
  return body.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (match) => (match === "\\\\" ? match : "\\ufffd"));
}

function parse(body: string): unknown {
  if (!/^\s*[[{]/.test(body)) return undefined;
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function hasError(whole: unknown): boolean {
  const value = (Array.isArray(whole) ? whole[0] : whole) as Record<string, unknown> | null;
  return (
    typeof value === "object" &&
    value !== null &&
    (value.error !== undefined || value.detail !== undefined || value.message !== undefined)
  );
}
