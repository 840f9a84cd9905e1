import type { KoaHttpOptions } from "./options.js";
import { IGNORED_HEADER, MODEL_HEADER, RUN_HEADER, SESSION_HEADER } from "./headers.js";

export const ALLOWED_METHODS = "GET, POST, PUT, DELETE, OPTIONS";

/** Value of `Access-Control-Allow-Headers`: the headers that every server accepts, and `extraHeaders`. */
export const formatAllowedHeaders = (
  { headers }: Pick<KoaHttpOptions, "headers">,
  extraHeaders: readonly string[] = [],
): string => ["Content-Type", "Authorization", ...extraHeaders, ...Object.keys(headers)].join(", ");

/** Headers of every response, errors included. Configured headers override them. */
export function createCommonHeaders(options: Pick<KoaHttpOptions, "headers">): Readonly<Record<string, string>> {
  const exposedHeaders = [SESSION_HEADER, RUN_HEADER, MODEL_HEADER, IGNORED_HEADER, "Retry-After"];
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
