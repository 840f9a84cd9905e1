import type { KoaHttpOptions } from "./options.js";

export const JSON_TYPE = "application/json";
export const SESSION_HEADER = "X-Session-Id";
export const RUN_HEADER = "X-Run-Id";
export const MODEL_HEADER = "X-Model";
/** Response header with the names of the request fields that were ignored, because they are most likely misspelled. */
export const IGNORED_HEADER = "X-Ignored-Fields";

export const ALLOWED_METHODS = "GET, POST, PUT, DELETE, OPTIONS";

/** Value of `Access-Control-Allow-Headers`: the headers that every server accepts, and `extraHeaders`. */
export const formatAllowedHeaders = (
  { headers }: Pick<KoaHttpOptions, "headers">,
  extraHeaders: readonly string[] = [],
): string => ["Content-Type", "Authorization", ...extraHeaders, ...Object.keys(headers)].join(", ");

/** Headers of every response, errors included. Configured headers override them. */
export function createCommonHeaders(options: Pick<KoaHttpOptions, "headers">): Readonly<Record<string, string>> {
  const exposedHeaders = [SESSION_HEADER, RUN_HEADER, MODEL_HEADER, IGNORED_HEADER, "X-Request-Id", "Retry-After"];
  return {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": ALLOWED_METHODS,
    "Access-Control-Allow-Headers": formatAllowedHeaders(options),
    "Access-Control-Expose-Headers": exposedHeaders.join(", "),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    ...options.headers,
  };
}
