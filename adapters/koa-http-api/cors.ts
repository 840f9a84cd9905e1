import type { KoaHttpOptions } from "./options.js";
import { IGNORED_HEADER, MODEL_HEADER, SESSION_HEADER } from "./wire.js";

/** Headers of every response, errors included. Configured ones come last and win. */
export function commonHeaders({ headers }: Pick<KoaHttpOptions, "headers">): Readonly<Record<string, string>> {
  return {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": ["Content-Type", "Authorization", ...Object.keys(headers)].join(", "),
    "Access-Control-Expose-Headers": [SESSION_HEADER, MODEL_HEADER, IGNORED_HEADER, "Retry-After"].join(", "),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    ...headers,
  };
}
